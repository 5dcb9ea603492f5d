//! The example as a process of its own: killed at once, nothing that it called durable is lost, and the next one leads.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use std::{
    io::{BufRead as _, BufReader, Lines, Write as _},
    path::Path,
    process::{Child, ChildStdout, Command, Stdio},
};

use weir_store::postgres::{
    Address,
    testing::{Server, wanted},
};

struct Notes {
    child: Child,
    said: Lines<BufReader<ChildStdout>>,
}

impl Notes {
    fn start(database: &Address, key: &Path) -> Self {
        let example = std::env::current_exe().unwrap();
        let example = example.parent().unwrap().parent().unwrap().join("examples/notes");
        let mut child = Command::new(example)
            .args([&database.hosts[0], &database.database, &database.user])
            .arg(key)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let said = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, said }
    }

    /// The words that it prints before this, and that.
    fn until(&mut self, word: &str) -> Vec<String> {
        let mut lines = Vec::new();
        loop {
            let line = self.said.next().expect("it goes on").unwrap();
            let found = line == word;
            lines.push(line);
            if found {
                return lines;
            }
        }
    }

    fn write(&mut self, note: &str) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{note}").unwrap();
    }
}

impl Drop for Notes {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_leader_that_is_killed_loses_nothing_and_the_next_one_goes_on() {
    if !wanted() {
        return;
    }
    let database = Server::shared().database();
    let directory = tempfile::tempdir().unwrap();
    let key = directory.path().join("notes.key");
    let mut first = Notes::start(&database, &key);
    first.until("leading");
    let mut second = Notes::start(&database, &key);
    for round in 0..10 {
        first.write(&format!("note-{round}"));
        first.until(&format!("durable {}", round + 1));
        first.child.kill().unwrap();
        // The waiting node leads now; another one waits.
        first = second;
        let kept = first.until("leading");
        let expected = (0..=round).map(|n| format!("{} note-{n}", n + 1));
        assert_eq!(kept[..kept.len() - 1], expected.collect::<Vec<_>>());
        second = Notes::start(&database, &key);
    }
    let mut session = Server::shared().session(&database.database);
    let plain = "SELECT FROM notes WHERE position('note-'::bytea IN sealed) > 0";
    assert!(session.row(plain, &[]).unwrap().is_none(), "notes are sealed");
}
