//! Several nodes of the transfer service on one PostgreSQL, each a process of its own.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::{
    collections::BTreeSet,
    net::Ipv4Addr,
    time::{Duration, Instant},
};

use rustix::process::Signal;
use serde_json::{Value, json};
use weir_tests::{
    Draw, FILES_PER_JOB, JOBS, LIMIT, Load, NodeSettings, Postgres, STORAGES, Services, StorageSettings, Tape,
    all_known, attempts, node_settings, peers, running, seeds, silent, silent_at, start_nodes, submit_to, wait_for,
    waiting_job,
};

fn nodes(postgres: &Postgres, roles: &[&str]) -> Vec<NodeSettings> {
    let nodes = roles.iter().map(|role| (postgres.socket(), *role)).collect::<Vec<_>>();
    node_settings(&nodes)
}

fn start(postgres: &Postgres, storages: &[&str], roles: &[&str]) -> Services {
    start_nodes(storages, &nodes(postgres, roles))
}

fn state(services: &Services, door: &str, job: &str) -> String {
    let answer = services.ask(&[&format!("{door}/jobs/{job}")]).unwrap();
    answer.json().unwrap()["job_state"].as_str().unwrap().to_owned()
}

#[test]
fn a_job_at_one_node_is_copied_by_another() {
    // Nodes that know nothing of each other would leave jobs lying, or unanswered.
    if !peers() {
        return;
    }
    let postgres = Postgres::start().unwrap();
    let mut nodes = nodes(&postgres, &["scheduler", "door", "executor"]);
    nodes[0].tables += "[events]\nspool = \"events\"\n[[events.file]]\npath = \"told\"\n";
    let services = Services::start_nodes(&STORAGES.map(StorageSettings::new), &nodes, |_| Ok(())).unwrap();
    let door = services.nodes[0].url.clone();
    all_known(&services, &services.transfer.url, 1);
    let mut load = Load::prepare(services, 0, &mut Draw::new(0));
    while !(load.poll(&door).unwrap() && load.all_taken()) {
        load.submit(&door);
        load.watch_destinations();
        assert!(load.idle() < LIMIT, "nothing moves\n{}", load.scene());
    }
    load.audit();
    let lent = "SELECT n_tup_ins FROM pg_stat_user_tables WHERE relname = 'leases'";
    let enough = || Ok((postgres.ask(lent)?.parse::<usize>()? >= JOBS * FILES_PER_JOB).then_some(()));
    wait_for(LIMIT, enough).expect("the scheduler copied what the executor should have");
    told_of_all(&load.services);
    the_node_that_copied_is_named(&load, &door);

    // A question that only the scheduler can answer is answered at the door, too.
    let services = &load.services;
    let job = waiting_job(services, silent(), "waiting", 4);
    let id = submit_to(services, &door, "waiting", &job);
    let why = services.ask(&[&format!("{door}/why/jobs/{id}")]).unwrap();
    assert_eq!(why.status, 200, "{why:?}");
    running(services, &door, &id, 4, 1);
    let cancelled = services.ask(&["-X", "DELETE", &format!("{door}/jobs/{id}")]).unwrap();
    assert_eq!(cancelled.status, 200, "{cancelled:?}");
    let ended = || Ok((state(services, &door, &id) == "CANCELED").then_some(()));
    wait_for(LIMIT, ended).unwrap();
    let unknown = services
        .ask(&["-X", "DELETE", &format!("{door}/jobs/{}", uuid())])
        .unwrap();
    assert_eq!(unknown.status, 404, "{unknown:?}");
    let nobody = services
        .bare_curl()
        .args(["-X", "DELETE", &format!("{door}/jobs/{id}")])
        .output()
        .unwrap();
    assert!(String::from_utf8_lossy(&nobody.stdout).ends_with("401"), "{nobody:?}");
    large_bodies_are_not_passed_on(services, &door);
}

/// Every file names the executor, whichever node is asked.
fn the_node_that_copied_is_named(load: &Load, door: &str) {
    let services = &load.services;
    let executor = services.nodes[1].url.trim_start_matches("https://");
    let ids = load.taken_ids();
    assert!(!ids.is_empty());
    for (id, node) in ids.iter().zip([door, &services.transfer.url].into_iter().cycle()) {
        let files = services
            .ask(&[&format!("{node}/jobs/{id}/files")])
            .unwrap()
            .json()
            .unwrap();
        for file in files
            .as_array()
            .unwrap()
            .iter()
            .filter(|file| file["file_state"] == "FINISHED")
        {
            assert_eq!(file["transfer_host"], executor, "{file:#}");
        }
    }
}

/// Anybody could fill the database and the scheduler's memory.
fn large_bodies_are_not_passed_on(services: &Services, door: &str) {
    let body = services.file("large");
    std::fs::write(&body, format!("{{\"user_dn\":\"{}\"}}", "x".repeat(2 << 20))).unwrap();
    let data = format!("@{}", body.display());
    let ban = format!("{door}/ban/dn");
    let known = services.ask(&["--data-binary", &data, &ban]).unwrap();
    assert_eq!(known.status, 413, "{known:?}");
    for (path, status) in [(ban.as_str(), "401"), (&format!("{door}/.well-known/weir/room"), "404")] {
        let unknown = services
            .bare_curl()
            .args(["--data-binary", &data, path])
            .output()
            .unwrap();
        assert!(
            String::from_utf8_lossy(&unknown.stdout).ends_with(status),
            "{unknown:?}"
        );
    }
}

/// The scheduler has told of every copy, though another node made it, with the times of that node.
fn told_of_all(services: &Services) {
    let told = || {
        let text = std::fs::read_to_string(services.file("told")).unwrap_or_default();
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let lines = lines.collect::<Vec<_>>();
        let count = |kind: &str| lines.iter().filter(|line| line["type"] == kind).count();
        let enough = count("start") >= JOBS * FILES_PER_JOB && count("complete") >= JOBS * FILES_PER_JOB;
        Ok(enough.then_some(lines))
    };
    let lines = wait_for(LIMIT, told).expect("messages for every copy");
    for line in lines.iter().filter(|line| line["type"] == "complete") {
        let times = [
            "tr_timestamp_start",
            "timestamp_tr_st",
            "timestamp_tr_comp",
            "tr_timestamp_complete",
        ];
        let times = times.map(|key| line["data"][key].as_u64().unwrap_or_default());
        assert!(times.is_sorted() && times[0] > 0 && times[1] < times[3], "{line}");
    }
}

fn uuid() -> &'static str {
    "11111111-2222-3333-4444-555555555555"
}

#[test]
fn copies_of_a_stopped_executor_are_taken_over_within_15_s() {
    // Its transfers would wait for it as long as it stays away.
    if !peers() {
        return;
    }
    let postgres = Postgres::start().unwrap();
    let services = start(&postgres, &["ALPHA"], &["scheduler", "executor", "executor"]);
    let door = services.transfer.url.clone();
    all_known(&services, &door, 2);
    let id = submit_to(
        &services,
        &door,
        "waiting",
        &waiting_job(&services, silent(), "waiting", 8),
    );
    running(&services, &door, &id, 8, 1);
    let by_node = "SELECT count(*) FROM leases WHERE taken AND report IS NULL GROUP BY node ORDER BY 1";
    let mut last = String::new();
    let shared = || {
        last = postgres.ask(by_node)?;
        Ok((last == "4\n4").then_some(()))
    };
    wait_for(LIMIT, shared).unwrap_or_else(|error| panic!("not shared evenly: {last}: {error:#}"));
    let begin = Instant::now();
    services.nodes[0].signal(Signal::STOP).unwrap();
    running(&services, &door, &id, 4, 2);
    let took = begin.elapsed();
    assert!(took < Duration::from_secs(15), "{took:?}");
    assert!(took > Duration::from_secs(7), "taken from a living node: {took:?}");
    let all = || Ok((postgres.ask(by_node)? == "8").then_some(()));
    wait_for(LIMIT, all).expect("the other has all of them");
    // It goes on, and finds that nothing is its own any more.
    services.nodes[0].signal(Signal::CONT).unwrap();
    all_known(&services, &door, 2);
    let mut now = attempts(&services, &door, &id);
    now.sort_unstable();
    assert_eq!(now, [1, 1, 1, 1, 2, 2, 2, 2]);
    let cancelled = services.ask(&["-X", "DELETE", &format!("{door}/jobs/{id}")]).unwrap();
    assert_eq!(cancelled.status, 200, "{cancelled:?}");
    let more = submit_to(&services, &door, "more", &waiting_job(&services, silent(), "more", 4));
    running(&services, &door, &more, 4, 1);
    let both = || Ok((postgres.ask(by_node)? == "2\n2").then_some(()));
    wait_for(LIMIT, both).expect("it takes part again");
}

/// The target of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Victim {
    Scheduler,
    Executor,
    Door,
    Database,
}

/// The fault.
#[derive(Debug, Clone, Copy)]
enum How {
    /// `kill -9`, and started again after a while.
    Kill,
    /// Stopped, and continued after a while.
    Stop,
}

#[derive(Debug, Clone, Copy)]
struct Fault {
    /// When so many files have arrived.
    files: usize,
    victim: Victim,
    how: How,
    /// How long it lasts.
    pause: Duration,
}

/// Two of one seed, so that five seeds have each victim killed and stopped; every other pause is longer than a term.
fn faults(seed: u64, draw: &mut Draw) -> Vec<Fault> {
    let total = (JOBS * FILES_PER_JOB) as u64;
    let fault = |half: u64| {
        let number = (seed - 1) * 2 + half;
        let victim = [Victim::Executor, Victim::Scheduler, Victim::Database, Victim::Door][(number % 4) as usize];
        let how = [How::Kill, How::Stop][(number / 4 % 2) as usize];
        let long = draw.below(2) == 0 && victim != Victim::Database;
        let pause = if long {
            draw.between(9_000, 12_000)
        } else {
            draw.between(200, 4_000)
        };
        Fault {
            files: draw.between(half * total / 2 + 3, (half + 1) * total / 2 - 40) as usize,
            victim,
            how,
            pause: Duration::from_millis(pause),
        }
    };
    (0..2).map(fault).collect()
}

struct Round {
    load: Load,
    /// Where its sources are, if they are not on disk.
    tape: Option<Tape>,
    postgres: Postgres,
    faults: Vec<Fault>,
    /// The target of a fault, and its end. A node by its number, the database without.
    hit: Option<(Option<usize>, How, Instant)>,
    turn: usize,
}

/// Nodes of a round: any two may schedule and copy; the last one is a door.
const ROLES: [&str; 3] = ["any", "any", "door"];

impl Round {
    fn prepare(seed: u64, from_tape: bool) -> Self {
        let mut draw = Draw::new(seed);
        let postgres = Postgres::start().unwrap();
        let services = start(&postgres, &STORAGES, &ROLES);
        let tape = from_tape.then(|| Tape::start(&services, seed).unwrap());
        let faults = faults(seed, &mut draw);
        let load = Load::prepare(services, seed, &mut draw).mixed(&mut draw);
        Self {
            faults,
            load: match &tape {
                Some(tape) => load.from_tape(tape),
                None => load,
            },
            tape,
            postgres,
            hit: None,
            turn: 0,
        }
    }

    fn node(&mut self, number: usize) -> &mut weir_tests::Service {
        match number {
            0 => &mut self.load.services.transfer,
            n => &mut self.load.services.nodes[n - 1],
        }
    }

    /// The next node that no fault has hit.
    fn door(&mut self) -> String {
        loop {
            self.turn = (self.turn + 1) % ROLES.len();
            let turn = self.turn;
            if self.hit.is_none_or(|(node, ..)| node != Some(turn)) {
                return self.node(turn).url.clone();
            }
        }
    }

    /// The node that schedules now.
    fn scheduler(&mut self) -> usize {
        let pid = self
            .postgres
            .ask("SELECT split_part(holder, ' ', 2) FROM scheduler")
            .unwrap();
        let is_it = |number: &usize| self.node(*number).pid().unwrap().to_string() == pid;
        (0..ROLES.len()).find(is_it).unwrap()
    }

    fn run(&mut self) {
        loop {
            let door = self.door();
            self.load.submit(&door);
            self.load.watch_destinations();
            self.hit_if_due();
            self.end_if_due();
            let door = self.door();
            let all_ended = self.load.poll(&door) == Some(true);
            if self.hit.is_none() && self.load.in_doubt() {
                self.load.collect_sent();
                // The work of a process that is gone ends within moments.
                std::thread::sleep(Duration::from_secs(1));
                self.load.resolve_unknown(&door);
            }
            if self.load.all_taken() && self.faults.is_empty() && self.hit.is_none() && all_ended {
                return;
            }
            assert!(self.load.idle() < LIMIT, "nothing moves\n{}", self.scene());
        }
    }

    fn scene(&self) -> String {
        let others = self.load.services.nodes.iter().map(weir_tests::Service::said_last);
        format!(
            "{:?}, to come {:?}; {}\n{}",
            self.hit,
            self.faults,
            self.load.scene(),
            others.collect::<Vec<_>>().join("\n--\n")
        )
    }

    /// Every pin is given back whose request the service knows. A process that is killed may have made one of which nobody has heard.
    fn audit_tape(&self) {
        let (tape, services) = (self.tape.as_ref().unwrap(), &self.load.services);
        let mut known = BTreeSet::new();
        for job in self.load.taken_ids() {
            for file in services.files(&job).unwrap() {
                known.extend(file["bringonline_token"].as_str().map(str::to_owned));
            }
        }
        let mut left = None;
        let all_back = || {
            let state = tape.state(services)?;
            let held = state.held.iter();
            let held = held.filter(|(request, paths)| known.contains(*request) && !paths.is_empty());
            let none = held.count() == 0;
            left = Some(state);
            Ok(none.then_some(()))
        };
        let ended = wait_for(LIMIT, all_back);
        let state = left.unwrap();
        ended.unwrap_or_else(|error| panic!("pins stay: {error:#}: {state:?}; known {known:?}\n{}", self.scene()));
        assert!(state.read_offline.is_empty(), "{state:?}\n{}", self.scene());
        assert!(known.len() > 1 && state.polls > 0, "{known:?}, {state:?}");
    }

    fn hit_if_due(&mut self) {
        let arrived = self.load.n_arrived();
        if self.hit.is_some() || self.faults.first().is_none_or(|fault| fault.files > arrived) {
            return;
        }
        let fault = self.faults.remove(0);
        let victim = match fault.victim {
            Victim::Database => None,
            Victim::Door => Some(2),
            Victim::Scheduler => Some(self.scheduler()),
            Victim::Executor => Some(1 - self.scheduler()),
        };
        match (victim, fault.how) {
            (None, How::Kill) => self.postgres.kill().unwrap(),
            (None, How::Stop) => self.postgres.signal(Signal::STOP).unwrap(),
            (Some(node), How::Kill) => self.node(node).kill().unwrap(),
            (Some(node), How::Stop) => self.node(node).signal(Signal::STOP).unwrap(),
        }
        self.hit = Some((victim, fault.how, Instant::now() + fault.pause));
        self.load.wait_anew();
    }

    fn end_if_due(&mut self) {
        let Some((victim, how, end)) = self.hit else { return };
        if Instant::now() < end {
            return;
        }
        match (victim, how) {
            (None, How::Kill) => self.postgres.serve().unwrap(),
            (None, How::Stop) => self.postgres.signal(Signal::CONT).unwrap(),
            (Some(node), How::Kill) => self.node(node).start().unwrap(),
            (Some(node), How::Stop) => self.node(node).signal(Signal::CONT).unwrap(),
        }
        self.hit = None;
        self.load.wait_anew();
    }
}

#[test]
fn nodes_keep_their_word_whatever_happens_to_one_of_them() {
    // An acknowledged transfer would be lost, done twice, or visible in part, after a node or the database died or stood still.
    if !peers() {
        return;
    }
    for seed in seeds(5) {
        let mut round = Round::prepare(seed, false);
        round.run();
        round.load.audit();
    }
}

#[test]
fn nodes_keep_their_word_about_tape_whatever_happens_to_one_of_them() {
    // A file would be read that is on tape, which holds a mover for hours; or be pinned for ever, which fills the buffer.
    if !peers() {
        return;
    }
    for seed in seeds(1) {
        let mut round = Round::prepare(seed, true);
        round.run();
        round.load.audit();
        round.audit_tape();
    }
}

#[test]
fn a_queue_that_is_full_is_full_at_every_door() {
    // One client would flood the queue through a node that does not know how deep it is, or fill its memory with invented names.
    if !peers() {
        return;
    }
    for (limit, status) in [
        ("queues.client = { depth = 5 }", "429 too many"),
        ("queue = 5", "503 service"),
        ("known_storages = 2", "429 too many"),
        ("known_links = 1", "429 too many"),
    ] {
        let postgres = Postgres::start().unwrap();
        let mut nodes = nodes(&postgres, &["any", "door"]);
        for node in &mut nodes {
            node.tables = node.tables.replace("[limits]\n", &format!("[limits]\n{limit}\n"));
        }
        let services = Services::start_nodes(&[StorageSettings::new("ALPHA")], &nodes, |_| Ok(())).unwrap();
        let door = services.nodes[0].url.clone();
        let id = submit_to(&services, &door, "first", &waiting_job(&services, silent(), "first", 4));
        running(&services, &door, &id, 4, 1);
        let elsewhere = silent_at(Ipv4Addr::new(127, 0, 0, 2));
        let second = waiting_job(&services, elsewhere, "second", 4);
        let mut curl = services.submission_to(&door, "second", &second).unwrap();
        let refused = weir_tests::run(curl.arg("-i")).unwrap().stdout.to_lowercase();
        assert!(
            refused.contains(status) && refused.contains("retry-after"),
            "{limit}: {refused}"
        );
    }
}

#[test]
fn two_nodes_do_not_write_to_one_destination() {
    // Each looks only at what it writes itself: two copies would spoil each other's file.
    if !peers() {
        return;
    }
    let postgres = Postgres::start().unwrap();
    let services = start(&postgres, &["ALPHA"], &["any", "executor"]);
    let door = services.transfer.url.clone();
    all_known(&services, &door, 1);
    let source = silent();
    let job = waiting_job(&services, source, "same", 6);
    let first = submit_to(&services, &door, "first", &job);
    running(&services, &door, &first, 6, 1);
    let second = submit_to(&services, &door, "second", &job);
    let mut last = Value::Null;
    let refused = || {
        last = services.ask(&[&format!("{door}/jobs/{second}/files")])?.json()?;
        let files = last.as_array().cloned().unwrap_or_default();
        let is_refused = |file: &Value| {
            let reason = file["reason"].as_str().unwrap_or_default();
            reason.contains("writes to the same destination")
        };
        // Two were begun at once; it is felt as overload, and the link waits with the others.
        Ok((files.iter().filter(|file| is_refused(file)).count() >= 2).then_some(()))
    };
    wait_for(LIMIT, refused).unwrap_or_else(|error| panic!("they run beside the first: {error:#}: {last:#}"));
    // A table of connections that is read while others come and go leaves some out.
    let six = || {
        let copies = services.transfer.connections_to(source)? + services.nodes[0].connections_to(source)?;
        assert!(copies <= 6, "{copies} copies write to six destinations");
        Ok((copies == 6).then_some(()))
    };
    wait_for(LIMIT, six).unwrap_or_else(|error| panic!("the first six go on: {error:#}"));
    for job in [second, first] {
        let gone = services.ask(&["-X", "DELETE", &format!("{door}/jobs/{job}")]).unwrap();
        assert_eq!(gone.status, 200, "{gone:?}");
    }
    // Places are given back with the copies.
    let elsewhere = silent_at(Ipv4Addr::new(127, 0, 0, 2));
    let third = submit_to(&services, &door, "third", &waiting_job(&services, elsewhere, "same", 6));
    running(&services, &door, &third, 6, 1);
}

#[test]
fn the_scheduler_chooses_among_sources_wherever_a_job_comes_in() {
    // At every door but the scheduler's a file would begin with the first source its client wrote, whatever is known of it.
    if !peers() {
        return;
    }
    let postgres = Postgres::start().unwrap();
    let services = start(&postgres, &["ALPHA"], &["any", "door"]);
    let doors = [services.transfer.url.clone(), services.nodes[0].url.clone()];
    // Many wait for this one, and none for the other.
    let (busy, idle) = (silent(), silent_at(Ipv4Addr::new(127, 0, 0, 2)));
    submit_to(&services, &doors[0], "many", &waiting_job(&services, busy, "many", 20));
    for (place, door) in doors.iter().enumerate() {
        let mut job = waiting_job(&services, busy, &format!("choice{place}"), 1);
        let file = &mut job["files"][0];
        file["sources"] = json!([format!("https://{busy}/f"), format!("https://{idle}/f")]);
        file["selection_strategy"] = json!("queue");
        let id = submit_to(&services, door, "choice", &job);
        let states = || {
            let answer = services.ask(&[&format!("{door}/jobs/{id}/files")])?.json()?;
            let files = answer.as_array().cloned().unwrap_or_default();
            let states = files.iter().map(|file| file["file_state"].as_str().unwrap_or_default());
            Ok((states.collect::<Vec<_>>() == ["NOT_USED", "ACTIVE"]).then_some(()))
        };
        wait_for(LIMIT, states).unwrap_or_else(|error| panic!("{door}: {error:#}"));
    }
}
