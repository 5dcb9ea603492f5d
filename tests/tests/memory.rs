//! The memory that the storage takes of the host, as the kernel counts it.
#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

use std::{fs, process::Stdio};

use weir_tests::{Draw, Services, StorageSettings, visible_files, write_private};

/// As many as gave other endpoints trouble in the data challenges.
const PULLS: usize = 600;

/// Clients that ask for them; curl runs at most 300 requests at one time.
const CLIENTS: usize = 3;

const SIZE: usize = 2_000_000;

/// The most that a destination of 600 pulls may hold, in bytes.
const MOST: u64 = 300_000_000;

/// The most memory that a process ever had, in bytes.
fn peak(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    1024 * line.trim().trim_end_matches(" kB").parse::<u64>().unwrap()
}

/// Six hundred pulls at one time hold six hundred times the buffers of one.
#[test]
fn six_hundred_pulls_stay_within_their_memory() {
    // Each connection of the source sends 500 kB/s, so that all of them are under way at one time.
    let paced = StorageSettings::new("ALPHA").tpc("[sockets]\npacing = 500000\n");
    let services = Services::start(&[paced, StorageSettings::new("BETA")], "").unwrap();
    let content = Draw::new(7).bytes(SIZE);
    let source = format!("{}/file", services.storage("ALPHA").url);
    services.put(&content, &source).unwrap();
    let beta = services.storage("BETA");
    let token = services.token("storage.read:/").unwrap();
    let header = format!("TransferHeaderAuthorization: Bearer {token}\n");
    write_private(&services.file("source"), &header).unwrap();
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let mut curl = services.curl();
            curl.args(["-Z", "--parallel-immediate", "--parallel-max", "200", "-X", "COPY"])
                .args(["-H", "@source", "-H", &format!("Source: {source}")]);
            for number in 0..PULLS / CLIENTS {
                curl.arg(format!("{}/{client}-{number}", beta.url));
            }
            curl.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    let said: String = clients
        .into_iter()
        .map(|client| {
            let output = client.wait_with_output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8_lossy(&output.stdout).into_owned()
        })
        .collect();
    let done = said.matches("success: ").count();
    assert_eq!(
        done,
        PULLS,
        "{}",
        said.lines().filter(|line| line.contains("failure")).collect::<String>()
    );
    assert_eq!(said.matches("(verified)").count(), PULLS);
    let peak = peak(beta.pid().unwrap());
    let files = visible_files(&services.root("BETA"));
    assert_eq!(files.len(), PULLS);
    for file in files {
        assert!(
            fs::read(services.root("BETA").join(&file)).unwrap() == content,
            "{}",
            file.display()
        );
    }
    assert!(peak <= MOST, "{peak} bytes");
}
