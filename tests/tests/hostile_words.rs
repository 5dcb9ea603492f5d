//! A storage whose errors hold escape sequences, direction marks, a page's script and a formula: none of it acts where people look.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Result;
use weir_auth::ca::{CertificateAuthority, San, write_identity};
use weir_tests::{Daemon, files_below, free_port, run, wait_for, weir_binary, write_private};

const ADDRESS: Ipv4Addr = Ipv4Addr::new(127, 0, 9, 21);

/// The storage, and the URL at which it answers.
fn storage(folder: &Path) -> Result<(Daemon, String)> {
    let authority = CertificateAuthority::create(&folder.join("lab-ca"))?;
    let identity = authority.issue(&[San::Ip(ADDRESS.into())], "words")?;
    let (certificate, key) = write_identity(&identity, folder, "words")?;
    let port = free_port()?;
    let mut command = Command::new("python3");
    command
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("hostile/words.py"))
        .args([ADDRESS.to_string(), port.to_string()])
        .args([certificate, key]);
    let daemon = Daemon::start(command, &folder.join("words.log"))?;
    wait_for(Duration::from_secs(20), || {
        Ok(daemon.said().contains("ready").then_some(()))
    })?;
    Ok((daemon, format!("https://{ADDRESS}:{port}")))
}

/// Nothing of a text moves a cursor, ends a line early or turns what follows around.
fn is_tame(name: &str, text: &str) {
    let acts =
        |character: &char| (character.is_control() && !matches!(character, '\n' | '\t')) || *character == '\u{202e}';
    let found: Vec<char> = text.chars().filter(acts).collect();
    assert!(found.is_empty(), "{name} holds {found:?}: {text}");
}

#[test]
fn words_of_a_storage_do_nothing_where_they_are_shown() -> Result<()> {
    // Wrong: a storage writes to the terminals and logs of those who test it, or runs a command in their spreadsheet.
    let folder = tempfile::tempdir()?;
    let (_storage, url) = storage(folder.path())?;
    write_private(&folder.path().join("token"), "none")?;
    let text = format!(
        "name = \"words\"\n[phases]\nhold = \"2 s\"\ndrain = \"3 s\"\n[grid]\nname = \"words\"\nauthority = \"lab-ca\"\n\
         [grid.storage]\nquota = \"1 GB\"\ndurability = \"cache\"\n[[grid.rse]]\nname = \"HERE\"\n\
         [[grid.rse]]\nname = \"MINE\"\nurl = \"{url}/data\"\nca = \"lab-ca/ca.pem\"\ntoken_file = \"token\"\n\
         [[workload]]\nkind = \"rates\"\nfile_size_min = \"100 kB\"\nrates = [\
         {{ source = \"HERE\", destination = \"MINE\", rate = \"4 Mb/s\" }}, {{ source = \"MINE\", destination = \"HERE\", rate = \"4 Mb/s\" }}]\n"
    );
    fs::write(folder.path().join("c.toml"), text)?;
    let weir = |arguments: &[&str]| run(Command::new(weir_binary()).args(arguments).current_dir(folder.path()));
    let mut shown = vec![
        weir(&["challenge", "check", "c.toml", "--sites"])?,
        weir(&["challenge", "run", "c.toml", "--preflight", "none", "--out", "runs"])?,
        weir(&[
            "probe",
            &format!("{url}/data"),
            "--ca",
            "lab-ca/ca.pem",
            "--token-file",
            "token",
        ])?,
    ];
    let runs = fs::read_dir(folder.path().join("runs"))?.map(|entry| entry.unwrap().path());
    let run_folder: PathBuf = runs.max().unwrap();
    let name = run_folder.file_name().unwrap().to_string_lossy().into_owned();
    shown.push(weir(&["report", &format!("runs/{name}")])?);
    shown.push(weir(&["challenge", "clean", &format!("runs/{name}")])?);
    for run in &shown {
        is_tame("a terminal", &format!("{}{}", run.stdout, run.stderr));
    }
    let said: String = shown
        .iter()
        .map(|run| format!("{}{}", run.stdout, run.stderr))
        .collect();
    assert!(said.matches("RED").count() >= 3, "nothing was quoted: {said}");

    let mut quoted = 0;
    for file in files_below(&run_folder) {
        let path = file.strip_prefix(&run_folder).unwrap().display().to_string();
        if path.starts_with("grid") || path.contains("storage/") {
            continue;
        }
        let Ok(text) = fs::read_to_string(&file) else { continue };
        is_tame(&path, &text);
        quoted += usize::from(text.contains("RED"));
        if file.extension().is_some_and(|kind| kind == "html") {
            assert!(!text.contains("<img src=x"), "{path} holds the storage's element");
        }
        if file.extension().is_some_and(|kind| kind == "csv") {
            let mut rows = csv::ReaderBuilder::new().has_headers(false).from_path(&file)?;
            for row in rows.records() {
                let row = row?;
                let acts = row
                    .iter()
                    .find(|cell| cell.starts_with(['=', '@', '+']) || cell.starts_with("-c"));
                assert_eq!(acts, None, "{path}: {row:?}");
            }
        }
    }
    assert!(quoted >= 3, "run.log, transfers.csv and the report quote it: {quoted}");
    Ok(())
}
