//! Databases of earlier versions open, and go on. Each copy was left by that version when it was killed; `scripts/former-stores.sh` makes them.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use weir_store::postgres::testing::{Server, sealer, wanted};

use super::{
    Change, JobFilter, Restored, Store,
    sqlite::SqliteStore,
    suite::{end, live, submission},
};
use weir_executor::job::{FileState, JobState};

/// Versions of which there are copies.
const FORMER: [&str; 1] = ["2026-11"];

fn copies(version: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stores").join(version)
}

/// The key that sealed the tokens of a copy, in a file of its own.
fn key(version: &str, name: &str, folder: &Path) -> PathBuf {
    let key = folder.join(name);
    fs::copy(copies(version).join(name), &key).unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    key
}

/// File 1 has finished, file 2 waits for its next attempt.
fn goes_on(store: &dyn Store) {
    assert!(store.next_epoch().unwrap() > 1, "it had a scheduler before");
    let finished = store.file(1).unwrap().unwrap();
    assert_eq!(finished.state, FileState::Finished);
    assert_eq!(finished.result.filesize, Some(100_000));
    let filter = JobFilter {
        states: vec![JobState::Finished],
        limit: Some(10),
        ..JobFilter::default()
    };
    assert_eq!(store.jobs(&filter).unwrap().len(), 1);
    let mut waiting = Vec::new();
    let mut take = |row: Restored| waiting.extend(live(row).files.into_iter().map(|file| file.file));
    store.restore(u64::MAX >> 1, &mut take).unwrap();
    assert_eq!(waiting, [2]);
    let order = store.order(2).unwrap().unwrap();
    let token = order.source_token.expect("it was submitted with one");
    assert_eq!(token.expose().split('.').count(), 3, "its key opens it");
    let next = store.next_file_id().unwrap();
    let more = Change::Submit(Box::new(submission(9, next, 2)));
    store.apply(&[end(2, FileState::Failed), more]).unwrap();
    assert_eq!(store.file(2).unwrap().unwrap().state, FileState::Failed);
    assert!(store.order(next).unwrap().is_some());
    assert!(store.archive(i64::MAX, 100).unwrap() >= 2);
    assert_eq!(
        store.file(1).unwrap().unwrap().state,
        FileState::Finished,
        "from history"
    );
}

#[test]
fn a_file_of_an_earlier_version_opens_and_goes_on() {
    // Installing a new version would lose the queue.
    for version in FORMER {
        let folder = tempfile::tempdir().unwrap();
        let unpacked = Command::new("tar")
            .arg("-xzf")
            .arg(copies(version).join("transfer.sqlite.tar.gz"))
            .current_dir(folder.path())
            .status();
        assert!(unpacked.unwrap().success());
        let key = key(version, "transfer.sqlite.key", folder.path());
        let path = folder.path().join("transfer.sqlite");
        goes_on(&SqliteStore::open(&path, sealer(&key)).unwrap());
        let again = SqliteStore::open(&path, sealer(&key)).unwrap();
        assert_eq!(again.file(2).unwrap().unwrap().state, FileState::Failed);
    }
}

#[test]
fn a_database_of_an_earlier_version_opens_and_goes_on() {
    if !wanted() {
        return;
    }
    for version in FORMER {
        let folder = tempfile::tempdir().unwrap();
        let database = Server::shared().database();
        let mut unpacked = Command::new("gzip")
            .arg("-dc")
            .arg(copies(version).join("transfer.sql.gz"))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let filled = Command::new("psql")
            .args([
                "-q",
                "-v",
                "ON_ERROR_STOP=1",
                "-h",
                &database.hosts[0],
                "-p",
                &database.port.to_string(),
                "-U",
                "weir",
                "-d",
                &database.database,
            ])
            .stdin(unpacked.stdout.take().unwrap())
            .stdout(Stdio::null())
            .status();
        assert!(filled.unwrap().success() && unpacked.wait().unwrap().success());
        let key = key(version, "transfer.sql.key", folder.path());
        goes_on(&super::postgres::open_on(&database, &key));
    }
}
