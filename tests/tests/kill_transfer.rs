//! `kill -9` of the transfer service, again and again, while it works, and times in which it stands still: acknowledged means durable, and
//! done once.
//!
//! Five seeded rounds; a hundred with `WEIR_SOAK` set; one with `WEIR_SEED=n`.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::time::Duration;

use rustix::process::Signal;
use weir_tests::{Draw, FILES_PER_JOB, JOBS, Load, STORAGES, Services, StorageSettings, seeds};

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
    /// Not at all: when so many files are there it is stopped, and continued after this time.
    Stop { files: usize, lasts: Duration },
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
    let files = draw.between(10, total - 10) as usize;
    let lasts = Duration::from_millis(draw.between(200, 4_000));
    kills.push(Kill::Stop { files, lasts });
    kills
}

struct Round {
    load: Load,
    kills: Vec<Kill>,
    n_kills: usize,
}

impl Round {
    fn prepare(seed: u64) -> Self {
        let mut draw = Draw::new(seed);
        let kills = kills(&mut draw);
        let services = Services::start(&STORAGES.map(StorageSettings::new), TRANSFER).unwrap();
        Self {
            load: Load::prepare(services, seed, &mut draw).mixed(&mut draw),
            kills,
            n_kills: 0,
        }
    }

    fn door(&self) -> String {
        self.load.services.transfer.url.clone()
    }

    /// Submits, watches and kills until every job is taken, every kill is done and every transfer has ended.
    fn run(&mut self) {
        loop {
            let killing = self.submit();
            self.load.watch_destinations();
            if let Some(after) = killing {
                std::thread::sleep(after);
                self.kill();
                self.restart();
            }
            self.kill_if_due();
            let all_ended = self.poll();
            if self.load.all_taken() && self.kills.is_empty() && all_ended {
                return;
            }
            assert!(self.load.idle() < PATIENCE, "nothing moves\n{}", self.scene());
        }
    }

    fn scene(&self) -> String {
        format!(
            "{} kills, to come {:?}; {}",
            self.n_kills,
            self.kills,
            self.load.scene()
        )
    }

    fn poll(&mut self) -> bool {
        let ended = self.load.poll(&self.door());
        ended.unwrap_or_else(|| panic!("the service does not answer\n{}", self.scene()))
    }

    /// Gives the pause before a kill that belongs to the submission just begun.
    fn submit(&mut self) -> Option<Duration> {
        let number = self.load.submit(&self.door())?;
        let due = |kill: &Kill| matches!(kill, Kill::Submitting { job, .. } if *job == number);
        let place = self.kills.iter().position(due)?;
        match self.kills.remove(place) {
            Kill::Submitting { after, .. } => Some(after),
            _ => None,
        }
    }

    fn kill_if_due(&mut self) {
        let arrived = self.load.n_arrived();
        let due = |kill: &Kill| match kill {
            Kill::Arrived { files, .. } | Kill::Twice { files, .. } | Kill::Stop { files, .. } => *files <= arrived,
            Kill::Submitting { .. } => false,
        };
        let Some(place) = self.kills.iter().position(due) else {
            return;
        };
        match self.kills.remove(place) {
            Kill::Twice { after, .. } => {
                self.kill();
                self.load.services.transfer.spawn().unwrap();
                std::thread::sleep(after);
                self.kill();
            }
            Kill::Arrived { after, .. } => {
                std::thread::sleep(after);
                self.kill();
            }
            Kill::Stop { lasts, .. } => {
                let service = &self.load.services.transfer;
                service.signal(Signal::STOP).unwrap();
                std::thread::sleep(lasts);
                service.signal(Signal::CONT).unwrap();
                return self.load.wait_anew();
            }
            Kill::Submitting { .. } => unreachable!("they are due with their submission"),
        }
        self.restart();
    }

    fn kill(&mut self) {
        self.load.services.transfer.kill().unwrap();
        self.n_kills += 1;
        self.load.collect_sent();
        self.load.watch_destinations();
    }

    fn restart(&mut self) {
        self.load.services.transfer.start().unwrap();
        let door = self.door();
        self.load.resolve_unknown(&door);
        self.load.wait_anew();
    }
}

#[test]
fn a_killed_transfer_service_keeps_its_word() {
    // An acknowledged transfer would be lost, done twice, or visible in part, after a crash of the transfer service.
    let mut n_again = 0;
    for seed in seeds(5) {
        let mut round = Round::prepare(seed);
        round.run();
        // A last restart, with nothing left to do, changes nothing.
        round.kill();
        round.restart();
        assert!(round.poll(), "{}", round.scene());
        round.load.audit();
        assert!(round.n_kills >= 7, "{}", round.scene());
        n_again += round.load.n_again();
    }
    // Of one seed alone they may all come between two transfers.
    let alone = std::env::var_os("WEIR_SEED").is_some();
    assert!(n_again > 0 || alone, "no kill hit a transfer at work");
}
