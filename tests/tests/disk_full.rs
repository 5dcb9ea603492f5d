//! The transfer service on SQLite while the disk of its database is full, and after a kill with a full disk.
//!
//! One seeded round; a hundred with `WEIR_SOAK` set; one with `WEIR_SEED=n`.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use serde_json::json;
use weir_tests::{
    Draw, FILES_PER_JOB, JOBS, LIMIT, Load, NodeSettings, STORAGES, Services, SmallDisk, StorageSettings, peers, run,
    seeds, silent, wait_for, waiting_job,
};

const TRANSFER: &str = "[limits]\nlink = 8\n[retry]\nretries = 3\ndelay = \"1s\"\n";

/// MiB: enough for the load, and for what SQLite writes beside.
const SIZE: u32 = 48;

/// The disk becomes full when so many files have arrived.
#[derive(Debug, Clone, Copy)]
struct Full {
    files: usize,
    lasts: Duration,
    /// Whether the service is killed meanwhile.
    kills: bool,
}

fn times(seed: u64, draw: &mut Draw) -> VecDeque<Full> {
    let total = (JOBS * FILES_PER_JOB) as u64;
    let full = |half: u64| Full {
        files: draw.between(half * total / 2 + 3, (half + 1) * total / 2 - 60) as usize,
        lasts: Duration::from_millis(draw.between(500, 5_000)),
        kills: (half + seed).is_multiple_of(2),
    };
    (0..2).map(full).collect()
}

struct Round {
    load: Load,
    disk: SmallDisk,
    times: VecDeque<Full>,
}

impl Round {
    fn prepare(seed: u64) -> Self {
        let mut draw = Draw::new(seed);
        let disk = SmallDisk::new(SIZE).unwrap();
        let node = NodeSettings {
            name: "transfer".to_owned(),
            keys: format!(
                "store = \"{}/transfer.sqlite\"\nkey_file = \"transfer.key\"\n",
                disk.path().display()
            ),
            tables: TRANSFER.to_owned(),
            within: disk.within(),
            ..NodeSettings::default()
        };
        let services = Services::start_nodes(&STORAGES.map(StorageSettings::new), &[node], |_| Ok(())).unwrap();
        Self {
            times: times(seed, &mut draw),
            load: Load::prepare(services, seed, &mut draw).mixed(&mut draw),
            disk,
        }
    }

    fn door(&self) -> String {
        self.load.services.transfer.url.clone()
    }

    fn run(&mut self) {
        loop {
            let door = self.door();
            self.load.submit(&door);
            self.load.watch_destinations();
            if self
                .times
                .front()
                .is_some_and(|full| full.files <= self.load.n_arrived())
            {
                let full = self.times.pop_front().unwrap();
                self.fill(full);
            }
            let all_ended = self.load.poll(&door) == Some(true);
            if self.load.in_doubt() {
                self.load.resolve_unknown(&door);
            }
            if self.load.all_taken() && self.times.is_empty() && all_ended {
                return;
            }
            assert!(self.load.idle() < LIMIT, "nothing moves\n{}", self.load.scene());
        }
    }

    /// The disk is full for a while: submissions are refused, and what is there is told.
    fn fill(&mut self, full: Full) {
        self.disk.fill().unwrap();
        let end = Instant::now() + full.lasts;
        let taken = self.until_refused();
        let answers = self.load.poll(&self.door());
        assert!(answers.is_some(), "what is there is not told\n{}", self.load.scene());
        while Instant::now() < end {
            self.load.watch_destinations();
            std::thread::sleep(Duration::from_millis(100));
        }
        self.load.collect_sent();
        if full.kills {
            self.load.services.transfer.kill().unwrap();
        }
        self.disk.free().unwrap();
        if full.kills {
            self.load.services.transfer.start().unwrap();
        }
        self.until_well();
        for id in taken {
            let url = format!("{}/jobs/{id}", self.door());
            let gone = self.load.services.ask(&["-X", "DELETE", &url]).unwrap();
            assert_eq!(gone.status, 200, "an acknowledged job is gone: {gone:?}");
        }
        self.load.wait_anew();
    }

    /// Before that, a submission that was answered 504 may still be written: its job would be looked for too early, and submitted twice.
    fn until_well(&self) {
        let url = format!("{}/.well-known/weir/health", self.door());
        let is_well = || {
            let answer = self.load.services.ask(&[&url])?;
            Ok((answer.exit == Some(0) && answer.status == 200).then_some(()))
        };
        if let Err(error) = wait_for(LIMIT, is_well) {
            panic!("{error:#}\n{}", self.load.scene());
        }
    }

    /// There is room in files that are there already: gives the ids of what was still taken.
    fn until_refused(&self) -> Vec<String> {
        let services = &self.load.services;
        let mut job = waiting_job(services, silent(), "refused", 2000);
        job["params"] = json!({ "job_metadata": { "number": usize::MAX } });
        let (mut taken, mut last) = (Vec::new(), String::new());
        let refused = || {
            let mut curl = services.submission("refused", &job)?;
            last = run(curl.args(["-i", "--max-time", "12"]))?.stdout;
            anyhow::ensure!(!last.is_empty(), "a submission has no answer within ten seconds");
            let told = last.to_lowercase();
            if let Some((_, id)) = last.split_once("\"job_id\":\"") {
                taken.extend(id.split('"').next().map(str::to_owned));
            }
            Ok((told.contains("503 service unavailable") && told.contains("retry-after")).then_some(()))
        };
        if let Err(error) = wait_for(LIMIT, refused) {
            panic!("{error:#}: {last}\n{}", self.load.scene());
        }
        taken
    }
}

#[test]
fn a_full_disk_costs_nothing_but_time() {
    // An acknowledged job would be lost, or clients told that all is well, while nothing can be written.
    if !peers() {
        return;
    }
    for seed in seeds(1) {
        let mut round = Round::prepare(seed);
        round.run();
        round.load.audit();
    }
}
