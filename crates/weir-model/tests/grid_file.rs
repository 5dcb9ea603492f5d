//! Reading grid files: valid files are accepted, and everything else is refused.
#![allow(clippy::unwrap_used)] // a panic is how a test fails

use std::path::{Path, PathBuf};
use std::time::Duration;

use weir_model::file::{Key, Table};
use weir_model::{Durability, GRID_TABLES, Grid, GridIssuer, Link, Place, RseKind, RseName, TokenFrom, TransferTokens};
use weir_units::{Algorithm, BitRate, Bytes};

const FULL: &str = r#"
name = "mixed"
vo = "juno"
authority = "ca"
reach = ["10.9.0.0/16", "fd00::5"]

[storage]
quota = "2 GiB"
durability = "cache"
checksums = ["adler32", "sha256"]
bandwidth = "400 Mb/s"

[issuer]
listen = "192.0.2.7"
token_lifetime = "2 m"
answer_delay = "400 ms"

[transfer]
tokens = "per-file"
max_active_per_rse_in = 7
max_active_per_rse_out = 8
max_active_per_link = 9
retries = 0
retry_delay = "500 ms"

[[site]]
name = "CNAF"
tier = 1

[[rse]]
name = "CNAF_DISK"
site = "CNAF"

[[rse]]
name = "IHEP"
quota = "1 GB"
durability = "full"
read_only = true
checksums = ["md5"]
bandwidth = "2 Gb/s"
listen = "0.0.0.0:8443"
host = "se.ihep.example"

[[rse]]
name = "JINR"
url = "https://127.0.0.1:1094/data/"
ca = "certs/ca.pem"
token_file = "/run/token"

[[rse]]
name = "IN2P3"
url = "https://ccdavrw.example.org"
base_path = "/"
redirect_hosts = ["node1.example.org", "*.pools.example.org"]
token_issuer = { token_url = "https://iam.example.org/token", client_id = "weir", secret_file = "secret", ca = "i.pem" }
"#;

/// A key would be read into the wrong field, a default lost, or a path joined wrongly.
#[test]
fn a_full_file() {
    let grid = Grid::parse(FULL, Path::new("grids/mixed.toml")).unwrap();
    assert_eq!((grid.name.as_str(), grid.vo.as_str()), ("mixed", "juno"));
    assert_eq!(grid.authority.as_deref(), Some(Path::new("grids/ca")));
    assert_eq!(grid.reach, ["10.9.0.0/16", "fd00::5"]);
    let GridIssuer::Embedded(issuer) = &grid.issuer else {
        panic!("{:?}", grid.issuer);
    };
    let times = (issuer.token_lifetime, issuer.answer_delay);
    assert_eq!(times, (Duration::from_secs(120), Duration::from_millis(400)));
    assert_eq!(grid.transfer_tokens, TransferTokens::PerFile);
    let issuer = issuer.place.as_ref().unwrap();
    assert_eq!(
        (issuer.listen.to_string(), issuer.port, issuer.host.as_str()),
        ("192.0.2.7".to_owned(), None, "192.0.2.7")
    );
    let sites: Vec<_> = grid.sites.iter().map(|site| (site.name.as_str(), site.tier)).collect();
    assert_eq!(sites, [("CNAF", 1), ("IHEP", 2), ("JINR", 2), ("IN2P3", 2)]);
    let limits = &grid.transfer;
    assert_eq!(
        (
            limits.max_active_per_rse_in,
            limits.max_active_per_rse_out,
            limits.max_active_per_link
        ),
        (7, 8, 9)
    );
    assert_eq!((limits.retries, limits.retry_delay), (0, Duration::from_millis(500)));
    let kind = |name: &str| grid.rse(&RseName::new(name).unwrap()).unwrap().kind.clone();
    assert_eq!(
        kind("CNAF_DISK"),
        RseKind::Embedded {
            quota: Bytes(2 << 30),
            read_only: false,
            checksums: vec![Algorithm::Adler32, Algorithm::Sha256],
            durability: Durability::Cache,
            bandwidth: Some(BitRate(400_000_000)),
            place: None,
        }
    );
    assert_eq!(
        kind("IHEP"),
        RseKind::Embedded {
            quota: Bytes(1_000_000_000),
            read_only: true,
            checksums: vec![Algorithm::Md5],
            durability: Durability::Full,
            bandwidth: Some(BitRate(2_000_000_000)),
            place: Some(Place {
                listen: "0.0.0.0".parse().unwrap(),
                port: Some(8443),
                host: "se.ihep.example".into(),
            }),
        }
    );
    assert_eq!(
        kind("JINR"),
        RseKind::External {
            url: "https://127.0.0.1:1094/data".into(),
            ca: Some("grids/certs/ca.pem".into()),
            token: TokenFrom::File("/run/token".into()),
            base_path: None,
            redirect_hosts: Vec::new(),
        }
    );
    let token = TokenFrom::Issuer {
        token_url: "https://iam.example.org/token".into(),
        client_id: "weir".into(),
        secret_file: "grids/secret".into(),
        ca: Some("grids/i.pem".into()),
    };
    assert_eq!(
        kind("IN2P3"),
        RseKind::External {
            url: "https://ccdavrw.example.org".into(),
            ca: None,
            token,
            base_path: Some(String::new()),
            redirect_hosts: ["node1.example.org", "*.pools.example.org"]
                .map(|host| host.parse().unwrap())
                .into(),
        }
    );
}

/// The smallest grid file would be refused, or its defaults be unsafe.
#[test]
fn the_smallest_file() {
    let grid = Grid::parse("name = \"one\"\n[[rse]]\nname = \"A\"", Path::new("one.toml")).unwrap();
    let RseKind::Embedded {
        quota,
        read_only,
        checksums,
        durability,
        bandwidth: None,
        place: None,
    } = &grid.rses[0].kind
    else {
        panic!("an RSE without url is embedded");
    };
    assert_eq!(
        (*quota, *read_only, *durability),
        (Bytes(10_000_000_000), false, Durability::Full)
    );
    assert_eq!(*checksums, [Algorithm::Adler32, Algorithm::Crc32c]);
    assert_eq!(grid.vo.as_str(), "weir");
}

/// A grid written into a run folder would not be the grid that ran.
#[test]
fn a_written_value_reads_back() {
    let grid = Grid::parse(FULL, Path::new("/g/mixed.toml")).unwrap();
    let text = toml::to_string(&grid.to_toml()).unwrap();
    assert_eq!(
        Grid::parse(&text, Path::new("/elsewhere/x.toml")).unwrap(),
        grid,
        "{text}"
    );
}

fn problems(text: &str) -> String {
    let list = Grid::parse(text, Path::new("g.toml")).expect_err(text);
    list.iter().map(ToString::to_string).collect::<Vec<_>>().join(
        "
",
    )
}

fn check(text: &str, expected: &str) {
    assert_eq!(problems(text).trim_end(), expected, "for\n{text}");
}

/// A fault would be accepted, or reported without its place or its remedy.
#[test]
#[expect(clippy::too_many_lines, reason = "a list of faults")]
fn every_fault_names_line_key_and_remedy() {
    let head = "name = \"g\"\n[[rse]]\nname = \"A\"\n";
    let after = |rest: &str, expected: &str| check(&format!("{head}{rest}"), expected);
    after(
        "quotas = \"1 GB\"",
        "g.toml:4: rse.quotas: unknown key; did you mean \"quota\"?",
    );
    after(
        "colour = 1",
        "g.toml:4: rse.colour: unknown key; known here: name, site, quota, durability, checksums, bandwidth, read_only, listen, \
         host, url, ca, token_file, base_path, redirect_hosts, token_issuer",
    );
    after(
        "listen = \"0.0.0.0:8443\"",
        "g.toml:4: rse.listen: listens on all addresses, and nothing says by which name others reach it; \
         add host = \"this.host.example.org\"",
    );
    after(
        "listen = \"se.example.org\"",
        "g.toml:4: rse.listen: \"se.example.org\" is no address; \
         write such as \"0.0.0.0\", \"192.0.2.7:8443\" or \"[::]:8443\"",
    );
    for (host, problem) in [
        ("https://se", "\"https://se\" is not a host"),
        ("0.0.0.0", "0.0.0.0 cannot be connected to"),
        ("[::1]", "has brackets"),
    ] {
        let remedy = if host.starts_with('[') {
            "write the address without them"
        } else {
            "write the name or address by which other hosts reach this machine, without scheme and port"
        };
        after(
            &format!("host = \"{host}\""),
            &format!("g.toml:4: rse.host: {problem}; {remedy}"),
        );
    }
    check(
        "name = \"g\"\nreach = [\"10.9.0.0/33\"]\n[[rse]]\nname = \"A\"\n",
        "g.toml:2: reach: \"10.9.0.0/33\" is no network; write such as \"10.9.0.0/16\" or \"fd00:9::/32\"",
    );
    after(
        "quota = \"5\"",
        "g.toml:4: rse.quota: size \"5\" has no unit; add a unit, such as \"5 GB\"",
    );
    after(
        "quota = 5",
        "g.toml:4: rse.quota: size 5 has no unit; add a unit, such as \"5 GB\", in quotes",
    );
    after(
        "quota = \"-5 GB\"",
        "g.toml:4: rse.quota: size \"-5 GB\" is negative; write a number and a unit, such as \"5 GB\"",
    );
    after(
        "quota = -5",
        "g.toml:4: rse.quota: size -5 is negative; write a number and a unit, such as \"5 GB\", in quotes",
    );
    after(
        "quota = \"0 B\"",
        "g.toml:4: rse.quota: must be above zero; write a size such as \"10 GB\"",
    );
    after(
        "[issuer]\nanswer_delay = \"2 m\"",
        "g.toml:5: issuer.answer_delay: is out of bounds; write a time from \"0s\" to \"1m\"",
    );
    after(
        "[issuer]\ntoken_lifetime = \"1 s\"",
        "g.toml:5: issuer.token_lifetime: is out of bounds; write a time from \"10s\" to \"1d\"",
    );
    after(
        "bandwidth = \"0 b/s\"",
        "g.toml:4: rse.bandwidth: is below 1 Mb/s; write a rate such as \"400 Mb/s\"",
    );
    after(
        "url = \"https://127.0.0.1/\"\nbandwidth = \"1 Gb/s\"",
        "g.toml:5: rse.bandwidth: is for embedded RSEs; remove this key, or remove url",
    );
    after(
        "quota = true",
        "g.toml:4: rse.quota: must be a size, not a boolean; write it such as \"5 GB\"",
    );
    after(
        "durability = \"ful\"",
        "g.toml:4: rse.durability: \"ful\" is not known here; did you mean \"full\"?",
    );
    after(
        "durability = \"tape\"",
        "g.toml:4: rse.durability: \"tape\" is not known here; use one of full, cache",
    );
    after(
        "checksums = [\"adler\", \"crc32\"]",
        "g.toml:4: rse.checksums: \"crc32\" is not known here; did you mean \"crc32c\"?",
    );
    after(
        "checksums = []",
        "g.toml:4: rse.checksums: names no algorithm; write [\"adler32\"]: transfers verify by it",
    );
    after(
        "checksums = [\"md5\",\n\"MD5\"]",
        "g.toml:4: rse.checksums: an algorithm is there twice; name each once",
    );
    after(
        "checksums = \"md5\"",
        "g.toml:4: rse.checksums: must be a list, not a text; write it in brackets, such as [\"…\"]",
    );
    after(
        "read_only = \"yes\"",
        "g.toml:4: rse.read_only: must be true or false, not a text; write true or false, without quotes",
    );
    after(
        "ca = \"x\"",
        "g.toml:4: rse.ca: is for external RSEs; add url, or remove this key",
    );
    after(
        "url = \"http://h/\"",
        "g.toml:4: rse.url: the scheme is http; use https://: tokens must not travel in the clear",
    );
    after(
        "url = \"https://h/\"\nquota = \"1 B\"",
        "g.toml:5: rse.quota: is for embedded RSEs; remove this key, or remove url",
    );
    after(
        "url = \"https://h/\"\ntoken_file = \"a\"\ntoken_issuer = { }",
        "g.toml:6: rse.token_issuer: stands beside token_file; keep one of the two",
    );
    after(
        "url = \"https://h/\"\ntoken_issuer = { token_url = \"https://i\", client_id = \"c\" }",
        "g.toml:5: rse.token_issuer.secret_file: is missing; add secret_file (path)",
    );
    after(
        "site = \"B\"",
        "g.toml:4: rse.site: there is no site \"B\"; add a [[site]] of that name, or leave site out to get the site \"A\"",
    );
    after(
        "[[site]]\nname = \"GLASGOW\"\n[[rse]]\nname = \"B\"\nsite = \"GLASGWO\"",
        "g.toml:8: rse.site: there is no site \"GLASGWO\"; did you mean \"GLASGOW\"?",
    );
    after(
        "[[rse]]\nname = \"A\"",
        "g.toml:5: rse.name: \"A\" is there twice, first on line 2; choose another name or remove one",
    );
    after(
        "[[rse]]\nname = \"B-1\"\n[[rse]]\nname = \"B_1\"",
        "g.toml:7: rse.name: \"B_1\" and \"B-1\" are one name, B_1, where shells and metrics name them; choose names that differ \
         in letters or digits",
    );
    after(
        "[[site]]\nname = \"S\"\n[[site]]\nname = \"S\"",
        "g.toml:7: site.name: \"S\" is there twice, first on line 4; choose another name or remove one",
    );
    after(
        "[[site]]\nname = \"S\"\ntier = 4",
        "g.toml:6: site.tier: there is no tier 4; write 0, 1, 2 or 3",
    );
    after(
        "[[rse]]\nsite = \"A\"",
        "g.toml:4: rse.name: is missing; add name (name)",
    );
    after(
        "[[rse]]\nname = \"A/B\"",
        "g.toml:5: rse.name: the name \"A/B\" holds '/'; use 1 to 63 letters, digits, '.', '_' or '-', beginning with a letter or digit",
    );
    after(
        "[transfer]\nmax_active_per_link = 0",
        "g.toml:5: transfer.max_active_per_link: must be above zero; write 1 or more",
    );
    after(
        "[transfer]\nretries = -1",
        "g.toml:5: transfer.retries: -1 is negative; write 0 or more",
    );
    after(
        "[transfer]\nretries = 1e3",
        "g.toml:5: transfer.retries: must be a whole number, not a float; write a whole number, without quotes",
    );
    after(
        "[transfer]\nretry_delay = \"10\"",
        "g.toml:5: transfer.retry_delay: duration \"10\" has no unit; add a unit, such as \"10 s\"",
    );
    after(
        "[transfer]\nretry_delay = \"2 d\"",
        "g.toml:5: transfer.retry_delay: is longer than a day; write at most \"1 d\"",
    );
    after(
        "[[rse]]\nname = \"B\"\nurl = \"https://h/a\"\n[[rse]]\nname = \"C\"\nurl = \"https://h/a/\"",
        "g.toml:9: rse.url: two RSEs share this folder; give each its own",
    );
    check(
        "name = \"g\"\nrse = 5",
        "g.toml:2: rse: must be a list of tables, not an integer; write it as [[rse]]\ng.toml:2: rse: there is no RSE; add an [[rse]] with a name",
    );
    check(
        "name = \"g\"\nrse = []",
        "g.toml:2: rse: there is no RSE; add an [[rse]] with a name",
    );
    check("name = \"g\"\n", "g.toml: rse: is missing; add an [[rse]] with a name");
    check("[[rse]]\nname = \"A\"", "g.toml: name: is missing; add name (name)");
    check(
        "name = \"g\"\nname = \"h\"",
        "g.toml:2: duplicate key; keep one of the two",
    );
}

/// Only the first fault of a file would be reported.
#[test]
fn all_faults_at_once() {
    let text =
        "nam = \"g\"\nvo = \"a b\"\n[storage]\nquota = 1\n[[rse]]\nname = \"A\"\nquotas = 1\n[[rse]]\nname = 5\n";
    let lines: Vec<String> = problems(text)
        .lines()
        .map(|line| line.split(';').next().unwrap().to_owned())
        .collect();
    assert_eq!(
        lines,
        [
            "g.toml: name: is missing",
            "g.toml:1: nam: unknown key",
            "g.toml:2: vo: the name \"a b\" holds ' '",
            "g.toml:4: storage.quota: size 1 has no unit",
            "g.toml:7: rse.quotas: unknown key",
            "g.toml:9: rse.name: must be a text, not an integer",
        ]
    );
}

/// A text that is not TOML would pass, or crash the reader.
#[test]
fn syntax_errors_have_lines() {
    for (text, line) in [("name = ", 1), ("name = \"g\"\n[[rse]\n", 2), ("a = 1\nb = = 2\n", 2)] {
        let list = Grid::parse(text, Path::new("g.toml")).expect_err(text);
        assert_eq!(list[0].line, Some(line), "{text}: {}", list[0]);
        assert!(!list[0].message.is_empty() && !list[0].remedy.is_empty());
    }
}

/// A missing file, a folder, a binary file or a missing certificate would not be named.
#[test]
fn files_on_disk() {
    let folder = tempfile::tempdir().unwrap();
    let refusal = |path: PathBuf| Grid::load(&path).unwrap_err()[0].to_string();
    assert!(refusal(folder.path().join("none.toml")).contains("could not be read: no such file or directory"));
    assert!(refusal(folder.path().to_owned()).contains("could not be read"));
    let file = folder.path().join("g.toml");
    std::fs::write(&file, [0xff, 0xfe]).unwrap();
    assert!(refusal(file.clone()).contains("is not UTF-8"));
    let text = "name = \"g\"\n[[rse]]\nname = \"A\"\nurl = \"https://h\"\nca = \"ca.pem\"\n";
    std::fs::write(&file, text).unwrap();
    assert!(refusal(file.clone()).contains(":5: rse.ca: there is no file"));
    std::fs::write(folder.path().join("ca.pem"), "").unwrap();
    let grid = Grid::load(&file).unwrap();
    assert!(matches!(&grid.rses[0].kind, RseKind::External { ca: Some(ca), .. } if ca.is_absolute()));
}

/// Links would not print as the field writes them, or not read back.
#[test]
fn links() {
    let link: Link = "RAL->QMUL".parse().unwrap();
    assert_eq!(link.to_string(), "RAL→QMUL");
    assert_eq!(link.to_string().parse::<Link>().unwrap(), link);
    assert!("RAL".parse::<Link>().is_err());
    assert!("RAL->".parse::<Link>().is_err());
}

/// A key would be listed in the handbook's source but not read: each listed key, given a date, must be complained
/// about by name and for its type, and no table may list a key twice.
#[test]
fn every_listed_key_is_read() {
    let date = "1979-05-27";
    let place = |table: &Table, key: &Key| {
        let line = format!("{} = {date}\n", key.name);
        let rest = |name: &str| {
            if key.name == name {
                String::new()
            } else {
                format!("{name} = \"A\"\n")
            }
        };
        match table.title {
            "The grid" => line,
            "[[rse]]" if ["ca", "token_file", "token_issuer", "base_path", "redirect_hosts"].contains(&key.name) => {
                format!("[[rse]]\nname = \"A\"\nurl = \"https://h\"\n{line}")
            }
            "[rse.token_issuer]" => format!("[[rse]]\nname = \"A\"\nurl = \"https://h\"\n[rse.token_issuer]\n{line}"),
            "[catalog]" if key.name != "poll" && key.name != "url" => {
                let key_too = if key.name == "key" { "certificate = \"c\"\n" } else { "" };
                format!("[catalog]\nurl = \"https://h\"\n{key_too}{line}")
            }
            "[transfer]" if ["certificate", "key"].contains(&key.name) => {
                let key_too = if key.name == "key" { "certificate = \"c\"\n" } else { "" };
                format!("[transfer]\nurl = \"https://h\"\n{key_too}{line}")
            }
            "[issuer]" | "[transfer]"
                if ["client_id", "secret_file", "ca", "audience", "token_file"].contains(&key.name) =>
            {
                format!("{}\nurl = \"https://h\"\n{line}", table.title)
            }
            title => format!(
                "{title}\n{}{line}",
                if title.starts_with("[[") {
                    rest("name")
                } else {
                    String::new()
                }
            ),
        }
    };
    for table in GRID_TABLES {
        for (at, key) in table.keys.iter().enumerate() {
            assert!(
                !table.keys[..at].iter().any(|other| other.name == key.name),
                "{} twice",
                key.name
            );
            let text = place(table, key);
            let wrong = format!("{}: must be ", key.name);
            let found = problems(&text)
                .lines()
                .any(|line| line.contains(&wrong) && line.contains("not a datetime"));
            assert!(
                found,
                "{} of {} is not read:\n{}",
                key.name,
                table.title,
                problems(&text)
            );
        }
    }
}

#[test]
fn a_broker_is_read_written_and_checked() {
    let text =
        "name = \"g\"\n[[rse]]\nname = \"A\"\n[broker]\naddress = \"127.0.0.1:61613\"\ntls = false\nuser = \"weir\"\n";
    let grid = Grid::parse(text, "g.toml".as_ref()).unwrap();
    let broker = grid.broker.clone().unwrap();
    assert_eq!((broker.address.as_str(), broker.tls), ("127.0.0.1:61613", false));
    assert_eq!((broker.user.as_deref(), broker.password_file), (Some("weir"), None));
    let again = toml::to_string(&grid.to_toml()).unwrap();
    assert_eq!(Grid::parse(&again, "g.toml".as_ref()).unwrap(), grid);
    for (broker, problem) in [
        ("tls = true", "address"),
        ("address = \"broker\"", "host:port"),
        ("address = \":61613\"", "host:port"),
    ] {
        let text = format!("name = \"g\"\n[[rse]]\nname = \"A\"\n[broker]\n{broker}\n");
        let problems = Grid::parse(&text, "g.toml".as_ref()).unwrap_err();
        assert!(problems[0].to_string().contains(problem), "{broker}: {}", problems[0]);
    }
}
