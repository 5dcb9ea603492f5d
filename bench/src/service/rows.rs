//! What is measured.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::lab::{Caller, ServiceLab, cpu, memory, until};

/// One figure: what was reached, in words, and the numbers.
struct Figure {
    name: &'static str,
    said: String,
    numbers: Value,
}

/// Runs all rows whose name holds `only`.
pub(crate) async fn all(only: &str, scale: f64) -> Result<Value> {
    let mut found = Vec::new();
    let wanted = |name: &str| name.contains(only);
    let mut tell = |figure: Figure| {
        println!("{:<34} {}", figure.name, figure.said);
        found.push(json!({ "name": figure.name, "said": figure.said, "numbers": figure.numbers }));
    };
    for clients in [16, 64] {
        if wanted(SUBMIT_200) {
            tell(submissions(SUBMIT_200, 200, clients, true, scale).await?);
        }
    }
    if wanted(SUBMIT_1) {
        tell(submissions(SUBMIT_1, 1, 16, true, scale).await?);
    }
    if wanted(SUBMIT_TLS) {
        tell(submissions(SUBMIT_TLS, 1, 16, false, scale).await?);
    }
    if wanted(COPIES) {
        tell(concurrent(scale).await?);
    }
    if wanted(SUSTAINED) {
        tell(sustained(scale).await?);
    }
    if wanted(NEXT_START) {
        tell(next_start(scale).await?);
    }
    if wanted(RESTART) {
        tell(restart(scale).await?);
    }
    if wanted(POLL) {
        tell(poll(scale).await?);
    }
    Ok(Value::from(found))
}

const SUBMIT_200: &str = "submission, 200 files a job";
const SUBMIT_1: &str = "submission, 1 file, keep-alive";
const SUBMIT_TLS: &str = "submission, 1 file, new TLS";
const COPIES: &str = "concurrent COPYs";
const SUSTAINED: &str = "sustained completions";
const NEXT_START: &str = "completion to next start";
const RESTART: &str = "restart";
const POLL: &str = "status poll of 100 x 100";

const ADMIN: &str = "[[admin]]\nsubject = \"tester\"\n";

fn limits(link: u32) -> String {
    format!("{ADMIN}[limits]\nlink = {link}\ninbound = 40000\noutbound = 40000\nconnections = 512\n")
}

/// Links take so many at once, whatever the optimiser would think.
async fn fix(caller: &Caller, active: u64) -> Result<()> {
    let link = json!({
        "symbolicname": "every", "source": "*", "destination": "*", "optimizer_mode": 0,
        "min_active": active, "max_active": active,
    });
    caller.post("/config/links", &link).await
}

fn scaled(count: u64, scale: f64) -> u64 {
    ((count as f64 * scale) as u64).max(1)
}

/// The p-th part of sorted figures.
fn quantile(sorted: &[f64], p: f64) -> f64 {
    let place = (sorted.len() as f64 * p) as usize;
    sorted
        .get(place.min(sorted.len().saturating_sub(1)))
        .copied()
        .unwrap_or(0.0)
}

/// Jobs from so many clients at once for ten seconds, while nothing may start.
async fn submissions(name: &'static str, files: u64, clients: usize, keep: bool, scale: f64) -> Result<Figure> {
    let lab = Arc::new(ServiceLab::up(&limits(100))?);
    let caller = lab.client()?;
    caller.drain(true).await?;
    // Connections and caches warm.
    caller.submit(lab.job(files, Duration::ZERO)).await?;
    let (over, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let used = cpu(lab.service_pid()?)?;
    let start = Instant::now();
    let mut tasks = Vec::new();
    for _ in 0..clients {
        let (lab, over, done) = (lab.clone(), over.clone(), done.clone());
        let shared = lab.client()?;
        tasks.push(tokio::spawn(async move {
            let mut waits = Vec::new();
            while !over.load(Ordering::Relaxed) {
                let job = lab.job(files, Duration::ZERO);
                let at = Instant::now();
                let caller = if keep { shared.clone() } else { lab.client()? };
                caller.submit(job).await?;
                waits.push(at.elapsed().as_secs_f64() * 1e3);
                done.fetch_add(1, Ordering::Relaxed);
            }
            Ok::<_, anyhow::Error>(waits)
        }));
    }
    tokio::time::sleep(Duration::from_secs_f64(10.0 * scale.clamp(0.1, 1.0))).await;
    let (seconds, jobs) = (start.elapsed().as_secs_f64(), done.load(Ordering::Relaxed));
    let used = cpu(lab.service_pid()?)? - used;
    over.store(true, Ordering::Relaxed);
    let mut waits = Vec::new();
    for task in tasks {
        waits.extend(task.await??);
    }
    waits.sort_by(f64::total_cmp);
    let rate = jobs as f64 / seconds;
    let (p50, p99) = (quantile(&waits, 0.5), quantile(&waits, 0.99));
    let each = used / (jobs * files) as f64 * 1e6;
    Ok(Figure {
        name,
        said: format!(
            "{clients:>3} clients: {rate:.0} jobs/s, {:.0} files/s; p50 {p50:.1} ms, p99 {p99:.1} ms; {each:.1} us of processor a file",
            rate * files as f64
        ),
        numbers: json!({ "clients": clients, "files_per_job": files, "jobs_per_s": rate, "files_per_s": rate * files as f64,
            "p50_ms": p50, "p99_ms": p99, "cpu_us_per_file": each }),
    })
}

/// As many copies at once as a process of 20,000 descriptors bears.
async fn concurrent(scale: f64) -> Result<Figure> {
    let wanted = scaled(19_000, scale);
    let lab = ServiceLab::up(&limits(20_000))?;
    let caller = lab.client()?;
    fix(&caller, wanted).await?;
    caller.drain(true).await?;
    for _ in 0..wanted.div_ceil(200) {
        caller.submit(lab.job(200, Duration::from_secs(120))).await?;
    }
    let pid = lab.service_pid()?;
    let (before, _) = memory(pid, "VmRSS")?;
    let used = cpu(pid)?;
    caller.drain(false).await?;
    let start = Instant::now();
    let mut most = 0;
    let reached = until(Duration::from_secs(115), Duration::from_millis(500), || async {
        let copying = lab.seen(&caller, 1).await?["copying"].as_u64().context("no stats")?;
        Ok((copying >= wanted).then_some(copying))
    })
    .await;
    let ramp = start.elapsed().as_secs_f64();
    if reached.is_err() {
        most = lab.seen(&caller, 1).await?["copying_max"].as_u64().unwrap_or(0);
    }
    let most = reached.unwrap_or(most);
    tokio::time::sleep(Duration::from_secs(5)).await;
    let (peak, descriptors) = memory(pid, "VmHWM")?;
    let used = cpu(pid)? - used;
    Ok(Figure {
        name: COPIES,
        said: format!(
            "{most} of {wanted} after {ramp:.1} s; {descriptors} descriptors, {peak:.0} MiB at most ({before:.0} before), {:.1} KiB each; {used:.1} s of processor",
            (peak - before) * 1024.0 / most.max(1) as f64
        ),
        numbers: json!({ "wanted": wanted, "reached": most, "ramp_s": ramp, "descriptors": descriptors, "peak_mib": peak,
            "cpu_s": used }),
    })
}

/// Copies that take no time: what the service itself can finish in a second.
async fn sustained(scale: f64) -> Result<Figure> {
    let files = scaled(60_000, scale).next_multiple_of(200);
    let lab = ServiceLab::up(&limits(200))?;
    let caller = lab.client()?;
    fix(&caller, 200).await?;
    caller.drain(true).await?;
    for _ in 0..files / 200 {
        caller.submit(lab.job(200, Duration::ZERO)).await?;
    }
    let pid = lab.service_pid()?;
    let used = cpu(pid)?;
    let stubs = || -> Result<f64> { lab.stub_pids.iter().map(|pid| cpu(*pid)).sum() };
    let stub_used = stubs()?;
    caller.drain(false).await?;
    let ended = until(Duration::from_secs(600), Duration::from_secs(1), || async {
        let seen = lab.seen(&caller, 1).await?;
        let ended = seen["ended"].as_array().context("no stats")?;
        Ok((ended.len() as u64 >= files).then(|| ended.iter().filter_map(Value::as_u64).collect::<Vec<_>>()))
    })
    .await?;
    let (used, stub_used) = (cpu(pid)? - used, stubs()? - stub_used);
    // The first and the last tenth are ramps.
    let (first, last) = (ended.len() / 10, ended.len() * 9 / 10);
    let rate = (last - first) as f64 / ((ended[last] - ended[first]) as f64 / 1e6);
    let each = used / files as f64 * 1e6;
    Ok(Figure {
        name: SUSTAINED,
        said: format!(
            "{rate:.0} transfers/s; {each:.0} us of processor each, {:.0} us in the stubs",
            stub_used / files as f64 * 1e6
        ),
        numbers: json!({ "files": files, "per_s": rate, "cpu_us_each": each, "stub_cpu_us_each": stub_used / files as f64 * 1e6 }),
    })
}

/// How long a slot stays empty: from the last look at a file that has arrived to the first look at the one that takes its place.
async fn next_start(scale: f64) -> Result<Figure> {
    const ACTIVE: u64 = 200;
    let files = scaled(10_000, scale).max(10 * ACTIVE).next_multiple_of(200);
    let lab = ServiceLab::up(&limits(200))?;
    let caller = lab.client()?;
    fix(&caller, ACTIVE).await?;
    caller.drain(true).await?;
    for _ in 0..files / 200 {
        caller.submit(lab.job(200, Duration::from_secs(1))).await?;
    }
    caller.drain(false).await?;
    let times = |seen: &Value, key: &str| -> Vec<u64> {
        let list = seen[key].as_array().map(Vec::as_slice).unwrap_or_default();
        let mut times: Vec<u64> = list.iter().filter_map(Value::as_u64).collect();
        times.sort_unstable();
        times
    };
    let ended = until(Duration::from_secs(300), Duration::from_secs(1), || async {
        let ended = times(&lab.seen(&caller, 1).await?, "ended");
        Ok((ended.len() as u64 >= files).then_some(ended))
    })
    .await?;
    let began = times(&lab.seen(&caller, 0).await?, "began");
    ensure!(began.len() as u64 == files, "{} starts of {files}", began.len());
    // The first slots were empty; from then on each end lets one begin.
    let mut waits: Vec<f64> = began[usize::try_from(ACTIVE)?..]
        .iter()
        .zip(&ended)
        .map(|(began, ended)| began.saturating_sub(*ended) as f64 / 1e3)
        .collect();
    waits.sort_by(f64::total_cmp);
    let (p50, p99) = (quantile(&waits, 0.5), quantile(&waits, 0.99));
    Ok(Figure {
        name: NEXT_START,
        said: format!(
            "p50 {p50:.1} ms, p99 {p99:.1} ms, {ACTIVE} at once, {} ends",
            waits.len()
        ),
        numbers: json!({ "p50_ms": p50, "p99_ms": p99, "active": ACTIVE, "ends": waits.len() }),
    })
}

/// A million files wait, the service stops and starts: when does its door open, and when does the first copy begin?
async fn restart(scale: f64) -> Result<Figure> {
    let files = scaled(1_000_000, scale).next_multiple_of(200);
    let mut lab = ServiceLab::up(&limits(10))?;
    let caller = lab.client()?;
    fix(&caller, 10).await?;
    for _ in 0..files / 200 {
        caller.submit(lab.job(200, Duration::from_secs(600))).await?;
    }
    lab.services.transfer.stop(Duration::from_secs(30))?;
    let began = |seen: &Value| seen["began"].as_array().map_or(0, Vec::len);
    let earlier = began(&lab.seen(&caller, 0).await?);
    let start = Instant::now();
    lab.services.transfer.spawn()?;
    lab.services.transfer.wait_ready()?;
    let serving = start.elapsed().as_secs_f64();
    until(Duration::from_secs(120), Duration::from_millis(20), || async {
        Ok((began(&lab.seen(&caller, 0).await?) > earlier).then_some(()))
    })
    .await?;
    let scheduling = start.elapsed().as_secs_f64();
    let (peak, _) = memory(lab.service_pid()?, "VmHWM")?;
    Ok(Figure {
        name: RESTART,
        said: format!(
            "{files} queued: serving after {serving:.2} s, scheduling after {scheduling:.2} s; {peak:.0} MiB"
        ),
        numbers: json!({ "files": files, "serving_s": serving, "scheduling_s": scheduling, "peak_mib": peak }),
    })
}

/// What Rucio's poller asks, while transfers complete.
async fn poll(scale: f64) -> Result<Figure> {
    let lab = ServiceLab::up(&limits(100))?;
    let caller = lab.client()?;
    fix(&caller, 84).await?;
    let mut jobs = Vec::new();
    for _ in 0..100 {
        // 84 at once of a second each: some 5,000 a minute.
        jobs.push(caller.submit(lab.job(100, Duration::from_secs(1))).await?);
    }
    let path = format!(
        "/jobs/{}?files=file_state,dest_surl,finish_time,start_time,staging_start,staging_finished,reason,source_surl,file_metadata",
        jobs.join(",")
    );
    let mut waits = Vec::new();
    let end = Instant::now() + Duration::from_secs_f64(60.0 * scale.clamp(0.1, 1.0));
    while Instant::now() < end {
        let at = Instant::now();
        let answer = caller.get(&path).await?;
        waits.push(at.elapsed().as_secs_f64() * 1e3);
        let answer: Value = serde_json::from_slice(&answer)?;
        ensure!(
            answer.as_array().is_some_and(|jobs| jobs.len() == 100),
            "not all jobs came"
        );
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    waits.sort_by(f64::total_cmp);
    let (p50, p95) = (quantile(&waits, 0.5), quantile(&waits, 0.95));
    Ok(Figure {
        name: POLL,
        said: format!("p50 {p50:.1} ms, p95 {p95:.1} ms, {} polls", waits.len()),
        numbers: json!({ "p50_ms": p50, "p95_ms": p95, "polls": waits.len() }),
    })
}
