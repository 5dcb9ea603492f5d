//! Very many tokens in one queue, against one: in a service that renews them, though none of these needs it.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::{
    super::lab::{Caller, ServiceLab, Store, Tokens, cpu, memory, until},
    Figure, TOKENS, fix, limits, scaled,
};

/// Rounds of the pair: one after the other, so that what the machine does meanwhile meets both.
const ROUNDS: usize = 3;

/// The outcome of one queue.
#[derive(Debug, Clone, Copy)]
struct Run {
    /// Files a second, submitted while nothing may start.
    submitted: f64,
    /// Transfers a second, the first and the last tenth left out.
    completed: f64,
    /// Seconds from the word to start until the first copy was asked for.
    first: f64,
    cpu_us: f64,
    peak_mib: f64,
}

pub(super) async fn row(store: Store, scale: f64) -> Result<Figure> {
    let files = scaled(100_000, scale).next_multiple_of(200);
    let (one, many) = (Tokens::new(1)?, Tokens::new(files)?);
    let mut pairs = Vec::new();
    for _ in 0..ROUNDS {
        pairs.push((run(store, files, &one).await?, run(store, files, &many).await?));
    }
    let median = |of: &dyn Fn(&(Run, Run)) -> f64| {
        let mut all = pairs.iter().map(of).collect::<Vec<_>>();
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    };
    let ratio = |of: fn(&Run) -> f64| median(&|(one, many)| of(many) / of(one));
    let (submission, completion) = (ratio(|run| run.submitted), ratio(|run| run.completed));
    let (processor, memory) = (ratio(|run| run.cpu_us), ratio(|run| run.peak_mib));
    let first = |place: fn(&(Run, Run)) -> Run| median(&|pair| place(pair).first);
    let shown = |place: fn(&(Run, Run)) -> Run| {
        let of = |of: fn(&Run) -> f64| median(&|pair| of(&place(pair)));
        json!({ "submitted_per_s": of(|run| run.submitted), "completed_per_s": of(|run| run.completed),
            "first_s": of(|run| run.first), "cpu_us_each": of(|run| run.cpu_us), "peak_mib": of(|run| run.peak_mib) })
    };
    let (with_one, with_many) = (shown(|pair| pair.0), shown(|pair| pair.1));
    Ok(Figure {
        name: TOKENS,
        said: format!(
            "{}, {files}: completion x {completion:.3}, submission x {submission:.2}, processor x {processor:.2}, memory x {memory:.2}; \
             first start after {:.3} s against {:.3} s; {:.0} transfers/s, {:.0} files/s submitted",
            store.name(),
            first(|pair| pair.1),
            first(|pair| pair.0),
            with_many["completed_per_s"].as_f64().unwrap_or(0.0),
            with_many["submitted_per_s"].as_f64().unwrap_or(0.0),
        ),
        numbers: json!({ "store": store.name(), "files": files, "rounds": ROUNDS, "submission_ratio": submission, "completion_ratio": completion,
            "cpu_ratio": processor, "memory_ratio": memory, "one": with_one, "many": with_many }),
    })
}

async fn run(store: Store, files: u64, tokens: &Tokens) -> Result<Run> {
    let secret = tempfile::NamedTempFile::new()?;
    std::fs::write(secret.path(), "a secret that nobody is shown")?;
    let managed = format!(
        "{}[[issuer]]\nurl = \"{}\"\nvo = \"test\"\nclient_id = \"bench\"\nsecret_file = \"{}\"\n",
        limits(200),
        Tokens::ISSUER,
        secret.path().display()
    );
    let lab = ServiceLab::up(&managed, store)?;
    let caller = lab.client()?;
    fix(&caller, 200).await?;
    caller.drain(true).await?;
    // Made before the clock runs: making tokens costs more than taking them.
    let jobs = (0..files / 200)
        .map(|_| lab.job_of_tokens(200, tokens))
        .collect::<Vec<_>>();
    let start = Instant::now();
    submit_all(&caller, jobs).await?;
    let submitted = files as f64 / start.elapsed().as_secs_f64();
    let pid = lab.service_pid()?;
    let used = cpu(pid)?;
    caller.drain(false).await?;
    let start = Instant::now();
    until(Duration::from_secs(30), Duration::from_millis(1), || async {
        let seen = lab.seen(&caller, 0).await?;
        let began = seen["began"].as_array().is_some_and(|began| !began.is_empty());
        Ok(began.then_some(()))
    })
    .await?;
    let first = start.elapsed().as_secs_f64();
    let ended = until(Duration::from_secs(600), Duration::from_secs(1), || async {
        let seen = lab.seen(&caller, 1).await?;
        let ended = seen["ended"].as_array().context("no stats")?;
        Ok((ended.len() as u64 >= files).then(|| ended.iter().filter_map(Value::as_u64).collect::<Vec<_>>()))
    })
    .await?;
    let cpu_us = (cpu(pid)? - used) / files as f64 * 1e6;
    let (from, to) = (ended.len() / 10, ended.len() * 9 / 10);
    Ok(Run {
        submitted,
        completed: (to - from) as f64 / ((ended[to] - ended[from]) as f64 / 1e6),
        first,
        cpu_us,
        peak_mib: memory(pid, "VmHWM")?.0,
    })
}

/// From four clients at once.
async fn submit_all(caller: &Caller, jobs: Vec<Bytes>) -> Result<()> {
    let jobs = Arc::new(Mutex::new(jobs));
    let mut clients = Vec::new();
    for _ in 0..4 {
        let (caller, jobs) = (caller.clone(), jobs.clone());
        clients.push(tokio::spawn(async move {
            loop {
                let job = jobs.lock().pop();
                let Some(job) = job else {
                    return Ok::<_, anyhow::Error>(());
                };
                caller.submit(job).await?;
            }
        }));
    }
    for client in clients {
        client.await??;
    }
    Ok(())
}
