#![allow(clippy::unwrap_used, reason = "a failed test may panic")]
use super::*;

#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Sample {
    listen: std::net::SocketAddr,
    #[serde(default)]
    key: Option<PathBuf>,
    #[serde(default)]
    area: Vec<Area>,
    #[serde(default)]
    limits: Limits,
}

#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Area {
    #[expect(dead_code, reason = "read by serde only")]
    name: String,
    quota: Option<weir_units::Bytes>,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Limits {
    x: Option<u32>,
}

impl Configuration for Sample {
    fn paths(&mut self) -> Vec<&mut PathBuf> {
        self.key.iter_mut().collect()
    }

    fn check(&self) -> Vec<Invalid> {
        let mut invalid = Vec::new();
        if self.listen.port() == 1 {
            invalid.push(Invalid::new("listen", "port 1 is taken", "take another"));
        }
        if self.limits.x == Some(0) {
            invalid.push(Invalid::new("limits.x", "0 lets nothing through", "set at least 1"));
        }
        let quotas = self.area.iter().map(|area| area.quota.unwrap_or_default());
        if quotas.map(|quota| quota.0).sum::<u64>() > 1000 {
            invalid.push(Invalid::new("area", "more than there is", "lower a quota"));
        }
        invalid
    }
}

fn told(text: &str) -> Vec<String> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    let ConfigError::File(problems) = load::<Sample>(file.path()).unwrap_err() else {
        panic!("it came from a file");
    };
    let path = file.path().display().to_string();
    problems
        .iter()
        .map(|problem| problem.to_string().replace(&path, "c.toml"))
        .collect()
}

#[test]
fn wrong_files_are_told_by_line_key_and_remedy() {
    // An operator would search a long file for one wrong line.
    for (text, expected) in [
        (
            "liste = \"127.0.0.1:9\"\nlisten = \"127.0.0.1:9\"\n",
            "c.toml:1: liste: unknown field `liste`, expected one of `listen`, `key`, `area`, `limits`; did you mean `listen`?",
        ),
        (
            "\n[[area]]\nname = \"a\"\n",
            "c.toml:1: listen: missing field `listen`; add `listen = …`",
        ),
        (
            "listen = \"127.0.0.1:9\"\n[[area]]\nname = \"a\"\n[[area]]\nquota = \"1 GB\"\n",
            "c.toml:4: area[1].name: missing field `name`; add `name = …`",
        ),
        (
            "listen = \n",
            "c.toml:1: string values must be quoted, expected literal string; correct the TOML",
        ),
        (
            "listen = \"127.0.0.1:9\"\n[[area]]\nname = \"a\"\nquota = \"1\"\n",
            "c.toml:4: area[0].quota: size \"1\" has no unit; add a unit, such as \"1 GB\"",
        ),
    ] {
        assert_eq!(told(text), [expected]);
    }
}

#[test]
fn all_that_is_wrong_is_told_at_once() {
    // An operator would correct a file as many times as it has mistakes.
    let text = "listen = \"127.0.0.1:9\"\nkye = \"k\"\n[limit]\nx = 3\ny = 4\n[[area]]\nname = 7\nquota = \"1\"\n[limits]\nx = \"3\"\n";
    let told_ = told(text);
    let keys = told_
        .iter()
        .map(|told| told.split(": ").take(2).collect::<Vec<_>>().join(" "));
    assert_eq!(
        keys.collect::<Vec<_>>(),
        [
            "c.toml:2 kye",
            "c.toml:3 limit",
            "c.toml:7 area[0].name",
            "c.toml:8 area[0].quota",
            "c.toml:10 limits.x"
        ],
        "{told_:#?}"
    );
    // Dotted keys, tables in braces, and letters of more than one byte, in which positions are counted.
    let text = "\"ölisten\" = 1\nlisten = \"127.0.0.1:9\"\nlimits.x = \"ü\"\nkye = \"é\"\narea = [{ name = \"a\", quota = \"ö\" }]\n";
    let lines = told(text)
        .iter()
        .map(|told| told.split(": ").take(2).collect::<Vec<_>>().join(" "))
        .collect::<Vec<_>>();
    assert_eq!(
        lines,
        [
            "c.toml:1 ölisten",
            "c.toml:3 limits.x",
            "c.toml:4 kye",
            "c.toml:5 area[0].quota"
        ]
    );
    let text = "listen = \"127.0.0.1:1\"\n\n[limits]\nx = 0\n";
    assert_eq!(
        told(text),
        [
            "c.toml:1: listen: port 1 is taken; take another",
            "c.toml:4: limits.x: 0 lets nothing through; set at least 1"
        ]
    );
}

#[test]
fn paths_are_relative_to_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("c.toml");
    std::fs::write(&path, "listen = \"127.0.0.1:9\"\nkey = \"a/key\"\n").unwrap();
    assert_eq!(load::<Sample>(&path).unwrap().key, Some(folder.path().join("a/key")));
}

#[test]
fn keys_are_found_by_name() {
    let text = "listen = 1\n\n[limits]\nx = 1\n\n[[area]]\nname = \"a\"\n\n[[area]]\nname = \"b\"\n";
    for (key, line) in [
        ("limits.x", Some(4)),
        ("limits.absent", Some(3)),
        ("area[1].name", Some(10)),
        ("absent", None),
    ] {
        assert_eq!(line_of_key(text, key), line, "{key}");
    }
}
