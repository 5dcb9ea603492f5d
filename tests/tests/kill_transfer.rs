//! `kill -9` of the transfer service, again and again, while it works: acknowledged means durable, and done once.
//!
//! Three seeded rounds; a hundred with `WEIR_SOAK` set; one with `WEIR_SEED=n`.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::ErrorKind,
    os::unix::fs::MetadataExt,
    path::PathBuf,
    process::{Child, Stdio},
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use weir_tests::{Answer, Draw, Run, Services, StorageSettings, adler32, drafts, has_ended, visible_files};

const STORAGES: [&str; 3] = ["ALPHA", "BETA", "GAMMA"];
/// Links, by the place of their ends above.
const LINKS: [(usize, usize); 4] = [(0, 1), (1, 0), (0, 2), (2, 1)];
const SOURCES: usize = 12;
const JOBS: usize = 20;
const FILES_PER_JOB: usize = 25;
const SIZE_MIN: u64 = 64_000;
const SIZE_MAX: u64 = 1_000_000;

/// Nothing new for so long is a hang.
const PATIENCE: Duration = Duration::from_secs(90);

/// Few retries with short pauses, so that only interruptions that are forgiven let every transfer finish in time.
const TRANSFER: &str = "[limits]\nlink = 8\n[retry]\nretries = 3\ndelay = \"1s\"\n";

/// When the service is killed.
#[derive(Debug, Clone, Copy)]
enum Kill {
    /// When so many files are at their destination, and so long after.
    Arrived { files: usize, after: Duration },
    /// So long after a submission was begun.
    Submitting { job: usize, after: Duration },
    /// As `Arrived`, and once more so long after its start.
    Twice { files: usize, after: Duration },
}

fn kills(draw: &mut Draw) -> Vec<Kill> {
    let total = (JOBS * FILES_PER_JOB) as u64;
    let mut micros = |end: u64| Duration::from_micros(draw.below(end));
    let (pauses, starts) = ([(); 3].map(|()| micros(20_000)), [(); 2].map(|()| micros(60_000)));
    let start = micros(120_000);
    let mut kills = Vec::new();
    for (third, after) in (0..3).zip(pauses) {
        let files = draw.between(third * total / 3 + 3, (third + 1) * total / 3 - 3) as usize;
        kills.push(Kill::Arrived { files, after });
    }
    for (half, after) in (0..2).zip(starts) {
        let job = draw.between(half * JOBS as u64 / 2, (half + 1) * JOBS as u64 / 2) as usize;
        kills.push(Kill::Submitting { job, after });
    }
    let files = draw.between(10, total - 10) as usize;
    kills.push(Kill::Twice { files, after: start });
    kills
}

/// One transfer, as it should come out.
struct Planned {
    link: (usize, usize),
    source: usize,
    destination: String,
    path: PathBuf,
}

/// What is known of a job.
enum Job {
    Unsent,
    Sending(Child),
    /// The answer was lost.
    Unknown,
    Taken(String),
}

/// A destination file when its transfer was first seen FINISHED.
#[derive(Debug, PartialEq, Eq)]
struct Finished {
    inode: u64,
    modified: (i64, i64),
    file_id: u64,
    finish_time: String,
    attempts: u64,
}

struct Round {
    seed: u64,
    services: Services,
    sources: Vec<Vec<u8>>,
    plan: Vec<Planned>,
    jobs: Vec<Job>,
    kills: Vec<Kill>,
    n_kills: usize,
    /// Files that were seen whole at their destination.
    arrived: BTreeSet<PathBuf>,
    finished: BTreeMap<usize, Finished>,
    progress: Instant,
}

impl Round {
    fn prepare(seed: u64) -> Self {
        let mut draw = Draw::new(seed);
        let kills = kills(&mut draw);
        let services = Services::start(&STORAGES.map(StorageSettings::new), TRANSFER).unwrap();
        let sources: Vec<Vec<u8>> = (0..SOURCES)
            .map(|_| {
                let size = draw.between(SIZE_MIN, SIZE_MAX);
                draw.bytes(size as usize)
            })
            .collect();
        for storage in STORAGES {
            for (number, content) in sources.iter().enumerate() {
                let url = format!("{}/source/{number}", services.storage(storage).url);
                services.put(content, &url).unwrap();
            }
        }
        let plan = (0..JOBS * FILES_PER_JOB)
            .map(|number| {
                let link = LINKS[draw.below(LINKS.len() as u64) as usize];
                let name = format!("arrived/{}/{number}", STORAGES[link.0]);
                Planned {
                    link,
                    source: draw.below(SOURCES as u64) as usize,
                    destination: format!("{}/{name}", services.storage(STORAGES[link.1]).url),
                    path: services.root(STORAGES[link.1]).join(name),
                }
            })
            .collect();
        Self {
            seed,
            services,
            sources,
            plan,
            jobs: (0..JOBS).map(|_| Job::Unsent).collect(),
            kills,
            n_kills: 0,
            arrived: BTreeSet::new(),
            finished: BTreeMap::new(),
            progress: Instant::now(),
        }
    }

    /// Submits, watches and kills until every job is taken, every kill is done and every transfer has ended.
    fn run(&mut self) {
        loop {
            let killing = self.submit();
            self.watch_destinations();
            if let Some(after) = killing {
                std::thread::sleep(after);
                self.kill();
                self.restart();
            }
            self.kill_if_due();
            let all_ended = self.poll();
            let all_sent = self.jobs.iter().all(|job| matches!(job, Job::Taken(_)));
            if all_sent && self.kills.is_empty() && all_ended {
                return;
            }
            assert!(self.progress.elapsed() < PATIENCE, "nothing moves\n{}", self.scene());
        }
    }

    fn scene(&self) -> String {
        let taken = self.jobs.iter().filter(|job| matches!(job, Job::Taken(_))).count();
        format!(
            "seed {}: {} kills, to come {:?}; {taken} jobs taken, {} files arrived, {} seen FINISHED\n{}",
            self.seed,
            self.n_kills,
            self.kills,
            self.arrived.len(),
            self.finished.len(),
            self.services.transfer.said_last(),
        )
    }

    fn job(&self, number: usize) -> Value {
        let files: Vec<Value> = self.plan[number * FILES_PER_JOB..][..FILES_PER_JOB]
            .iter()
            .map(|planned| {
                let content = &self.sources[planned.source];
                let source = format!(
                    "{}/source/{}",
                    self.services.storage(STORAGES[planned.link.0]).url,
                    planned.source
                );
                json!({
                    "sources": [source],
                    "destinations": [planned.destination],
                    "checksum": adler32(content),
                    "filesize": content.len(),
                })
            })
            .collect();
        json!({ "files": files, "params": { "verify_checksum": "both", "job_metadata": { "number": number } } })
    }

    /// One submission at a time. Gives the pause before a kill that belongs to the one just begun.
    fn submit(&mut self) -> Option<Duration> {
        let unsent = |job: &Job| matches!(job, Job::Unsent);
        if let Some(number) = self.jobs.iter().position(|job| matches!(job, Job::Sending(_))) {
            self.collect(number, false);
            None
        } else if let Some(number) = self.jobs.iter().position(unsent) {
            // Half of the queue at once, the rest as the first files arrive.
            let ahead = number * FILES_PER_JOB / 2;
            if number >= JOBS / 2 && self.arrived.len() < ahead && self.arrived.len() < self.taken() {
                return None;
            }
            let mut curl = self
                .services
                .submission(&format!("job{number}"), &self.job(number))
                .unwrap();
            let child = curl
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn();
            self.jobs[number] = Job::Sending(child.unwrap());
            let due = |kill: &Kill| matches!(kill, Kill::Submitting { job, .. } if *job == number);
            let place = self.kills.iter().position(due)?;
            match self.kills.remove(place) {
                Kill::Submitting { after, .. } => Some(after),
                _ => None,
            }
        } else {
            None
        }
    }

    fn taken(&self) -> usize {
        FILES_PER_JOB * self.jobs.iter().filter(|job| matches!(job, Job::Taken(_))).count()
    }

    /// Takes the answer to a submission, if it is there or must come.
    fn collect(&mut self, number: usize, wait: bool) {
        let Job::Sending(child) = &mut self.jobs[number] else {
            return;
        };
        if !wait && child.try_wait().unwrap().is_none() {
            return;
        }
        let Job::Sending(child) = std::mem::replace(&mut self.jobs[number], Job::Unknown) else {
            unreachable!("it was just looked at")
        };
        let output = child.wait_with_output().unwrap();
        let answer = Answer::of(&Run {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        });
        self.progress = Instant::now();
        self.jobs[number] = match (answer.exit, answer.status) {
            (Some(0), 200) => Job::Taken(answer.json().unwrap()["job_id"].as_str().unwrap().to_owned()),
            // Not taken for sure: no connection (curl's exit code 7), or told to come again.
            (Some(7), _) | (Some(0), 503) => Job::Unsent,
            (Some(0), _) => panic!("a submission was refused: {answer:?}\n{}", self.scene()),
            _ => Job::Unknown,
        };
    }

    /// Whatever can be seen at a destination must be one of the planned files, whole, byte by byte.
    fn watch_destinations(&mut self) {
        let by_path: BTreeMap<&PathBuf, usize> = self.plan.iter().map(|planned| &planned.path).zip(0..).collect();
        let mut seen = Vec::new();
        for storage in STORAGES {
            for path in visible_files(&self.services.root(storage).join("arrived")) {
                if self.arrived.contains(&path) {
                    continue;
                }
                let content = match fs::read(&path) {
                    Ok(content) => content,
                    // The transfer service took it away before it called it finished.
                    Err(error) if error.kind() == ErrorKind::NotFound => continue,
                    Err(error) => panic!("{}: {error}", path.display()),
                };
                let Some(number) = by_path.get(&path) else {
                    panic!("nobody asked for {}\n{}", path.display(), self.scene())
                };
                let expected = &self.sources[self.plan[*number].source];
                assert!(
                    content == *expected,
                    "{} is visible with {} bytes of {}, or with wrong ones\n{}",
                    path.display(),
                    content.len(),
                    expected.len(),
                    self.scene()
                );
                seen.push(path);
            }
        }
        if !seen.is_empty() {
            self.progress = Instant::now();
            self.arrived.extend(seen);
        }
    }

    fn kill_if_due(&mut self) {
        let arrived = self.arrived.len();
        let due = |kill: &Kill| match kill {
            Kill::Arrived { files, .. } | Kill::Twice { files, .. } => *files <= arrived,
            Kill::Submitting { .. } => false,
        };
        let Some(place) = self.kills.iter().position(due) else {
            return;
        };
        match self.kills.remove(place) {
            Kill::Twice { after, .. } => {
                self.kill();
                self.services.transfer.spawn().unwrap();
                std::thread::sleep(after);
                self.kill();
            }
            Kill::Arrived { after, .. } => {
                std::thread::sleep(after);
                self.kill();
            }
            Kill::Submitting { .. } => unreachable!("they are due with their submission"),
        }
        self.restart();
    }

    fn kill(&mut self) {
        self.services.transfer.kill().unwrap();
        self.n_kills += 1;
        if let Some(number) = self.jobs.iter().position(|job| matches!(job, Job::Sending(_))) {
            self.collect(number, true);
        }
        self.watch_destinations();
    }

    fn restart(&mut self) {
        self.services.transfer.start().unwrap();
        self.resolve_unknown();
        self.progress = Instant::now();
    }

    /// Asks for the states of all taken jobs, and tells whether all of their files have ended.
    fn poll(&mut self) -> bool {
        let ids: Vec<&str> = self.jobs.iter().filter_map(id).collect();
        if ids.is_empty() {
            return false;
        }
        let fields = "file_id,file_state,dest_surl,finish_time,filesize,reason,weir";
        let url = format!("{}/jobs/{}?files={fields}", self.services.transfer.url, ids.join(","));
        let answer = self.services.ask(&[&url]).unwrap();
        assert_eq!(
            answer.status,
            200,
            "an acknowledged job is gone: {answer:?}\n{}",
            self.scene()
        );
        let jobs = match answer.json().unwrap() {
            Value::Array(jobs) => jobs,
            job => vec![job],
        };
        assert_eq!(jobs.len(), ids.len());
        let mut all_ended = true;
        for job in &jobs {
            let files = job["files"].as_array().unwrap();
            assert_eq!(files.len(), FILES_PER_JOB, "half a job: {job}\n{}", self.scene());
            for file in files {
                all_ended &= has_ended(file);
                self.look_at(file);
            }
        }
        all_ended
    }

    fn look_at(&mut self, file: &Value) {
        let state = file["file_state"].as_str().unwrap();
        let destination = file["dest_surl"].as_str().unwrap();
        let number = self
            .plan
            .iter()
            .position(|planned| planned.destination == destination)
            .unwrap();
        if !has_ended(file) {
            assert!(
                !self.finished.contains_key(&number),
                "a transfer came back from its end: {file}\n{}",
                self.scene()
            );
            return;
        }
        assert_eq!(state, "FINISHED", "{file:#}\n{}", self.scene());
        let planned = &self.plan[number];
        let expected = self.sources[planned.source].len() as u64;
        assert_eq!(file["filesize"], expected, "{file:#}");
        let meta = fs::metadata(&planned.path);
        let meta = meta.unwrap_or_else(|error| panic!("FINISHED and not there: {error}: {file:#}\n{}", self.scene()));
        let now = Finished {
            inode: meta.ino(),
            modified: (meta.mtime(), meta.mtime_nsec()),
            file_id: file["file_id"].as_u64().unwrap(),
            finish_time: file["finish_time"].to_string(),
            attempts: file["weir"]["attempts"].as_u64().unwrap(),
        };
        if let Some(before) = self.finished.get(&number) {
            assert_eq!(*before, now, "changed after its end: {file:#}\n{}", self.scene());
        } else {
            self.progress = Instant::now();
            self.finished.insert(number, now);
        }
    }

    /// Submissions whose answer was lost: they are there, in full as `poll` holds, or not at all, and are made again then.
    fn resolve_unknown(&mut self) {
        let states = "SUBMITTED,READY,ACTIVE,FINISHED,FAILED,FINISHEDDIRTY,CANCELED";
        let url = format!(
            "{}/jobs?state_in={states}&limit=500&fields=job_id,job_metadata",
            self.services.transfer.url
        );
        let list = self.services.ask(&[&url]).unwrap().json().unwrap();
        let mut by_number = BTreeMap::new();
        for job in list.as_array().unwrap() {
            let number = job["job_metadata"]["number"].as_u64().unwrap() as usize;
            let twice = by_number.insert(number, job["job_id"].as_str().unwrap().to_owned());
            assert!(twice.is_none(), "job {number} is there twice\n{}", self.scene());
        }
        for (number, job) in self.jobs.iter_mut().enumerate() {
            match (&job, by_number.remove(&number)) {
                (Job::Taken(id), listed) => assert_eq!(listed.as_ref(), Some(id), "job {number} is not listed"),
                (Job::Unknown, Some(id)) => *job = Job::Taken(id),
                (Job::Unknown, None) => *job = Job::Unsent,
                (_, listed) => assert_eq!(listed, None, "job {number} was not sent, or refused, and is there"),
            }
        }
    }

    /// The whole account, when everything has come to its end.
    fn audit(&mut self) {
        self.watch_destinations();
        let (there, mut bytes) = (self.plan.len(), 0);
        for planned in &self.plan {
            let content = fs::read(&planned.path).unwrap();
            assert!(
                content == self.sources[planned.source],
                "{} has changed",
                planned.path.display()
            );
            bytes += content.len() as u64;
        }
        let visible = |storage| visible_files(&self.services.root(storage).join("arrived"));
        let seen: usize = STORAGES.map(|storage| visible(storage).len()).iter().sum();
        assert_eq!((seen, self.finished.len()), (there, there));
        let ids: BTreeSet<u64> = self.finished.values().map(|finished| finished.file_id).collect();
        assert_eq!(ids.len(), there, "two transfers have one id");
        // The storages' own count: all that is there came over the network, whatever was copied more than once.
        let received: u64 = STORAGES.map(|storage| self.received(storage)).iter().sum();
        let uploaded = 3 * self.sources.iter().map(|content| content.len() as u64).sum::<u64>();
        assert!(
            received >= bytes + uploaded,
            "received {received}, there {bytes} + {uploaded}"
        );
        for storage in STORAGES {
            let left = drafts(&self.services.root(storage));
            assert!(left.is_empty(), "{storage} has leftovers: {left:?}\n{}", self.scene());
        }
    }

    /// Bytes that the storage received of files that it put in place.
    fn received(&self, storage: &str) -> u64 {
        let url = format!("{}/.well-known/weir/metrics", self.services.storage(storage).url);
        let page = self.services.ask(&[&url]).unwrap().body;
        page.lines()
            .filter(|line| line.starts_with("weir_storage_received_bytes_total{") && line.contains("completed"))
            .map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap())
            .sum()
    }
}

fn id(job: &Job) -> Option<&str> {
    match job {
        Job::Taken(id) => Some(id),
        _ => None,
    }
}

fn seeds() -> Vec<u64> {
    if let Ok(seed) = std::env::var("WEIR_SEED") {
        return vec![seed.parse().unwrap()];
    }
    let rounds = if std::env::var_os("WEIR_SOAK").is_some() {
        100
    } else {
        3
    };
    (1..=rounds).collect()
}

#[test]
fn a_killed_transfer_service_keeps_its_word() {
    // An acknowledged transfer would be lost, done twice, or visible in part, after a crash of the transfer service.
    let mut n_again = 0;
    for seed in seeds() {
        let mut round = Round::prepare(seed);
        round.run();
        // A last restart, with nothing left to do, changes nothing.
        round.kill();
        round.restart();
        assert!(round.poll(), "{}", round.scene());
        round.audit();
        assert!(round.n_kills >= 7, "{}", round.scene());
        n_again += round.finished.values().filter(|finished| finished.attempts > 1).count();
    }
    assert!(n_again > 0, "no kill hit a transfer at work");
}
