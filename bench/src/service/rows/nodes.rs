//! Several nodes on one PostgreSQL.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::{
    super::lab::{Caller, ServiceLab, Store, cpu, until},
    Figure, NODES, TAKE_OVER, copies, fix, limits, scaled,
};

/// The role of each node of the service: one schedules, two copy, one is a door.
const ROLES: [&str; 4] = ["scheduler", "executor", "executor", "door"];

/// Copies that take no time, by one node and by four: the cost of sharing the work.
pub(super) async fn throughput(scale: f64) -> Result<Figure> {
    let files = scaled(20_000, scale).next_multiple_of(200);
    let one = copies::rate(&ServiceLab::up(&limits(200), Store::Postgres)?, files).await?;
    let lab = ServiceLab::nodes(&limits(200), &ROLES)?;
    wait_for_executors(&lab).await?;
    let several = copies::rate(&lab, files).await?;
    Ok(Figure {
        name: NODES,
        said: format!(
            "{:.0} transfers/s by scheduler, two executors and door; {:.2} of one node's {:.0}, on the same processors",
            several.per_s,
            several.per_s / one.per_s,
            one.per_s
        ),
        numbers: json!({ "files": files, "per_s": several.per_s, "one_node_per_s": one.per_s,
            "ratio": several.per_s / one.per_s }),
    })
}

/// One of two executors ends or stands still: when has all it did begun elsewhere?
pub(super) async fn take_over(stopped: bool, scale: f64) -> Result<Figure> {
    let copies = scaled(200, scale).max(20);
    let lab = ServiceLab::nodes(&limits(1000), &ROLES)?;
    let caller = lab.client()?;
    wait_for_executors(&lab).await?;
    fix(&caller, copies).await?;
    for _ in 0..copies.div_ceil(20) {
        caller.submit(lab.job(20, Duration::from_secs(60))).await?;
    }
    let began = |seen: &Value| seen["began"].as_array().map_or(0, Vec::len) as u64;
    until(Duration::from_secs(60), Duration::from_millis(100), || async {
        Ok((lab.seen(&caller, 1).await?["copying"].as_u64() >= Some(copies)).then_some(()))
    })
    .await?;
    let earlier = began(&lab.seen(&caller, 0).await?);
    let victim = &lab.services.nodes[0];
    let had = leases(&caller, &victim.url).await?;
    ensure!(had > 0 && had < copies, "it had {had} of {copies} copies");
    let start = Instant::now();
    victim.signal(if stopped { Signal::STOP } else { Signal::KILL })?;
    // A copy that is tried again is looked at again at its source. How many they were is known when no more follow.
    let (mut last, mut count) = (start, earlier);
    while last.elapsed() < Duration::from_secs(8) || count < earlier + had {
        ensure!(
            start.elapsed() < Duration::from_secs(120),
            "of {had} copies {} began elsewhere",
            count - earlier
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
        let now = began(&lab.seen(&caller, 0).await?);
        if now > count {
            (last, count) = (Instant::now(), now);
        }
    }
    let seconds = (last - start).as_secs_f64();
    let how = if stopped { "stopped" } else { "killed" };
    Ok(Figure {
        name: TAKE_OVER,
        said: format!(
            "executor {how}: all of its {had} copies began elsewhere after {seconds:.1} s, {} in all",
            count - earlier
        ),
        numbers: json!({ "how": how, "copies": copies, "had": had, "taken_over": count - earlier, "seconds": seconds }),
    })
}

/// Operations that the scheduler has given to the node of this URL.
async fn leases(caller: &Caller, url: &str) -> Result<u64> {
    let told: Value = serde_json::from_slice(&caller.get("/.well-known/weir/nodes").await?)?;
    let nodes = told["nodes"].as_array().context("no nodes")?;
    let node = nodes.iter().find(|node| node["url"] == url);
    node.and_then(|node| node["leases"].as_u64())
        .with_context(|| format!("{url} is not among {told}"))
}

/// Until the scheduler gives work to both executors: both take part in a few copies.
async fn wait_for_executors(lab: &ServiceLab) -> Result<()> {
    let caller: Caller = lab.client()?;
    fix(&caller, 20).await?;
    until(Duration::from_secs(60), Duration::from_millis(500), || async {
        let used = |place: usize| cpu(lab.services.nodes[place].pid().context("a node is gone")?);
        let before = (used(0)?, used(1)?);
        for _ in 0..5 {
            caller.submit(lab.job(40, Duration::from_millis(100))).await?;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        Ok((used(0)? - before.0 > 0.02 && used(1)? - before.1 > 0.02).then_some(()))
    })
    .await?;
    until(Duration::from_secs(60), Duration::from_millis(200), || async {
        let ended = lab.seen(&caller, 1).await?["ended"].as_array().map(Vec::len);
        Ok((ended == usize::try_from(lab.named()).ok()).then_some(()))
    })
    .await
}
