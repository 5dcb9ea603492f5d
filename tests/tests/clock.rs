//! The wall clock of a transfer service steps by hours and days while it works, and nobody notices but the operator.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use weir_tests::{
    Draw, FILES_PER_JOB, JOBS, Load, STORAGES, Services, SteppingClock, StorageSettings, peers, wait_for,
};

/// Nothing new for so long is a hang.
const PATIENCE: Duration = Duration::from_secs(90);

const TRANSFER: &str = "[limits]\nlink = 8\n[retry]\nretries = 3\ndelay = \"1s\"\n";

const HOUR: i64 = 3600;
const DAY: i64 = 24 * HOUR;

/// From the true time, one after the other.
const STEPS: [i64; 5] = [HOUR, -HOUR, DAY, -DAY, 0];

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(since.as_secs()).unwrap()
}

/// How far the service sees the wall clock away from its own.
fn seen_ahead(services: &Services) -> Option<f64> {
    let page = services
        .ask(&[&format!("{}/.well-known/weir/metrics", services.transfer.url)])
        .unwrap()
        .body;
    let line = page
        .lines()
        .find(|line| line.starts_with("weir_transfer_clock_ahead_seconds "))?;
    line.rsplit(' ').next()?.parse().ok()
}

fn start(clock: &SteppingClock) -> Services {
    let mut services = Services::start(&STORAGES.map(StorageSettings::new), TRANSFER).unwrap();
    services.transfer.stop(Duration::from_secs(30)).unwrap();
    services.transfer.environment = clock.environment();
    services.transfer.start().unwrap();
    services
}

#[test]
fn steps_of_the_wall_clock_fail_nothing_and_expire_nothing() {
    // Running copies would time out, the queue would expire, retries would wait for the time the clock was set back by.
    if !peers() {
        return;
    }
    let clock = SteppingClock::new().unwrap();
    let began = now();
    let mut load = Load::prepare(start(&clock), 0, &mut Draw::new(0));
    let door = load.services.transfer.url.clone();
    // Two hours in the queue, and steps of a day.
    load.params["max_time_in_queue"] = "2h".into();
    let (mut steps, total) = (STEPS.iter().zip(1..), JOBS * FILES_PER_JOB);
    let mut next = steps.next();
    while !(load.poll(&door).unwrap() && load.all_taken() && next.is_none()) {
        if let Some((seconds, number)) = next
            && load.n_arrived() >= number * total / (STEPS.len() + 1)
        {
            clock.step(*seconds).unwrap();
            let followed = || {
                let off = seen_ahead(&load.services).map(|ahead| (ahead - *seconds as f64).abs());
                Ok(off.filter(|off| *off < 60.0))
            };
            wait_for(Duration::from_secs(20), followed).expect("the service sees the step");
            // It looks each five seconds; one step is told, and then the next ones.
            let told = || {
                Ok(load
                    .services
                    .transfer
                    .said()
                    .contains("the wall clock has stepped")
                    .then_some(()))
            };
            wait_for(Duration::from_secs(30), told).expect("the operator is told");
            next = steps.next();
        }
        load.submit(&door);
        load.watch_destinations();
        assert!(load.idle() < PATIENCE, "nothing moves\n{}", load.scene());
    }
    load.audit();
    assert_eq!(load.n_again(), 0, "a step interrupted something");

    // The service's time is at most a tenth off, however long the clock was wrong.
    let passed = now() - began;
    let sane = (began - passed / 10 - 2)..=(began + passed + passed / 10 + 2);
    for id in load.taken_ids() {
        let job = load
            .services
            .ask(&[&format!("{door}/jobs/{id}?files=weir")])
            .unwrap()
            .json()
            .unwrap();
        for file in job["files"].as_array().unwrap() {
            let times = ["submitted_ms", "started_ms", "finished_ms"].map(|key| file["weir"][key].as_i64().unwrap());
            assert!(times.is_sorted(), "{file}");
            assert!(times.iter().all(|at| sane.contains(&(at / 1000))), "{file} {sane:?}");
        }
    }
}
