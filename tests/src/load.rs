//! Transfers for a service to which something happens: submitted one job after the other, watched from outside, and
//! counted at the end.
//!
//! It holds the service to two promises: an acknowledged job is there, whole, and a visible file at a destination is
//! one of the files, byte for byte. What has ended never changes again. At the end every file is there, once, and
//! nothing else.
#![allow(
    clippy::missing_panics_doc,
    clippy::unwrap_used,
    reason = "a promise that is broken ends the test"
)]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::ErrorKind,
    ops::Range,
    os::unix::fs::MetadataExt,
    path::PathBuf,
    process::{Child, Stdio},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{Answer, Draw, Run, Services, Tape, adler32, drafts, has_ended, visible_files};

/// The storages it needs.
pub const STORAGES: [&str; 3] = ["ALPHA", "BETA", "GAMMA"];
/// Links, by the place of their ends above.
const LINKS: [(usize, usize); 4] = [(0, 1), (1, 0), (0, 2), (2, 1)];
const SOURCES: usize = 12;
/// Jobs in all.
pub const JOBS: usize = 20;
/// Files of each.
pub const FILES_PER_JOB: usize = 25;
/// Jobs of hops, and of several sources, in a mixed load: of each.
const ROUTES: usize = 5;
/// Storages that a file passes in a job of hops.
const ROUTE: [usize; 4] = [0, 1, 2, 0];
const SIZE_MIN: u64 = 64_000;
const SIZE_MAX: u64 = 1_000_000;

/// Rounds of a test with chance in it: the first `few`; a hundred with `WEIR_SOAK` set; one with `WEIR_SEED=n`.
pub fn seeds(few: u64) -> Vec<u64> {
    if let Ok(seed) = std::env::var("WEIR_SEED") {
        return vec![seed.parse().unwrap()];
    }
    let rounds = if std::env::var_os("WEIR_SOAK").is_some() {
        100
    } else {
        few
    };
    (1..=rounds).collect()
}

/// One transfer, as it should come out.
struct Planned {
    link: (usize, usize),
    source: usize,
    destination: String,
    path: PathBuf,
}

/// The relation of a job's files to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Independent,
    /// Each goes on from where the one before it ended.
    Hops,
    /// One file that several sources should have; the first has not.
    Sources,
}

/// Planned files that are submitted together.
struct Batch {
    kind: Kind,
    files: Range<usize>,
}

impl Batch {
    /// Files that the service makes of it.
    fn rows(&self) -> usize {
        match self.kind {
            Kind::Sources => STORAGES.len(),
            _ => self.files.len(),
        }
    }
}

/// The known state of a job.
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

/// See the module.
pub struct Load {
    /// Its carrier.
    pub services: Services,
    /// Parameters of every job.
    pub params: Value,
    /// Where sources are read, if not at their storages.
    sources_at: Option<String>,
    seed: u64,
    sources: Vec<Vec<u8>>,
    plan: Vec<Planned>,
    batches: Vec<Batch>,
    jobs: Vec<Job>,
    /// Files that were seen whole at their destination.
    arrived: BTreeSet<PathBuf>,
    finished: BTreeMap<usize, Finished>,
    progress: Instant,
}

impl Load {
    /// Puts the sources in place.
    pub fn prepare(services: Services, seed: u64, draw: &mut Draw) -> Self {
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
                let source = draw.below(SOURCES as u64) as usize;
                planned(&services, link, source, &number.to_string())
            })
            .collect();
        let batch = |job: usize| Batch {
            kind: Kind::Independent,
            files: job * FILES_PER_JOB..(job + 1) * FILES_PER_JOB,
        };
        Self {
            services,
            params: json!({ "verify_checksum": "both" }),
            sources_at: None,
            seed,
            sources,
            plan,
            batches: (0..JOBS).map(batch).collect(),
            jobs: (0..JOBS).map(|_| Job::Unsent).collect(),
            arrived: BTreeSet::new(),
            finished: BTreeMap::new(),
            progress: Instant::now(),
        }
    }

    /// Puts jobs of hops and jobs of several sources between the others.
    #[must_use]
    pub fn mixed(mut self, draw: &mut Draw) -> Self {
        for number in 0..ROUTES {
            let source = draw.below(SOURCES as u64) as usize;
            let hop = |(step, pair): (usize, &[usize])| {
                planned(
                    &self.services,
                    (pair[0], pair[1]),
                    source,
                    &format!("route{number}.{step}"),
                )
            };
            let hops = ROUTE.windows(2).enumerate().map(hop).collect();
            self.insert(Kind::Hops, hops, draw);
            let source = draw.below(SOURCES as u64) as usize;
            let target = draw.below(STORAGES.len() as u64) as usize;
            let one = planned(&self.services, (0, target), source, &format!("choice{number}"));
            self.insert(Kind::Sources, vec![one], draw);
        }
        self
    }

    /// All sources are brought online from this tape.
    #[must_use]
    pub fn from_tape(mut self, tape: &Tape) -> Self {
        self.sources_at = Some(tape.url.clone());
        self.params["bring_online"] = json!(600);
        self.params["copy_pin_lifetime"] = json!(3600);
        self
    }

    fn insert(&mut self, kind: Kind, files: Vec<Planned>, draw: &mut Draw) {
        let first = self.plan.len();
        self.plan.extend(files);
        let files = first..self.plan.len();
        let place = draw.below(self.batches.len() as u64) as usize;
        self.batches.insert(place, Batch { kind, files });
        self.jobs.push(Job::Unsent);
    }

    /// How it stands, for messages of failed tests.
    pub fn scene(&self) -> String {
        let taken = self.jobs.iter().filter_map(id).count();
        format!(
            "seed {}: {taken} jobs taken, {} files arrived, {} seen FINISHED\n{}",
            self.seed,
            self.arrived.len(),
            self.finished.len(),
            self.services.transfer.said_last(),
        )
    }

    /// How long nothing new was seen.
    pub fn idle(&self) -> Duration {
        self.progress.elapsed()
    }

    /// Something was done to the service: it may take its time from here.
    pub fn wait_anew(&mut self) {
        self.progress = Instant::now();
    }

    /// Files that were seen whole at their destination.
    pub fn n_arrived(&self) -> usize {
        self.arrived.len()
    }

    /// Finished files that took more than one attempt.
    pub fn n_again(&self) -> usize {
        self.finished.values().filter(|finished| finished.attempts > 1).count()
    }

    /// Whether every job has been taken.
    pub fn all_taken(&self) -> bool {
        self.jobs.iter().all(|job| matches!(job, Job::Taken(_)))
    }

    /// Jobs that were taken.
    pub fn taken_ids(&self) -> Vec<String> {
        self.jobs.iter().filter_map(id).map(str::to_owned).collect()
    }

    /// Whether it is not known of some job whether it was taken.
    pub fn in_doubt(&self) -> bool {
        self.jobs.iter().any(|job| matches!(job, Job::Unknown))
    }

    fn job(&self, number: usize) -> Value {
        let batch = &self.batches[number];
        let source = |storage: usize, name: &str| {
            let name = format!("source/{name}");
            match &self.sources_at {
                Some(door) => format!("{door}/{}/{name}", STORAGES[storage]),
                None => format!("{}/{name}", self.services.storage(STORAGES[storage]).url),
            }
        };
        let mut before = None::<&Planned>;
        let files = self.plan[batch.files.clone()].iter().map(|planned| {
            let content = &self.sources[planned.source];
            let own = source(planned.link.0, &planned.source.to_string());
            let sources = match (batch.kind, before.replace(planned)) {
                (Kind::Hops, Some(before)) => vec![before.destination.clone()],
                (Kind::Independent | Kind::Hops, _) => vec![own],
                (Kind::Sources, _) => (0..STORAGES.len())
                    .map(|storage| match storage {
                        0 => source(storage, "nothing"),
                        _ => source(storage, &planned.source.to_string()),
                    })
                    .collect(),
            };
            json!({
                "sources": sources,
                "destinations": [planned.destination],
                "checksum": adler32(content),
                "filesize": content.len(),
                "selection_strategy": "orderly",
            })
        });
        let mut params = self.params.clone();
        params["multihop"] = json!(batch.kind == Kind::Hops);
        params["job_metadata"] = json!({ "number": number });
        json!({ "files": files.collect::<Vec<_>>(), "params": params })
    }

    /// One submission at a time, to this node: half of the queue at once, the rest as the first files arrive. Gives the number of the
    /// job, if it began one.
    pub fn submit(&mut self, door: &str) -> Option<usize> {
        if let Some(number) = self.sending() {
            self.collect(number, false);
            return None;
        }
        let number = self.jobs.iter().position(|job| matches!(job, Job::Unsent))?;
        let ahead = self.batches[..number]
            .iter()
            .map(|batch| batch.files.len())
            .sum::<usize>()
            / 2;
        if number >= self.jobs.len() / 2 && self.arrived.len() < ahead && self.arrived.len() < self.taken() {
            return None;
        }
        let curl = self
            .services
            .submission_to(door, &format!("job{number}"), &self.job(number));
        let child = curl
            .unwrap()
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        self.jobs[number] = Job::Sending(child.unwrap());
        Some(number)
    }

    fn sending(&self) -> Option<usize> {
        self.jobs.iter().position(|job| matches!(job, Job::Sending(_)))
    }

    /// Waits for the answer of a submission that is on its way.
    pub fn collect_sent(&mut self) {
        if let Some(number) = self.sending() {
            self.collect(number, true);
        }
    }

    fn taken(&self) -> usize {
        let taken = self.jobs.iter().zip(&self.batches).filter(|(job, _)| id(job).is_some());
        taken.map(|(_, batch)| batch.files.len()).sum()
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
            (Some(0), 504) => Job::Unknown,
            (Some(0), _) => panic!("a submission was refused: {answer:?}\n{}", self.scene()),
            _ => Job::Unknown,
        };
    }

    /// A visible file at a destination must be one of the planned files, whole, byte by byte.
    pub fn watch_destinations(&mut self) {
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

    /// Asks this node for the states of all taken jobs, and tells whether all of their files have ended. `None`: it does not answer at
    /// the moment.
    pub fn poll(&mut self, door: &str) -> Option<bool> {
        let ids: Vec<&str> = self.jobs.iter().filter_map(id).collect();
        if ids.is_empty() {
            return Some(false);
        }
        let fields = "file_id,file_state,dest_surl,finish_time,filesize,reason,weir";
        let url = format!("{door}/jobs/{}?files={fields}", ids.join(","));
        let answer = self.services.ask(&["--max-time", "20", &url]).unwrap();
        if answer.exit != Some(0) || answer.status == 503 {
            return None;
        }
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
            all_ended &= self.look_at_job(job);
        }
        Some(all_ended)
    }

    /// Tells whether the job has ended.
    fn look_at_job(&mut self, job: &Value) -> bool {
        let mut jobs = self.jobs.iter();
        let number = jobs.position(|known| id(known).is_some_and(|id| job["job_id"] == id));
        let batch = &self.batches[number.expect("a job that was asked for")];
        let (kind, rows) = (batch.kind, batch.rows());
        let files = job["files"].as_array().unwrap();
        assert_eq!(files.len(), rows, "half a job: {job}\n{}", self.scene());
        if kind == Kind::Sources {
            let is = |file: &Value, state: &str| file["file_state"] == state;
            let brought = files.iter().filter(|file| is(file, "FINISHED")).collect::<Vec<_>>();
            let failed = files.iter().filter(|file| is(file, "FAILED")).count();
            assert!(brought.len() < 2 && failed < 2, "{job:#}\n{}", self.scene());
            let file = brought
                .first()
                .copied()
                .or_else(|| files.iter().find(|file| !has_ended(file)));
            let Some(file) = file.cloned() else {
                panic!("no source was left: {job:#}\n{}", self.scene())
            };
            self.look_at(&file);
            return has_ended(&file);
        }
        let mut all_ended = true;
        for file in files {
            all_ended &= has_ended(file);
            self.look_at(file);
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
    pub fn resolve_unknown(&mut self, door: &str) {
        let states = "SUBMITTED,READY,STAGING,ACTIVE,ARCHIVING,FINISHED,FAILED,FINISHEDDIRTY,CANCELED";
        let url = format!("{door}/jobs?state_in={states}&limit=500&fields=job_id,job_metadata");
        let list = self.services.ask(&[&url]).unwrap().json().unwrap();
        let mut by_number = BTreeMap::new();
        for job in list.as_array().unwrap() {
            let number = job["job_metadata"]["number"].as_u64().unwrap() as usize;
            if number >= self.jobs.len() {
                // Another writer's.
                continue;
            }
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
    pub fn audit(&mut self) {
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

fn planned(services: &Services, link: (usize, usize), source: usize, name: &str) -> Planned {
    let name = format!("arrived/{}/{name}", STORAGES[link.0]);
    Planned {
        link,
        source,
        destination: format!("{}/{name}", services.storage(STORAGES[link.1]).url),
        path: services.root(STORAGES[link.1]).join(name),
    }
}

fn id(job: &Job) -> Option<&str> {
    match job {
        Job::Taken(id) => Some(id),
        _ => None,
    }
}
