//! The cost of a long queue: a restart, and clients that ask about their jobs.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::{
    super::lab::{ServiceLab, Store, memory, until},
    Figure, POLL, fix, limits, quantile, scaled,
    submission::queue,
};

/// So many files wait, the service stops and starts: when does its door open, and when does the first copy begin?
pub(super) async fn restart(name: &'static str, store: Store, files: u64, scale: f64) -> Result<Figure> {
    let files = scaled(files, scale).next_multiple_of(200);
    let lab = Arc::new(ServiceLab::up(&limits(10), store)?);
    let caller = lab.client()?;
    fix(&caller, 10).await?;
    queue(&lab, files, Duration::from_secs(600)).await?;
    let mut lab = Arc::into_inner(lab).context("somebody still submits")?;
    lab.services.transfer.stop(Duration::from_secs(30))?;
    let began = |seen: &Value| seen["began"].as_array().map_or(0, Vec::len);
    let earlier = began(&lab.seen(&caller, 0).await?);
    let start = Instant::now();
    lab.services.transfer.spawn()?;
    lab.services.transfer.wait_ready()?;
    let serving = start.elapsed().as_secs_f64();
    until(Duration::from_secs(300), Duration::from_millis(20), || async {
        Ok((began(&lab.seen(&caller, 0).await?) > earlier).then_some(()))
    })
    .await?;
    let scheduling = start.elapsed().as_secs_f64();
    let (peak, _) = memory(lab.service_pid()?, "VmHWM")?;
    Ok(Figure {
        name,
        said: format!(
            "{}, {files} queued: serving after {serving:.2} s, scheduling after {scheduling:.2} s; {peak:.0} MiB",
            store.name()
        ),
        numbers: json!({ "store": store.name(), "files": files, "serving_s": serving, "scheduling_s": scheduling, "peak_mib": peak }),
    })
}

/// The requests of Rucio's poller while transfers complete.
pub(super) async fn poll(scale: f64) -> Result<Figure> {
    let lab = ServiceLab::up(&limits(100), Store::Sqlite)?;
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
