//! Wrong grid, challenge and configuration files: exit 2, told by file, line, key and remedy, and nothing is started.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;

use weir_tests::{Run, TWO_SITES, weir};

const CHALLENGE: &str = r#"
name = "bad"
seed = 1
grid = "grid.toml"

[phases]
ramp = "1s"
hold = "2s"
drain = "1s"

[[workload]]
name = "load"
kind = "rates"
file_size_min = "256 kB"
file_size_max = "1 MB"
lifetime = "5s"
rates = [{ source = "ALPHA", destination = "BETA", rate = "1 Mb/s" }]

[[threshold]]
total = true
metric = "ratio"
min = 0.5
"#;

/// Writes both files into a fresh folder, each changed by a replacement, and runs `weir` there.
fn run_changed(file: &str, from: &str, to: &str, arguments: &[&str]) -> (tempfile::TempDir, Run) {
    let scratch = tempfile::tempdir().unwrap();
    for (name, text) in [("grid.toml", TWO_SITES), ("challenge.toml", CHALLENGE)] {
        let changed = if name == file {
            text.replacen(from, to, 1)
        } else {
            text.to_string()
        };
        assert!(
            name != file || changed != text || from == to,
            "the test changes nothing"
        );
        fs::write(scratch.path().join(name), changed).unwrap();
    }
    let mut command = std::process::Command::new(weir_tests::weir_binary());
    let run = weir_tests::run(
        command
            .args(arguments)
            .current_dir(scratch.path())
            .env_remove("WEIR_LOG"),
    )
    .unwrap();
    (scratch, run)
}

/// Holds that the change is refused at this line with these words, and that nothing was made beside the input.
fn check(file: &str, from: &str, to: &str, words: &[&str]) {
    let text = if file == "grid.toml" { TWO_SITES } else { CHALLENGE };
    let at = text.find(from).unwrap() + text[text.find(from).unwrap()..].find(|c| c != '\n').unwrap();
    let line = 1 + text[..at].matches('\n').count();
    let commands: &[&[&str]] = if file == "grid.toml" {
        &[
            &["grid", "up", "grid.toml", "--dir", "d"],
            &["grid", "up", "grid.toml", "--dir", "d", "--detach"],
        ]
    } else {
        &[
            &["challenge", "run", "challenge.toml", "--out", "runs"],
            &["challenge", "check", "challenge.toml"],
        ]
    };
    for arguments in commands {
        let (scratch, run) = run_changed(file, from, to, arguments);
        assert_eq!(run.code, Some(2), "{to}: {run:?}");
        let place = format!("{file}:{line}: ");
        assert!(run.stderr.contains(&place), "{to}: no {place} in {}", run.stderr);
        for word in words {
            assert!(run.stderr.contains(word), "{to}: no {word} in {}", run.stderr);
        }
        assert!(run.stderr.contains("; "), "{to}: no remedy in {}", run.stderr);
        assert_eq!(
            fs::read_dir(scratch.path()).unwrap().count(),
            2,
            "{to}: something was started"
        );

        let json: Vec<&str> = arguments.iter().copied().chain(["--json"]).collect();
        let (_scratch, run) = run_changed(file, from, to, &json);
        let envelope = run.envelope().unwrap();
        assert_eq!(
            (run.code, envelope["ok"].as_bool(), envelope["weir"].as_u64()),
            (Some(2), Some(false), Some(1))
        );
        assert!(envelope["error"]["causes"].to_string().contains(&place), "{envelope}");
    }
}

#[test]
fn wrong_grid_files_are_refused() {
    // A grid that is not what its file says would be tested.
    check(
        "grid.toml",
        "quota = \"2 GB\"",
        "quoter = \"2 GB\"",
        &["quoter", "quota"],
    );
    check("grid.toml", "quota = \"2 GB\"", "quota = \"2\"", &["rse.quota", "unit"]);
    check("grid.toml", "quota = \"2 GB\"", "quota = \"-2 GB\"", &["rse.quota"]);
    check("grid.toml", "quota = \"2 GB\"", "quota = -5", &["rse.quota"]);
    check("grid.toml", "site = \"B\"", "site = \"C\"", &["rse.site", "C"]);
    check(
        "grid.toml",
        "name = \"BETA\"",
        "name = \"ALPHA\"",
        &["rse.name", "ALPHA"],
    );
    check(
        "grid.toml",
        "durability = \"cache\"",
        "durability = \"hope\"",
        &["storage.durability", "cache"],
    );
    check("grid.toml", "name = \"BETA\"", "name = \"../BETA\"", &["rse.name"]);
    check("grid.toml", "[storage]", "[storage", &["TOML"]);
}

#[test]
fn wrong_challenge_files_are_refused() {
    // Hours of network time would go into a challenge that was never meant.
    check("challenge.toml", "hold = \"2s\"", "holds = \"2s\"", &["holds", "hold"]);
    check(
        "challenge.toml",
        "hold = \"2s\"",
        "hold = \"2\"",
        &["phases.hold", "unit"],
    );
    check("challenge.toml", "min = 0.5", "min = \"much\"", &["threshold.min"]);
    check(
        "challenge.toml",
        "file_size_min = \"256 kB\"",
        "file_size_min = \"-1 kB\"",
        &["file_size_min"],
    );
    check(
        "challenge.toml",
        "kind = \"rates\"",
        "kind = \"rapids\"",
        &["workload.kind", "rates"],
    );
    check(
        "challenge.toml",
        "rates = [{ source = \"ALPHA\", destination = \"BETA\", rate = \"1 Mb/s\" }]",
        "rates = [{ source = \"ALPHA\", destination = \"BETA\", rate = \"1\" }]",
        &["rate", "unit"],
    );
    check(
        "challenge.toml",
        "rates = [{ source = \"ALPHA\", destination = \"BETA\", rate = \"1 Mb/s\" }]",
        "rates = [{ source = \"OMEGA\", destination = \"BETA\", rate = \"1 Mb/s\" }]",
        &["OMEGA"],
    );
}

#[test]
fn a_file_that_is_not_there_is_bad_input() {
    for arguments in [
        &["grid", "up", "nowhere.toml", "--dir", "d"][..],
        &["challenge", "run", "nowhere.toml"],
        &["challenge", "check", "nowhere.toml"],
        &["serve", "storage", "--config", "nowhere.toml"],
        &["serve", "issuer", "--config", "nowhere.toml"],
        &["serve", "transfer", "--config", "nowhere.toml"],
    ] {
        let run = weir(arguments).unwrap();
        assert_eq!(run.code, Some(2), "{run:?}");
        assert!(run.stderr.contains("nowhere.toml"), "{run:?}");
    }
}

#[test]
fn wrong_service_configurations_are_refused() {
    // A service that takes a typing error silently is not what its operator asked for.
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("service.toml");
    for service in ["storage", "issuer", "transfer"] {
        fs::write(&file, "# one\n\nliisten = \"127.0.0.1:0\"\n").unwrap();
        let run = weir(&["serve", service, "--config", file.to_str().unwrap()]).unwrap();
        assert_eq!(run.code, Some(2), "{service}: {run:?}");
        for word in ["service.toml:3: liisten: ", "did you mean `listen`?"] {
            assert!(run.stderr.contains(word), "{service}: no {word} in {}", run.stderr);
        }
    }
}
