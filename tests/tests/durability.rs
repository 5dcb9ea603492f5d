//! Acknowledged data were flushed before the acknowledgement: the order of the system calls between a request and its answer.
//!
//! A `kill -9` keeps what the kernel has, so no test that kills processes would miss a flush. Each check is also made without each
//! flush that it found, and has to fail then.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;

use weir_tests::{
    Call, Draw, Postgres, Recording, Service, Services, StorageSettings, node_settings, peers, running, silent,
    start_nodes, submit_to, waiting_job,
};

/// Writes, flushes, renames, and what goes out on a connection.
const CALLS: &str = "write,writev,pwrite64,pwritev,pwritev2,fsync,fdatasync,sync_file_range,rename,renameat,renameat2,\
    linkat,sendto,sendmsg";

/// A required step: its description and its call.
type Step<'a> = (&'static str, &'a Call);

fn is_write(call: &Call) -> bool {
    call.good && ["write", "writev", "pwrite64", "pwritev", "pwritev2"].contains(&call.name.as_str())
}

fn is_flush(call: &Call) -> bool {
    call.good && ["fsync", "fdatasync"].contains(&call.name.as_str())
}

/// The path of the descriptor that is a call's first argument.
fn path(call: &Call) -> Option<&str> {
    let (_, rest) = call.arguments.split_once('<')?;
    rest.split_once('>').map(|(path, _)| path)
}

/// Something went out on a connection of this service's door.
fn is_answer(call: &Call, service: &Service) -> bool {
    let door = format!("[{}->", service.url.trim_start_matches("https://"));
    call.good
        && ["write", "writev", "sendto", "sendmsg"].contains(&call.name.as_str())
        && call.arguments.contains(&door)
}

fn first<'a>(calls: &'a [Call], what: &'static str, fits: impl Fn(&Call) -> bool) -> Result<Step<'a>, String> {
    calls
        .iter()
        .find(|call| fits(call))
        .map(|call| (what, call))
        .ok_or_else(|| format!("no {what}"))
}

/// The check holds, and would not if any of the flushes that it rests on were not made.
fn holds_and_sees(calls: &[Call], check: impl Fn(&[Call]) -> Result<Vec<Call>, String>) {
    let shown = || calls.iter().map(|call| format!("{call:?}\n")).collect::<String>();
    let flushes = check(calls).unwrap_or_else(|missing| panic!("{missing} in\n{}", shown()));
    assert!(!flushes.is_empty());
    for flush in flushes {
        // All flushes of the same file: the next one would do as well.
        let without: Vec<Call> = calls
            .iter()
            .filter(|call| !(is_flush(call) && path(call) == path(&flush)))
            .cloned()
            .collect();
        assert!(check(&without).is_err(), "not missed: {flush:?} in\n{}", shown());
    }
}

/// File written, file flushed, name given, folder flushed, answered.
fn check_upload(calls: &[Call], service: &Service, folder: &str, name: &str) -> Result<Vec<Call>, String> {
    let given = format!("{name}\"");
    let is_name = |call: &Call| call.good && (call.name.starts_with("rename") || call.name == "linkat");
    let (_, renamed) = first(calls, "rename to the file's name", |call| {
        is_name(call) && call.arguments.contains(&given)
    })?;
    let before = |call: &&Call| call.ended < renamed.began;
    let written = calls
        .iter()
        .filter(before)
        .rfind(|call| is_write(call) && path(call).is_some_and(|path| path.starts_with('/')));
    let written = written.ok_or("no write")?;
    let (_, file) = first(calls, "flush of the file between its last write and its name", |call| {
        is_flush(call) && path(call) == path(written) && call.began > written.ended && call.ended < renamed.began
    })?;
    let (_, answer) = first(calls, "answer", |call| {
        is_answer(call, service) && call.began > renamed.ended
    })?;
    let (_, parent) = first(calls, "flush of the folder between the name and the answer", |call| {
        is_flush(call) && path(call) == Some(folder) && call.began > renamed.ended && call.ended < answer.began
    })?;
    Ok(vec![file.clone(), parent.clone()])
}

#[test]
fn an_upload_is_on_the_disk_before_its_answer() {
    // `durability = "full"` would be a word: a power cut would take back what was answered.
    if !peers() {
        return;
    }
    let services = Services::start(&[StorageSettings::durable("BETA")], "").unwrap();
    let beta = services.storage("BETA");
    let root = fs::canonicalize(services.root("BETA")).unwrap();
    // The folder is there before: of those that an upload makes itself the tests of errors speak.
    services.put(b"first", &format!("{}/folder/first", beta.url)).unwrap();
    for (name, size) in [("small-file", 10_000), ("large-file", 4_400_000)] {
        let recording = Recording::attach(&[beta.pid().unwrap()], CALLS, &services.file("")).unwrap();
        services
            .put(&Draw::new(3).bytes(size), &format!("{}/folder/{name}", beta.url))
            .unwrap();
        let calls = recording.end().unwrap();
        let folder = root.join("folder");
        holds_and_sees(&calls, |calls| {
            check_upload(calls, beta, folder.to_str().unwrap(), name)
        });
    }
}

/// A flush of what is moved, then the name of what is there taken from it.
fn check_replacement(calls: &[Call], name: &str) -> Result<Vec<Call>, String> {
    let given = format!("{name}\"");
    let (_, renamed) = first(calls, "name taken from another file", |call| {
        call.good
            && call.name.starts_with("rename")
            && call.arguments.contains(&given)
            && !call.arguments.contains("NOREPLACE")
    })?;
    let flushed = calls
        .iter()
        .rfind(|call| is_flush(call) && call.ended < renamed.began)
        .ok_or("no flush of a file before the name is taken")?;
    Ok(vec![flushed.clone()])
}

#[test]
fn nothing_is_replaced_by_what_is_not_on_the_disk() {
    // With `durability = "cache"` a power cut would take the old content, which was safe, along with the new.
    if !peers() {
        return;
    }
    let services = Services::start(&[StorageSettings::new("BETA")], "").unwrap();
    let beta = services.storage("BETA");
    let url = |name: &str| format!("{}/{name}", beta.url);
    for name in ["put-over", "move-over", "moved"] {
        services.put(b"old", &url(name)).unwrap();
    }
    let record = || Recording::attach(&[beta.pid().unwrap()], CALLS, &services.file("")).unwrap();
    let recording = record();
    services.replace(b"new", &url("put-over")).unwrap();
    let put = recording.end().unwrap();
    let recording = record();
    let to = format!("Destination: {}", url("move-over"));
    let moved = services.ask(&["-X", "MOVE", "-H", &to, &url("moved")]).unwrap();
    assert_eq!(moved.status, 204, "{moved:?}");
    let calls = recording.end().unwrap();
    holds_and_sees(&put, |calls| check_replacement(calls, "put-over"));
    holds_and_sees(&calls, |calls| check_replacement(calls, "move-over"));
}

/// The folder that has the name is flushed, then the one that lost it, then there is an answer.
fn check_move(calls: &[Call], service: &Service, [source, target]: [&str; 2], name: &str) -> Result<Vec<Call>, String> {
    let given = format!("{name}\"");
    let is_flush_of = |call: &Call, folder: &str| is_flush(call) && path(call) == Some(folder);
    let (_, renamed) = first(calls, "rename", |call| {
        call.good && call.name.starts_with("rename") && call.arguments.contains(&given)
    })?;
    let (_, there) = first(calls, "flush of the target's folder", |call| {
        is_flush_of(call, target) && call.began > renamed.ended
    })?;
    let (_, gone) = first(calls, "flush of the source's folder behind it", |call| {
        is_flush_of(call, source) && call.began > there.ended
    })?;
    first(calls, "answer", |call| {
        is_answer(call, service) && call.began > gone.ended
    })?;
    let early = calls
        .iter()
        .any(|call| is_flush_of(call, source) && call.began > renamed.ended && call.ended < there.began);
    if early {
        return Err("no order: the source's folder was flushed first".to_owned());
    }
    Ok(vec![there.clone(), gone.clone()])
}

#[test]
fn a_move_is_on_the_disk_at_one_place_at_least() {
    // A power cut between the two flushes would leave the file, or the tree, at neither place.
    if !peers() {
        return;
    }
    let services = Services::start(&[StorageSettings::durable("BETA")], "").unwrap();
    let beta = services.storage("BETA");
    let root = fs::canonicalize(services.root("BETA")).unwrap();
    let url = |name: &str| format!("{}/{name}", beta.url);
    for name in ["source/file", "target/there", "source/tree/f", "target/over/g"] {
        services.put(b"content", &url(name)).unwrap();
    }
    let folders = ["source", "target"].map(|name| root.join(name).to_str().unwrap().to_owned());
    for (from, to) in [("source/file", "target/file"), ("source/tree", "target/over")] {
        let recording = Recording::attach(&[beta.pid().unwrap()], CALLS, &services.file("")).unwrap();
        let destination = format!("Destination: {}", url(to));
        let moved = services.ask(&["-X", "MOVE", "-H", &destination, &url(from)]).unwrap();
        assert!([201, 204].contains(&moved.status), "{moved:?}");
        let calls = recording.end().unwrap();
        let name = to.trim_start_matches("target/");
        holds_and_sees(&calls, |calls| {
            check_move(calls, beta, [&folders[0], &folders[1]], name)
        });
    }
}

/// The journal was written and flushed between a submission and its answer.
fn check_submission(calls: &[Call], service: &Service, journal: &str) -> Result<Vec<Call>, String> {
    let is_journal = |call: &Call| path(call).is_some_and(|path| path.contains(journal));
    let (_, written) = first(calls, "write to the journal", |call| is_write(call) && is_journal(call))?;
    let (_, answer) = first(calls, "answer", |call| {
        is_answer(call, service) && call.began > written.ended
    })?;
    let (_, flushed) = first(calls, "flush of the journal between a write and the answer", |call| {
        is_flush(call) && is_journal(call) && call.began > written.ended && call.ended < answer.began
    })?;
    Ok(vec![flushed.clone()])
}

#[test]
fn a_job_is_in_sqlites_journal_before_its_answer() {
    // A power cut would take back jobs that clients were told of.
    if !peers() {
        return;
    }
    let services = Services::start(&[StorageSettings::new("ALPHA")], "").unwrap();
    let job = waiting_job(&services, silent(), "waiting", 2);
    let recording = Recording::attach(&[services.transfer.pid().unwrap()], CALLS, &services.file("")).unwrap();
    services.submit("waiting", &job).unwrap();
    let calls = recording.end().unwrap();
    holds_and_sees(&calls, |calls| {
        check_submission(calls, &services.transfer, "transfer.sqlite-wal")
    });
}

#[test]
fn a_job_is_in_postgresqls_journal_before_its_answer() {
    // As above: the service may not ask PostgreSQL for a commit that does not wait for its disk.
    if !peers() {
        return;
    }
    let postgres = Postgres::durable().unwrap();
    let services = start_nodes(&["ALPHA"], &node_settings(&[(postgres.socket(), "any")]));
    let door = services.transfer.url.clone();
    let before = submit_to(
        &services,
        &door,
        "before",
        &waiting_job(&services, silent(), "before", 1),
    );
    running(&services, &door, &before, 1, 1);
    let processes = postgres.processes().into_iter();
    let mut pids: Vec<u32> = processes
        .map(|pid| pid.as_raw_nonzero().get().cast_unsigned())
        .collect();
    pids.push(services.transfer.pid().unwrap());
    let recording = Recording::attach(&pids, CALLS, &services.file("")).unwrap();
    submit_to(
        &services,
        &door,
        "waiting",
        &waiting_job(&services, silent(), "waiting", 2),
    );
    let calls = recording.end().unwrap();
    holds_and_sees(&calls, |calls| check_submission(calls, &services.transfer, "/pg_wal/"));
}
