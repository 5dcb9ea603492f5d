//! The output of `weir --help` and its kin, as one snapshot: read the difference before accepting it.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::process::Command;

const COMMANDS: [&str; 62] = [
    "probe",
    "authority",
    "authority new",
    "authority host",
    "authority user",
    "challenge",
    "challenge run",
    "challenge new",
    "challenge check",
    "challenge plan",
    "challenge clean",
    "grid",
    "grid up",
    "grid env",
    "grid status",
    "grid down",
    "grid site",
    "serve",
    "serve storage",
    "serve issuer",
    "serve transfer",
    "serve catalog",
    "storage",
    "storage ls",
    "storage get",
    "storage put",
    "storage rm",
    "storage checksum",
    "storage du",
    "transfer",
    "transfer submit",
    "transfer status",
    "transfer watch",
    "transfer cancel",
    "transfer list",
    "transfer why",
    "transfer limits",
    "transfer force",
    "transfer drain",
    "rule",
    "rule add",
    "rule list",
    "rule show",
    "rule watch",
    "rule why",
    "rule delete",
    "load",
    "load add",
    "load list",
    "load show",
    "load stop",
    "catalog",
    "catalog status",
    "catalog backup",
    "catalog check",
    "catalog restore",
    "sim",
    "sim run",
    "sim compare",
    "sim flows",
    "report",
    "completions",
];

fn weir(arguments: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(arguments)
        .env_remove("WEIR_LOG")
        .output()
        .unwrap();
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

fn help_of(command: &str) -> String {
    let arguments: Vec<&str> = command.split_whitespace().chain(["--help"]).collect();
    let (code, help) = weir(&arguments);
    assert_eq!(code, Some(0), "{command}");
    help
}

#[test]
fn the_help_of_every_command_is_as_reviewed() {
    // A renamed option would break somebody's script without anybody having read it.
    let mut all = help_of("");
    for command in COMMANDS {
        let help = help_of(command);
        let own = help.split("\nCommon options:").next().unwrap();
        all.extend(["\n$ weir ", command, " --help\n", own]);
    }
    insta::assert_snapshot!(all);
}

#[test]
fn first_lines_are_imperative_short_and_without_full_stop() {
    for command in COMMANDS {
        let help = help_of(command);
        let first = help.lines().next().unwrap();
        assert!(first.len() <= 90, "{command}: {first}");
        assert!(!first.ends_with('.'), "{command}: {first}");
        let verb = first.split(' ').next().unwrap();
        assert!(
            verb.starts_with(char::is_uppercase) && !verb.ends_with('s'),
            "{command}: {first}"
        );
    }
}

#[test]
fn completions_name_every_command() {
    for shell in ["bash", "zsh", "fish"] {
        let (code, script) = weir(&["completions", shell]);
        assert_eq!(code, Some(0));
        for word in ["challenge", "grid", "serve", "--json"] {
            assert!(script.contains(word.trim_start_matches('-')), "{shell}: {word}");
        }
    }
}

#[test]
fn a_command_that_is_unknown_leads_to_those_that_there_are() {
    // Wrong: somebody who mistypes a command, or asks for help in the usual way, is sent elsewhere.
    let (code, text) = weir(&["challenge", "rnu", "--json"]);
    assert_eq!(code, Some(2));
    assert!(text.contains("did you mean `weir challenge run`?"), "{text}");
    assert_eq!(
        weir(&["help", "challenge", "run"]),
        weir(&["challenge", "run", "--help"])
    );
    assert_eq!(weir(&["help"]), weir(&["--help"]));
}

#[test]
fn a_word_that_is_no_text_is_an_error_like_others() {
    use std::os::unix::ffi::OsStrExt as _;
    let word = std::ffi::OsStr::from_bytes(b"\xff");
    let ran = Command::new(env!("CARGO_BIN_EXE_weir")).arg(word).output().unwrap();
    assert_eq!(ran.status.code(), Some(2), "{ran:?}");
    assert!(!String::from_utf8_lossy(&ran.stderr).contains("bug"), "{ran:?}");
}

#[test]
fn wrong_options_exit_2_in_the_envelope_too() {
    let (code, text) = weir(&["grid", "up", "--nonsense", "--json"]);
    assert_eq!(code, Some(2));
    assert!(
        text.starts_with(r#"{"weir":1,"#) && text.contains(r#""ok":false"#),
        "{text}"
    );
    assert_eq!(weir(&[]).0, Some(2));
    assert_eq!(
        weir(&["--version"]),
        (Some(0), concat!("weir ", env!("CARGO_PKG_VERSION"), "\n").to_string())
    );
}
