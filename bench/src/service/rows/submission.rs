//! Submissions: how many a second, how long each, beside what the same clients reach at a door that only reads and answers.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use bytes::Bytes;
use serde_json::json;

use super::{
    super::lab::{Caller, ServiceLab, Store, cpu},
    Figure, fix, limits, median, quantile, scaled,
};

/// Rounds, each of which has the service and then the bare door.
const ROUNDS: usize = 3;

/// How long a copy takes while submissions come in, and how many are under way: some 2,000 end each second.
const COPY: Duration = Duration::from_millis(100);
const ACTIVE: u64 = 240;

/// Clients of a paced row. Each submits one job at a time: as many may be late at once.
const PACED_CLIENTS: u32 = 64;

/// The clients, and their submissions.
#[derive(Clone, Copy)]
pub(super) struct Submission {
    pub(super) name: &'static str,
    pub(super) store: Store,
    pub(super) files: u64,
    pub(super) clients: usize,
    /// Whether a client keeps its connection.
    pub(super) keep: bool,
    /// Files that are queued before.
    pub(super) queued: u64,
    /// Whether transfers begin and end beside.
    pub(super) completing: bool,
    /// Files that come in each second, in a second measurement: at their times, whatever the service does.
    pub(super) paced: Option<u32>,
}

/// The figures of clients in one window.
#[derive(Default)]
struct Window {
    jobs: u64,
    seconds: f64,
    /// Milliseconds from the request to the answer.
    waits: Vec<f64>,
}

impl Window {
    fn add(&mut self, other: Self) {
        self.jobs += other.jobs;
        self.seconds += other.seconds;
        self.waits.extend(other.waits);
    }

    fn rate(&self) -> f64 {
        self.jobs as f64 / self.seconds
    }
}

impl Submission {
    pub(super) async fn measure(self, scale: f64) -> Result<Vec<Figure>> {
        let lab = Arc::new(ServiceLab::up(&limits(1000), self.store)?);
        let caller = lab.client()?;
        fix(&caller, ACTIVE).await?;
        caller.drain(true).await?;
        let queued = scaled(self.queued, scale);
        queue(&lab, queued, COPY).await?;
        // Connections and caches warm.
        caller.submit(lab.job(self.files, COPY)).await?;
        if self.completing {
            caller.drain(false).await?;
            tokio::time::sleep(Duration::from_secs(2)).await;
        }
        let length = Duration::from_secs_f64(10.0 * scale.clamp(0.1, 1.0));
        let (mut all, mut ratios, mut took) = (Window::default(), Vec::new(), Took::default());
        for _ in 0..ROUNDS {
            let before = Took::so_far(&lab, &caller).await?;
            let window = self.window(&lab, length / 2, false).await?;
            took.add(&before, &Took::so_far(&lab, &caller).await?);
            let bare = self.window(&lab, length / 5, true).await?;
            ratios.push(window.rate() / bare.rate());
            all.add(window);
        }
        all.waits.sort_by(f64::total_cmp);
        let mut figures = vec![self.figure(&all, queued, median(&mut ratios), &took)];
        if let Some(files_per_s) = self.paced {
            let (mut all, mut took) = (Window::default(), Took::default());
            for _ in 0..ROUNDS {
                let before = Took::so_far(&lab, &caller).await?;
                all.add(self.paced(&lab, length, files_per_s).await?);
                took.add(&before, &Took::so_far(&lab, &caller).await?);
            }
            all.waits.sort_by(f64::total_cmp);
            figures.push(self.paced_figure(&all, queued, files_per_s, &took));
        }
        Ok(figures)
    }

    fn figure(self, all: &Window, queued: u64, ratio: f64, took: &Took) -> Figure {
        let rate = all.rate();
        let (p50, p99) = (quantile(&all.waits, 0.5), quantile(&all.waits, 0.99));
        let each = |seconds: f64| seconds / (all.jobs * self.files) as f64 * 1e6;
        let (each, database) = (each(took.service), each(took.database));
        let per_second = took.ended / all.seconds;
        let beside = match (self.completing, queued) {
            (true, _) => format!("; over {queued} files, {per_second:.0} transfers/s beside"),
            _ => String::new(),
        };
        Figure {
            name: self.name,
            said: format!(
                "{}, {:>2} clients: {rate:.0} jobs/s, {:.0} files/s; p50 {p50:.1} ms, p99 {p99:.1} ms; {each:.1} us of processor a file, {database:.1} in the database; {ratio:.2} of a bare door{beside}",
                self.store.name(),
                self.clients,
                rate * self.files as f64
            ),
            numbers: json!({ "store": self.store.name(), "clients": self.clients, "files_per_job": self.files,
                "jobs_per_s": rate, "files_per_s": rate * self.files as f64, "p50_ms": p50, "p99_ms": p99,
                "cpu_us_per_file": each, "database_cpu_us_per_file": database, "of_bare_door": ratio, "queued": queued, "ended_per_s": per_second }),
        }
    }

    fn paced_figure(self, all: &Window, queued: u64, offered: u32, took: &Took) -> Figure {
        let rate = all.rate() * self.files as f64;
        let [p50, p99, worst] = [0.5, 0.99, 1.0].map(|p| quantile(&all.waits, p));
        let per_second = took.ended / all.seconds;
        let cores = |seconds: f64| seconds / all.seconds;
        let (service, database) = (cores(took.service), cores(took.database));
        Figure {
            name: self.name,
            said: format!(
                "{}, {offered} files/s offered at their times: {rate:.0} files/s; p50 {p50:.1} ms, p99 {p99:.1} ms, {worst:.0} ms at most, from the time; over {queued} files, {per_second:.0} transfers/s beside; {service:.2} processors in the service, {database:.2} in the database",
                self.store.name()
            ),
            numbers: json!({ "store": self.store.name(), "offered_files_per_s": offered, "files_per_job": self.files,
                "files_per_s": rate, "p50_ms": p50, "p99_ms": p99, "max_ms": worst, "queued": queued, "ended_per_s": per_second,
                "service_cores": service, "database_cores": database }),
        }
    }

    /// Submits one job after the other at its time, for so long. A wait counts from that time: a service that falls behind does not
    /// make those wait less who come then.
    async fn paced(self, lab: &Arc<ServiceLab>, length: Duration, files_per_s: u32) -> Result<Window> {
        let apart = Duration::from_secs_f64(self.files as f64 / f64::from(files_per_s));
        let jobs = (length.as_secs_f64() / apart.as_secs_f64()) as u32;
        // Clients find each other's connections idle: connecting is no part of this.
        let caller = lab.client()?;
        let (next, start) = (Arc::new(AtomicU32::new(0)), Instant::now() + apart);
        let mut tasks = Vec::new();
        for _ in 0..PACED_CLIENTS {
            let (lab, caller, next) = (lab.clone(), caller.clone(), next.clone());
            tasks.push(tokio::spawn(async move {
                let mut waits = Vec::new();
                loop {
                    // Made before its time.
                    let job = lab.job(self.files, COPY);
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= jobs {
                        return Ok::<_, anyhow::Error>(waits);
                    }
                    let due = start + apart * number;
                    tokio::time::sleep_until(due.into()).await;
                    caller.submit(job).await?;
                    waits.push(due.elapsed().as_secs_f64() * 1e3);
                }
            }));
        }
        let mut waits = Vec::new();
        for task in tasks {
            waits.extend(task.await??);
        }
        Ok(Window {
            jobs: waits.len() as u64,
            // To the last answer.
            seconds: start.elapsed().as_secs_f64(),
            waits,
        })
    }

    /// Lets all clients submit for so long, to the service or to the bare door of a stub.
    async fn window(self, lab: &Arc<ServiceLab>, length: Duration, bare: bool) -> Result<Window> {
        let (over, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let start = Instant::now();
        let mut tasks = Vec::new();
        for _ in 0..self.clients {
            let (lab, over, done) = (lab.clone(), over.clone(), done.clone());
            let client = move |lab: &ServiceLab| -> Result<Caller> {
                Ok(if bare {
                    lab.client()?.at(&lab.stubs[0])
                } else {
                    lab.client()?
                })
            };
            let shared = client(&lab)?;
            tasks.push(tokio::spawn(async move {
                let mut waits = Vec::new();
                while !over.load(Ordering::Relaxed) {
                    let job: Bytes = lab.job(self.files, COPY);
                    let at = Instant::now();
                    let caller = if self.keep { shared.clone() } else { client(&lab)? };
                    caller.submit(job).await?;
                    waits.push(at.elapsed().as_secs_f64() * 1e3);
                    done.fetch_add(1, Ordering::Relaxed);
                }
                Ok::<_, anyhow::Error>(waits)
            }));
        }
        tokio::time::sleep(length).await;
        let (seconds, jobs) = (start.elapsed().as_secs_f64(), done.load(Ordering::Relaxed));
        over.store(true, Ordering::Relaxed);
        let mut waits = Vec::new();
        for task in tasks {
            waits.extend(task.await??);
        }
        Ok(Window { jobs, seconds, waits })
    }
}

/// Events beside the clients.
#[derive(Default)]
struct Took {
    /// Seconds of processor.
    service: f64,
    database: f64,
    /// Transfers that ended at the destination.
    ended: f64,
}

impl Took {
    async fn so_far(lab: &ServiceLab, caller: &Caller) -> Result<Self> {
        let seen = lab.seen(caller, 1).await?;
        Ok(Self {
            service: cpu(lab.service_pid()?)?,
            database: lab.database_cpu(),
            ended: seen["ended"].as_array().map(Vec::len).context("no stats")? as f64,
        })
    }

    fn add(&mut self, before: &Self, after: &Self) {
        self.service += after.service - before.service;
        self.database += after.database - before.database;
        self.ended += after.ended - before.ended;
    }
}

/// Queues at least so many files, in jobs of 200, by eight clients.
pub(super) async fn queue(lab: &Arc<ServiceLab>, files: u64, copy: Duration) -> Result<()> {
    let left = Arc::new(AtomicU64::new(files.div_ceil(200)));
    let mut tasks = Vec::new();
    for _ in 0..8 {
        let (lab, left) = (lab.clone(), left.clone());
        let caller = lab.client()?;
        tasks.push(tokio::spawn(async move {
            let one = |left: u64| left.checked_sub(1);
            while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one).is_ok() {
                caller.submit(lab.job(200, copy)).await?;
            }
            Ok::<_, anyhow::Error>(())
        }));
    }
    for task in tasks {
        task.await??;
    }
    Ok(())
}
