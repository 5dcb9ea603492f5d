//! Copies: how many at once, how many a second, how soon the next.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::{
    super::lab::{Caller, ServiceLab, Store, cpu, memory, until},
    COPIES, Figure, NEXT_START, SUSTAINED, fix, limits, quantile, scaled,
};

/// As many copies at once as a process of 20,000 descriptors bears.
pub(super) async fn concurrent(scale: f64) -> Result<Figure> {
    let wanted = scaled(19_000, scale);
    let lab = ServiceLab::up(&limits(20_000), Store::Sqlite)?;
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

/// Transfers that a service finishes in a second, and the processor time of each.
pub(super) struct Rate {
    pub(super) per_s: f64,
    us_each: f64,
    stub_us_each: f64,
}

/// Lets a service finish so many copies that take no time.
pub(super) async fn rate(lab: &ServiceLab, files: u64) -> Result<Rate> {
    let caller = lab.client()?;
    fix(&caller, 200).await?;
    caller.drain(true).await?;
    let earlier = ends(lab, &caller).await?.len();
    let mut jobs = Vec::new();
    for _ in 0..files / 200 {
        jobs.push(caller.submit(lab.job(200, Duration::ZERO)).await?);
    }
    let pid = lab.service_pid()?;
    let stubs = || -> Result<f64> { lab.stub_pids.iter().map(|pid| cpu(*pid)).sum() };
    let (used, stub_used) = (cpu(pid)?, stubs()?);
    caller.drain(false).await?;
    let wanted = earlier + usize::try_from(files)?;
    let ended = until(Duration::from_secs(600), Duration::from_secs(1), || async {
        let ended = ends(lab, &caller).await?;
        Ok((ended.len() >= wanted).then_some(ended))
    })
    .await?;
    let each = |used: f64| used / files as f64 * 1e6;
    let (us_each, stub_us_each) = (each(cpu(pid)? - used), each(stubs()? - stub_used));
    all_finished(&caller, &jobs).await?;
    // The first and the last tenth are ramps.
    let ended = &ended[earlier..];
    let (first, last) = (ended.len() / 10, ended.len() * 9 / 10);
    let per_s = (last - first) as f64 / ((ended[last] - ended[first]) as f64 / 1e6);
    Ok(Rate {
        per_s,
        us_each,
        stub_us_each,
    })
}

/// A transfer that has ended at the destination is FINISHED at the service within moments.
async fn all_finished(caller: &Caller, jobs: &[String]) -> Result<()> {
    for some in jobs.chunks(100) {
        let path = format!("/jobs/{}", some.join(","));
        until(Duration::from_secs(10), Duration::from_millis(200), || async {
            let told: Value = serde_json::from_slice(&caller.get(&path).await?)?;
            let told = told.as_array().map_or(std::slice::from_ref(&told), Vec::as_slice);
            let finished = told.iter().filter(|job| job["job_state"] == "FINISHED").count();
            Ok((finished == some.len()).then_some(()))
        })
        .await
        .context("not all jobs are FINISHED")?;
    }
    Ok(())
}

/// When transfers ended at the destination, microseconds.
async fn ends(lab: &ServiceLab, caller: &Caller) -> Result<Vec<u64>> {
    let seen = lab.seen(caller, 1).await?;
    let ended = seen["ended"].as_array().context("no stats")?;
    Ok(ended.iter().filter_map(Value::as_u64).collect())
}

/// Copies that take no time: they show the largest rate of the service itself.
pub(super) async fn sustained(store: Store, scale: f64) -> Result<Figure> {
    let files = scaled(60_000, scale).next_multiple_of(200);
    let rate = rate(&ServiceLab::up(&limits(200), store)?, files).await?;
    Ok(Figure {
        name: SUSTAINED,
        said: format!(
            "{}: {:.0} transfers/s; {:.0} us of processor each, {:.0} us in the stubs",
            store.name(),
            rate.per_s,
            rate.us_each,
            rate.stub_us_each
        ),
        numbers: json!({ "store": store.name(), "files": files, "per_s": rate.per_s, "cpu_us_each": rate.us_each,
            "stub_cpu_us_each": rate.stub_us_each }),
    })
}

/// How long a slot stays empty: from the last look at a file that has arrived to the first look at the one that takes its place.
pub(super) async fn next_start(scale: f64) -> Result<Figure> {
    const ACTIVE: u64 = 200;
    let files = scaled(10_000, scale).max(10 * ACTIVE).next_multiple_of(200);
    let lab = ServiceLab::up(&limits(200), Store::Sqlite)?;
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
