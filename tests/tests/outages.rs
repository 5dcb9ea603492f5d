//! The transfer service while its database is away, out of reach, or slow.
//!
//! Short ones in every run; with `WEIR_SOAK` set the database is away for a minute.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::{
    io::{BufRead as _, BufReader},
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use rustix::process::Signal;
use serde_json::{Value, json};
use weir_tests::{
    Answer, Channel, Draw, LIMIT, Load, Postgres, STORAGES, Services, StorageSettings, all_known, attempts,
    node_settings, peers, running, silent, silent_at, start_nodes, submit_to, wait_for, waiting_job,
};

/// By its own clock a node has let go after 8 s; a new scheduler waits 2 s more.
const LET_GO: Duration = Duration::from_secs(10);

#[test]
fn a_scheduler_that_is_cut_off_lets_go_before_another_begins() {
    // Both would copy the same files.
    if !peers() {
        return;
    }
    let postgres = Postgres::start().unwrap();
    let way = Channel::to(postgres.socket()).unwrap();
    let nodes = node_settings(&[(way.socket(), "any"), (postgres.socket(), "any")]);
    let services = start_nodes(&["ALPHA"], &nodes);
    let (first, second) = (services.transfer.url.clone(), services.nodes[0].url.clone());
    all_known(&services, &first, 1);
    let source = silent();
    let id = submit_to(
        &services,
        &first,
        "waiting",
        &waiting_job(&services, source, "waiting", 8),
    );
    running(&services, &first, &id, 8, 1);
    // A node that does not know of the other yet uses the time of a node that is alone.
    let short = "SELECT max(until) < clock_timestamp() + interval '20 s' FROM nodes";
    wait_for(LIMIT, || Ok((postgres.ask(short)? == "t").then_some(()))).unwrap();
    // Half of them.
    copies(&services, source, 4);
    way.stand_still();
    let begin = Instant::now();
    let let_go = || {
        let begun = attempts(&services, &second, &id).contains(&2);
        let left = services.transfer.connections_to(source)?;
        assert!(!begun || left == 0, "{left} copies go on beside those of another node");
        Ok((left == 0).then_some(()))
    };
    wait_for(LET_GO, let_go)
        .unwrap_or_else(|error| panic!("the scheduler lets go: {error:#}\n{}", services.transfer.said()));
    assert!(begin.elapsed() > Duration::from_secs(5), "{:?}", begin.elapsed());
    running(&services, &second, &id, 8, 2);
    way.go_on();
    all_known(&services, &second, 1);
    let elsewhere = silent_at(Ipv4Addr::new(127, 0, 0, 2));
    let more = submit_to(&services, &first, "more", &waiting_job(&services, elsewhere, "more", 4));
    running(&services, &first, &more, 4, 1);
    assert_eq!(attempts(&services, &second, &id), [2; 8]);
}

/// Waits until the first node has so many connections to a source.
fn copies(services: &Services, source: SocketAddr, number: usize) {
    let mut last = 0;
    // A table of connections that is read while others come and go leaves some out.
    let all = || {
        last = services.transfer.connections_to(source)?;
        Ok((last == number).then_some(()))
    };
    wait_for(LIMIT, all).unwrap_or_else(|error| panic!("{error:#}: {last}\n{}", services.transfer.said_last()));
}

#[test]
fn a_node_alone_copies_on_without_its_database_and_who_comes_waits() {
    // Ending all copies with each restart of a database costs their bytes; and a second node must not begin the same ones.
    if !peers() {
        return;
    }
    let postgres = Postgres::start().unwrap();
    let way = Channel::to(postgres.socket()).unwrap();
    let nodes = node_settings(&[(way.socket(), "any"), (postgres.socket(), "any")]);
    let mut services = start_nodes(&["ALPHA"], &nodes);
    services.nodes[0].kill().unwrap();
    let alone = "SELECT count(*) = 1 AND min(until) > clock_timestamp() + interval '1 min' FROM nodes";
    wait_for(LIMIT, || Ok((postgres.ask(alone)? == "t").then_some(()))).unwrap();
    let first = services.transfer.url.clone();
    let source = silent();
    let id = submit_to(
        &services,
        &first,
        "waiting",
        &waiting_job(&services, source, "waiting", 4),
    );
    running(&services, &first, &id, 4, 1);
    // An attempt is in the database before its copy begins, which reads there what it needs.
    copies(&services, source, 4);
    way.stand_still();
    let begin = Instant::now();
    services.nodes[0].start().unwrap();
    let second = services.nodes[0].url.clone();
    let waits = || {
        Ok(services.nodes[0]
            .said()
            .contains("waits until it lets go")
            .then_some(()))
    };
    wait_for(LIMIT, waits).expect("the newcomer is elected, and waits");
    std::thread::sleep(Duration::from_secs(14).saturating_sub(begin.elapsed()));
    assert_eq!(attempts(&services, &second, &id), [1; 4]);
    copies(&services, source, 4);
    way.go_on();
    running(&services, &second, &id, 4, 2);
    assert!(begin.elapsed() < Duration::from_secs(60), "{:?}", begin.elapsed());
}

#[test]
fn a_slow_database_loses_nothing() {
    // An operation that takes longer than usual is taken for lost, and done twice.
    if !peers() {
        return;
    }
    let postgres = Postgres::start().unwrap();
    let ways = [(); 2].map(|()| Channel::to(postgres.socket()).unwrap());
    let nodes = node_settings(&[(ways[0].socket(), "any"), (ways[1].socket(), "any")]);
    let services = start_nodes(&STORAGES, &nodes);
    let doors = [services.transfer.url.clone(), services.nodes[0].url.clone()];
    let mut load = Load::prepare(services, 0, &mut Draw::new(0));
    for way in &ways {
        way.slow_down(slow());
    }
    for door in doors.iter().cycle() {
        load.submit(door);
        load.watch_destinations();
        if load.poll(door) == Some(true) && load.all_taken() {
            break;
        }
        if load.in_doubt() {
            load.resolve_unknown(door);
        }
        assert!(load.idle() < LIMIT, "nothing moves\n{}", load.scene());
    }
    load.audit();
    assert_eq!(load.n_again(), 0, "{}", load.scene());
}

/// The delay of each message to and from a slow database.
fn slow() -> Duration {
    let soak = std::env::var_os("WEIR_SOAK").is_some();
    Duration::from_millis(if soak { 200 } else { 60 })
}

/// How the database goes.
#[derive(Debug, Clone, Copy)]
enum Gone {
    Killed,
    Stopped,
    ReadOnly,
}

#[test]
fn without_its_database_the_service_says_come_again() {
    // Clients that are told anything else give up, or believe to have submitted.
    if !peers() {
        return;
    }
    for gone in [Gone::Killed, Gone::Stopped, Gone::ReadOnly] {
        database_gone(gone, lasts());
    }
}

/// How long a database is away.
fn lasts() -> Duration {
    let soak = std::env::var_os("WEIR_SOAK").is_some();
    Duration::from_secs(if soak { 60 } else { 12 })
}

/// Holds the lock of a database file until its standard input ends.
const LOCK: &str = "import sqlite3, sys
database = sqlite3.connect(sys.argv[1], isolation_level=None)
database.execute('BEGIN IMMEDIATE')
print('locked', flush=True)
sys.stdin.read()";

#[test]
fn while_somebody_holds_the_lock_of_its_file_the_service_says_come_again() {
    // A backup that takes a minute would end transfers, or lose submissions.
    if !peers() {
        return;
    }
    let services = Services::start(
        &[StorageSettings::new("ALPHA")],
        "[copy]\nresponse_timeout = \"120s\"\n",
    )
    .unwrap();
    let door = services.transfer.url.clone();
    let source = silent();
    let before = submit_to(&services, &door, "before", &waiting_job(&services, source, "before", 2));
    running(&services, &door, &before, 2, 1);
    let begin = Instant::now();
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.peers/bin/python");
    let mut holder = Command::new(python)
        .args(["-c", LOCK])
        .arg(services.file("transfer.sqlite"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut locked = String::new();
    BufReader::new(holder.stdout.take().unwrap())
        .read_line(&mut locked)
        .unwrap();
    assert_eq!(locked, "locked\n");
    refuses_submissions(&services, &door, "locked");
    assert_eq!(attempts(&services, &door, &before), [1; 2], "what is there is answered");
    std::thread::sleep(lasts().saturating_sub(begin.elapsed()));
    drop(holder.stdin.take());
    holder.wait().unwrap();
    let unlocked = Instant::now();
    let healthy = || {
        let health = services.ask(&[&format!("{door}/.well-known/weir/health")])?;
        Ok((health.status == 200).then_some(()))
    };
    wait_for(LIMIT, healthy).unwrap();
    let after = submit_to(&services, &door, "after", &waiting_job(&services, source, "after", 1));
    running(&services, &door, &after, 1, 1);
    assert_eq!(attempts(&services, &door, &before), [1; 2], "running copies go on");
    // Not for as long as a lock is waited for, which is 20 s.
    assert!(unlocked.elapsed() < Duration::from_secs(18), "{:?}", unlocked.elapsed());
}

fn database_gone(gone: Gone, lasts: Duration) {
    let mut postgres = Postgres::start().unwrap();
    let nodes = node_settings(&[(postgres.socket(), "any"), (postgres.socket(), "door")]);
    let services = start_nodes(&["ALPHA"], &nodes);
    let doors = [services.transfer.url.clone(), services.nodes[0].url.clone()];
    // The first one has noticed that it is not alone any more.
    let both = "SELECT count(*) = 2 AND max(until) < clock_timestamp() + interval '30 s' FROM nodes";
    wait_for(LIMIT, || Ok((postgres.ask(both)? == "t").then_some(()))).unwrap();
    let source = silent();
    let before = submit_to(
        &services,
        &doors[0],
        "before",
        &waiting_job(&services, source, "before", 3),
    );
    running(&services, &doors[1], &before, 3, 1);
    let begin = Instant::now();
    match gone {
        Gone::Killed => postgres.kill().unwrap(),
        Gone::Stopped => postgres.signal(Signal::STOP).unwrap(),
        Gone::ReadOnly => set_read_only(&postgres, true),
    }
    let under_way = answers_in_time(&services, &doors, gone);
    for door in &doors {
        says_come_again(&services, door, gone);
    }
    if let Gone::ReadOnly = gone {
        let health = services
            .ask(&[&format!("{}/.well-known/weir/health", doors[0])])
            .unwrap();
        assert!(health.body.contains("lead to its primary"), "{health:?}");
    }
    // Longer than a term: nobody may go on as if nothing had happened.
    std::thread::sleep(lasts.saturating_sub(begin.elapsed()));
    match gone {
        Gone::Killed => postgres.serve().unwrap(),
        Gone::Stopped => postgres.signal(Signal::CONT).unwrap(),
        Gone::ReadOnly => set_read_only(&postgres, false),
    }
    let back = Instant::now();
    for (place, door) in doors.iter().enumerate() {
        let healthy = || {
            let health = services.ask(&["--max-time", "5", &format!("{door}/.well-known/weir/health")])?;
            Ok((health.status == 200).then_some(()))
        };
        wait_for(LIMIT, healthy).unwrap();
        let job = waiting_job(&services, source, &format!("again{place}"), 1);
        let id = submit_to(&services, door, "again", &job);
        running(&services, door, &id, 1, 1);
        let cancelled = services.ask(&["-X", "DELETE", &format!("{door}/jobs/{id}")]).unwrap();
        assert_eq!(cancelled.status, 200, "{cancelled:?}");
    }
    are_taken_once(&services, &doors, &under_way);
    running(&services, &doors[1], &before, 3, 2);
    assert!(
        back.elapsed() < Duration::from_secs(20),
        "{gone:?}: {:?}",
        back.elapsed()
    );
}

fn set_read_only(postgres: &Postgres, on: bool) {
    let word = if on { "on" } else { "off" };
    // The user who set it is not bound by it.
    let set =
        format!("SET default_transaction_read_only = off; ALTER SYSTEM SET default_transaction_read_only = {word}");
    for statement in set.split("; ").chain(["SELECT pg_reload_conf()"]).skip(1) {
        postgres.ask(statement).unwrap();
    }
}

/// Submissions that come as the database goes are answered within ten seconds: that nothing was done, or that it is not known. Gives the jobs,
/// each with its name.
fn answers_in_time(services: &Services, doors: &[String; 2], gone: Gone) -> Vec<(String, Value)> {
    let mut submitted = Vec::new();
    let asked: Vec<_> = (0..6)
        .map(|number| {
            let name = format!("way{number}");
            let mut job = waiting_job(services, silent(), &name, 1);
            job["params"] = json!({ "id_generator": "deterministic", "sid": name });
            let mut curl = services.submission_to(&doors[number % 2], &name, &job).unwrap();
            submitted.push((name, job));
            curl.args(["--max-time", "12"]);
            std::thread::sleep(Duration::from_millis(300));
            std::thread::spawn(move || weir_tests::run(&mut curl).unwrap())
        })
        .collect();
    for one in asked {
        let answer = Answer::of(&one.join().unwrap());
        assert!([503, 504].contains(&answer.status), "{gone:?}: {answer:?}");
    }
    submitted
}

/// The same submissions once more, at the other node: each is one job, whether it had been written or not.
fn are_taken_once(services: &Services, doors: &[String; 2], under_way: &[(String, Value)]) {
    for (number, (name, job)) in under_way.iter().enumerate() {
        let ids = [1, 0].map(|other| submit_to(services, &doors[(number + other) % 2], name, job));
        assert_eq!(ids[0], ids[1], "{name}");
        let cancelled = services
            .ask(&["-X", "DELETE", &format!("{}/jobs/{}", doors[0], ids[0])])
            .unwrap();
        assert_eq!(cancelled.status, 200, "{cancelled:?}");
    }
}

#[test]
fn of_several_servers_the_one_that_takes_changes_is_used() {
    // After a fail-over the service would stay with a standby, or a server that is gone.
    if !peers() {
        return;
    }
    let (standby, mut primary) = (Postgres::start().unwrap(), Postgres::start().unwrap());
    set_read_only(&standby, true);
    let hosts = format!("{},{}", standby.socket().display(), primary.socket().display());
    let nodes = node_settings(&[(Path::new(&hosts), "any")]);
    let services = start_nodes(&["ALPHA"], &nodes);
    let door = services.transfer.url.clone();
    let source = silent();
    let id = submit_to(&services, &door, "first", &waiting_job(&services, source, "first", 1));
    running(&services, &door, &id, 1, 1);
    assert_eq!(primary.ask("SELECT count(*) FROM jobs").unwrap(), "1");
    assert_eq!(
        standby
            .ask("SELECT count(*) FROM pg_tables WHERE tablename = 'jobs'")
            .unwrap(),
        "0"
    );
    primary.kill().unwrap();
    primary.serve().unwrap();
    let taken = || {
        let job = waiting_job(&services, source, "second", 1);
        let answer = weir_tests::run(
            services
                .submission_to(&door, "second", &job)?
                .args(["--max-time", "12"]),
        )?;
        Ok((Answer::of(&answer).status == 200).then_some(()))
    };
    wait_for(LIMIT, taken).unwrap_or_else(|error| panic!("{error:#}\n{}", services.transfer.said_last()));
}

/// Submissions and questions are refused within seconds, not left to hang.
fn says_come_again(services: &Services, door: &str, gone: Gone) {
    refuses_submissions(services, door, &format!("{gone:?}"));
    let asked = services.ask(&["--max-time", "3", &format!("{door}/jobs")]).unwrap();
    assert_eq!(asked.status, 503, "{gone:?}: {asked:?}");
}

fn refuses_submissions(services: &Services, door: &str, when: &str) {
    let job = waiting_job(services, silent(), "refused", 1);
    let refused = || {
        let mut curl = services.submission_to(door, "refused", &job)?;
        let answer = weir_tests::run(curl.args(["-i", "--max-time", "3"]))?;
        let told = answer.stdout.to_lowercase();
        Ok((told.contains("503 service unavailable") && told.contains("retry-after")).then_some(()))
    };
    wait_for(Duration::from_secs(20), refused).unwrap_or_else(|error| panic!("{when}: {error:#}"));
}
