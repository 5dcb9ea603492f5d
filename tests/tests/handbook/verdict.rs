//! docs/verdict-on-a-storage.md.

use std::{fs, path::PathBuf, process::Command, time::Duration};

use rustix::process::Signal;
use weir_tests::{Daemon, Services, StorageSettings, visible_files, wait_for, weir_binary, write_private};

use crate::machine::{Machine, blocks};

const PAGE: &str = include_str!("../../../docs/verdict-on-a-storage.md");
const LIMIT: Duration = Duration::from_secs(60);

#[test]
fn an_administrator_who_follows_the_page_has_a_verdict() {
    // The administrator of a storage would not get from its URL to an answer.
    let services = Services::start(&[StorageSettings::new("ALPHA")], "").unwrap();
    let token = services.token("storage.read:/ storage.modify:/").unwrap();
    write_private(&services.file("token"), &token).unwrap();
    let folder = services.file("administrator");
    fs::create_dir(&folder).unwrap();
    let here = |name: &str| services.file(name).display().to_string();
    let names = [
        (
            "https://STORAGE/FOLDER",
            format!("{}/folder", services.storage("ALPHA").url),
        ),
        ("AUTHORITY.pem", here("authority/ca.pem")),
        ("\"TOKEN\"", format!("\"{}\"", here("token"))),
        // An address of this machine that the storage reaches.
        ("THIS.HOST", "127.0.8.8".to_owned()),
        ("weir ", format!("cd {}; weir ", folder.display())),
    ];
    let names = names.map(|(name, here)| (name.to_owned(), here)).to_vec();
    let mut machine = Machine {
        services,
        names,
        environment: Vec::new(),
    };
    // 1: and the storage trusts it.
    machine.sh(&blocks(PAGE, "1. An authority for this machine", "sh")[0]);
    let trusted = machine.services.file("authority/ca.pem");
    let both = fs::read_to_string(&trusted).unwrap() + &fs::read_to_string(folder.join("lab-ca/ca.pem")).unwrap();
    fs::write(&trusted, both).unwrap();
    machine.services.storage("ALPHA").signal(Signal::HUP).unwrap();
    let read = || {
        Ok(machine
            .services
            .storage("ALPHA")
            .said()
            .contains("read again")
            .then_some(()))
    };
    wait_for(LIMIT, read).unwrap();
    // 2.
    let challenge = machine.with_names(&blocks(PAGE, "2. The challenge", "toml")[0]);
    fs::write(folder.join("mine.toml"), challenge).unwrap();
    // 3 to 5.
    let looked = machine.sh(&blocks(PAGE, "3. Look", "sh")[0]);
    assert!(looked.contains("2 of 2 copies that were tried work"), "{looked}");
    let ran = machine.sh(&blocks(PAGE, "4. Run", "sh")[0]);
    assert!(
        ran.contains("mine: PASS") && ran.contains("0 differ from the sent ones"),
        "{ran}"
    );
    let ran = machine.sh(&blocks(PAGE, "5. Find the limit", "sh")[0]);
    assert!(ran.contains("asked 240.00 Mb/s"), "{ran}");
    let left = || visible_files(&machine.services.root("ALPHA"));
    assert_eq!(left(), Vec::<PathBuf>::new());
    // 6: a run that is killed.
    let mut killed = Command::new(weir_binary());
    killed
        .args(["challenge", "run", "mine.toml", "--out", "killed"])
        .current_dir(&folder);
    let mut killed = Daemon::start(killed, &folder.join("killed.log")).unwrap();
    wait_for(LIMIT, || Ok((left().len() > 8).then_some(())))
        .unwrap_or_else(|error| panic!("{error:#}: {}", killed.said()));
    killed.kill().unwrap();
    let run = fs::read_dir(folder.join("killed")).unwrap().next().unwrap().unwrap();
    let name = format!("killed/{}", run.file_name().to_string_lossy());
    machine.names.insert(0, ("weir-runs/mine-TIME".to_owned(), name));
    let told = machine.sh(&blocks(PAGE, "6. If something ends it", "sh")[0]);
    assert!(told.contains("(incomplete)") && told.contains("to delete"), "{told}");
    let left: Vec<PathBuf> = visible_files(&machine.services.root("ALPHA"));
    assert_eq!(left, Vec::<PathBuf>::new(), "{told}");
}
