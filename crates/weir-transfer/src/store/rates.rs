//! Throughput of the durable stores on this machine, beside limits that are measured in the same run. `make bench` runs
//! it.
//!
//! `WEIR_FILES=5000000` sets the number of files that are in the store already; `WEIR_SECONDS=10` how long each rate is
//! measured.
#![allow(clippy::unwrap_used, reason = "a failed measurement may panic")]

use std::{
    collections::VecDeque,
    fs::File,
    io::Write as _,
    os::unix::fs::FileExt as _,
    sync::{Arc, mpsc},
    time::{Duration, Instant},
};

use weir_sched::{Names, Scheduler};
use weir_units::Timestamp;
use weir_world::{Core as _, Input, Seq};

use crate::testing::surl;

use super::{
    Change, Durable, Restored, Sealer, Store, Submission,
    sqlite::SqliteStore,
    start_writer,
    suite::{begin, end, submission},
};

/// Files of a job: the job size of Rucio's submitter.
const FILES: u64 = 200;
/// Submissions that wait for an answer at any time, from as many clients.
const CLIENTS: usize = 16;
/// Transfers that are done in a second meanwhile.
const COMPLETIONS: u64 = 2000;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(default)
}

fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Seconds of processor that this process has used (proc(5), fields 14 and 15, in hundredths): on a busy machine they tell more than
/// the clock.
fn cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields = stat.rsplit_once(')').unwrap().1.split_whitespace().skip(11);
    fields.take(2).map(|ticks| ticks.parse::<f64>().unwrap()).sum::<f64>() / 100.0
}

/// A job of 200 files with names as long as real ones.
fn job(first: u64) -> Submission {
    let mut submission = submission(u128::from(first), first, FILES);
    for file in &mut submission.files {
        let name = format!(
            "data25_13p6TeV/{:02x}/{:02x}/DAOD_PHYS.{:09}._{:06}.pool.root.1",
            file.id % 251,
            file.id % 241,
            first,
            file.id
        );
        file.source = surl(format!(
            "https://eos.source.example.org:8443/eos/experiment/grid/datadisk/rucio/{name}"
        ));
        file.destination = surl(format!(
            "https://dcache.destination.example.org:2880/pnfs/example.org/data/datadisk/rucio/{name}"
        ));
    }
    submission
}

fn fill(store: &dyn Store, files: u64) {
    let start = Instant::now();
    let mut next = store.next_file_id().unwrap();
    while next < files {
        let jobs = (0..50)
            .map(|n| Change::Submit(Box::new(job(next + n * FILES))))
            .collect::<Vec<_>>();
        store.apply(&jobs).unwrap();
        next += 50 * FILES;
    }
    let seconds = start.elapsed().as_secs_f64();
    say(&format!(
        "  {files} files put in, one batch after the other: {:.0} files/s",
        files as f64 / seconds
    ));
}

/// Submissions as fast as they become durable, and completions at their rate. Files per second.
fn submissions(store: &Arc<dyn Store>, seconds: u64) -> f64 {
    let (tell, told) = mpsc::channel();
    let writer = start_writer(store.clone(), move |durable| drop(tell.send(durable))).unwrap();
    let (mut next, mut seq, mut done) = (store.next_file_id().unwrap(), 0_u64, 1_u64);
    let mut push = |changes: Vec<Change>| {
        seq += 1;
        writer.push(Seq(seq), changes);
        seq
    };
    let (mut waiting, mut waits) = (VecDeque::new(), Vec::new());
    let (start, used) = (Instant::now(), cpu());
    let length = Duration::from_secs(seconds);
    while start.elapsed() < length || !waiting.is_empty() {
        if start.elapsed() < length {
            while waiting.len() < CLIENTS {
                let submission = Change::Submit(Box::new(job(next)));
                next += FILES;
                waiting.push_back((push(vec![submission]), Instant::now()));
            }
            let due = (start.elapsed().as_secs_f64() * COMPLETIONS as f64) as u64;
            while done < due {
                push(vec![begin(done, 1)]);
                push(vec![end(done, weir_executor::job::FileState::Finished)]);
                done += 1;
            }
        }
        let Ok(Durable::UpTo(up_to)) = told.recv_timeout(Duration::from_millis(5)) else {
            continue;
        };
        while waiting.front().is_some_and(|(seq, _)| Seq(*seq) <= up_to) {
            waits.extend(waiting.pop_front().map(|(_, at)| at.elapsed()));
        }
    }
    let rate = (waits.len() as u64 * FILES) as f64 / start.elapsed().as_secs_f64();
    waits.sort_unstable();
    let at = |part: f64| waits[((waits.len() - 1) as f64 * part) as usize].as_secs_f64() * 1000.0;
    say(&format!(
        "  submission, {FILES} files a job, {CLIENTS} clients, while {COMPLETIONS} completions/s are recorded: {rate:.0} files/s, \
         wait p50 {:.0} ms, p99 {:.0} ms, max {:.0} ms, {:.0} µs of processor a file here",
        at(0.5),
        at(0.99),
        at(1.0),
        (cpu() - used) * 1e6 / (waits.len() as u64 * FILES) as f64
    ));
    rate
}

/// Restores the core from a queue.
fn restart(store: &dyn Store) {
    let (start, used) = (Instant::now(), cpu());
    let mut core = Scheduler::new(weir_sched::Config {
        epoch: 1,
        ..weir_sched::Config::default()
    });
    let (mut names, mut inputs, mut effects, mut n) = (Names::default(), Vec::new(), Vec::new(), 0_u64);
    let mut core_time = Duration::ZERO;
    let mut take = |restored| {
        let Restored::Job(job) = restored else { return };
        n += job.files.len() as u64;
        inputs.extend(
            crate::driver::restored(&job, &mut names)
                .into_iter()
                .map(Input::Restored),
        );
        if inputs.len() > 4096 {
            let begin = Instant::now();
            core.step(Timestamp(1), &inputs, &mut effects);
            inputs.clear();
            core_time += begin.elapsed();
        }
    };
    store.restore(u64::MAX >> 1, &mut take).unwrap();
    core.step(Timestamp(1), &inputs, &mut effects);
    let seconds = start.elapsed().as_secs_f64();
    say(&format!(
        "  restart: {n} queued transfers in the core after {seconds:.1} s ({:.2} million/s), {:.1} s of processor here; the core's part \
         {:.1} s",
        n as f64 / seconds / 1e6,
        cpu() - used,
        core_time.as_secs_f64()
    ));
}

/// Cancelled jobs go into history while submissions go on.
fn housekeeping(store: &Arc<dyn Store>, seconds: u64) -> f64 {
    let first = store.next_file_id().unwrap();
    let jobs = (0..500).map(|n| {
        let job = job(first + n * FILES);
        let cancel = Change::Cancel {
            job: job.job.id,
            whole: true,
            settled: job.files.iter().map(|file| file.id).collect(),
            stopping: vec![],
            at: 1,
            reason: String::new(),
        };
        [Change::Submit(Box::new(job)), cancel]
    });
    store.apply(&jobs.flatten().collect::<Vec<_>>()).unwrap();
    let keeper = store.clone();
    let moving = std::thread::spawn(move || {
        let (mut moved, mut worst) = (0, Duration::ZERO);
        let start = Instant::now();
        loop {
            let step = Instant::now();
            match keeper.archive(1, 2000).unwrap() {
                0 => break,
                n => moved += n,
            }
            worst = worst.max(step.elapsed());
            std::thread::sleep(step.elapsed() * 4);
        }
        say(&format!(
            "  into history meanwhile: {moved} rows in {:.1} s, the longest step {:.0} ms",
            start.elapsed().as_secs_f64(),
            worst.as_secs_f64() * 1000.0
        ));
    });
    let rate = submissions(store, seconds);
    moving.join().unwrap();
    rate
}

/// The disk's own limit: the same bytes, synced as often.
fn disk(directory: &std::path::Path) {
    let file = File::create(directory.join("raw")).unwrap();
    let bytes = vec![7_u8; 10_000 * 400];
    let start = Instant::now();
    let mut n = 0;
    while start.elapsed() < Duration::from_secs(2) {
        file.write_all_at(&bytes, n * bytes.len() as u64).unwrap();
        file.sync_data().unwrap();
        n += 1;
    }
    let seconds = start.elapsed().as_secs_f64();
    say(&format!(
        "  the disk: 10,000 rows of 400 bytes and a sync: {:.0} rows/s",
        (n * 10_000) as f64 / seconds
    ));
}

fn measure(store: &Arc<dyn Store>, limit: f64) {
    let seconds = setting("WEIR_SECONDS", 10);
    store.next_epoch().unwrap();
    fill(store.as_ref(), setting("WEIR_FILES", 200_000));
    let rate = submissions(store, seconds);
    say(&format!("    {:.2} of what the database bears", rate / limit));
    let kept = housekeeping(store, seconds);
    say(&format!("    {:.2} of that without", kept / rate));
    restart(store.as_ref());
}

/// Rows like those of files, put into a table without an index by prepared statements, 10,000 to a commit.
fn raw_sqlite(directory: &std::path::Path) -> f64 {
    let mut connection = rusqlite::Connection::open(directory.join("raw.db")).unwrap();
    connection
        .pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))
        .unwrap();
    connection.pragma_update(None, "synchronous", "FULL").unwrap();
    connection
        .execute("CREATE TABLE raw (id INTEGER PRIMARY KEY, a INTEGER, b INTEGER, source TEXT, dest TEXT, c TEXT, d TEXT, e TEXT)", [])
        .unwrap();
    let jobs = (0..50).map(|n| job(n * FILES)).collect::<Vec<_>>();
    let start = Instant::now();
    let mut n = 0_u64;
    while start.elapsed() < Duration::from_secs(4) {
        let transaction = connection.transaction().unwrap();
        {
            let text = "INSERT INTO raw VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
            let mut insert = transaction.prepare_cached(text).unwrap();
            for file in jobs.iter().flat_map(|job| &job.files) {
                n += 1;
                let values = rusqlite::params![
                    n as i64,
                    1,
                    2,
                    file.source.as_str(),
                    file.destination.as_str(),
                    "ADLER32",
                    "default",
                    "auto"
                ];
                insert.execute(values).unwrap();
            }
        }
        transaction.commit().unwrap();
    }
    let rate = n as f64 / start.elapsed().as_secs_f64();
    say(&format!(
        "  the database: 10,000 inserts of such rows and a commit: {rate:.0} rows/s"
    ));
    rate
}

#[test]
#[ignore = "a measurement"]
fn rates_of_sqlite() {
    let directory = tempfile::tempdir().unwrap();
    say("SQLite");
    disk(directory.path());
    let limit = raw_sqlite(directory.path());
    let store = SqliteStore::open(&directory.path().join("transfer.db"), Sealer::ephemeral()).unwrap();
    let store: Arc<dyn Store> = Arc::new(store);
    measure(&store, limit);
}

#[test]
#[ignore = "a measurement"]
fn rates_of_postgresql() {
    say("PostgreSQL");
    let bench = super::postgres::bench();
    disk(std::env::temp_dir().as_path());
    let limit = bench.raw_copy(&(0..50).map(|n| job(n * FILES)).collect::<Vec<_>>());
    say(&format!(
        "  the database: COPY of 10,000 such rows and a commit: {limit:.0} rows/s"
    ));
    let store: Arc<dyn Store> = bench.store.clone();
    measure(&store, limit);
}
