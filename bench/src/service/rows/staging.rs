//! A campaign: very many files brought from tape, copied, and given back.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::{
    super::lab::{Caller, ServiceLab, Store, cpu, memory, until},
    Figure, STAGING, fix, limits, scaled,
};

/// Words about the service's looks at its campaign.
struct Campaign {
    start: Instant,
    /// Seconds until all was asked for, until all was copied, and until all was given back.
    asked: f64,
    copied: f64,
    given_back: f64,
}

/// All of them at once at one tape endpoint, which has them online 20 s after it was asked.
pub(super) async fn row(store: Store, scale: f64) -> Result<Figure> {
    let files = scaled(100_000, scale).next_multiple_of(200);
    let lab = ServiceLab::up(&format!("{}staging = {files}\n", limits(200)), store)?;
    let caller = lab.client()?;
    fix(&caller, 200).await?;
    caller.drain(true).await?;
    let lab = Arc::new(lab);
    for _ in 0..files / 200 {
        caller.submit(lab.job_from_tape(200)).await?;
    }
    let pid = lab.service_pid()?;
    let ((before, _), used, database) = (memory(pid, "VmRSS")?, cpu(pid)?, lab.database_cpu());
    caller.drain(false).await?;
    let mut campaign = Campaign {
        start: Instant::now(),
        asked: 0.0,
        copied: 0.0,
        given_back: 0.0,
    };
    campaign.asked = campaign.when(&lab, &caller, |seen| seen.wanted >= files).await?;
    let (waiting, _) = memory(pid, "VmRSS")?;
    campaign.copied = campaign.when(&lab, &caller, |seen| seen.copied >= files).await?;
    campaign.given_back = campaign.when(&lab, &caller, |seen| seen.released >= files).await?;
    let (peak, _) = memory(pid, "VmHWM")?;
    let (used, database) = (cpu(pid)? - used, lab.database_cpu() - database);
    let tape = lab.seen(&caller, 0).await?["tape"].clone();
    let Campaign {
        asked,
        copied,
        given_back,
        ..
    } = campaign;
    Ok(Figure {
        name: STAGING,
        said: format!(
            "{}, {files}: asked for after {asked:.1} s in {} requests, {} polls; all copied after {copied:.1} s, given back after {given_back:.1} s \
             in {} requests; {before:.0} MiB before, {waiting:.0} while all wait, {peak:.0} at most, {used:.1} s of processor, {database:.1} s in the database",
            store.name(),
            tape["requests"],
            tape["polls"],
            tape["releases"],
        ),
        numbers: json!({ "store": store.name(), "files": files, "asked_s": asked, "copied_s": copied, "given_back_s": given_back,
            "peak_mib": peak, "before_mib": before, "waiting_mib": waiting, "cpu_s": used, "database_cpu_s": database, "tape": tape }),
    })
}

/// The requests that the stubs have seen.
struct Seen {
    wanted: u64,
    released: u64,
    copied: u64,
}

impl Campaign {
    /// Seconds from the start until this is so.
    async fn when(&self, lab: &ServiceLab, caller: &Caller, so: impl Fn(&Seen) -> bool) -> Result<f64> {
        until(Duration::from_secs(600), Duration::from_millis(500), || async {
            let (source, target) = (lab.seen(caller, 0).await?, lab.seen(caller, 1).await?);
            let count = |value: &Value| value.as_u64().context("no stats");
            let seen = Seen {
                wanted: count(&source["tape"]["wanted"])?,
                released: count(&source["tape"]["released"])?,
                copied: count(&target["there"])?,
            };
            Ok(so(&seen).then(|| self.start.elapsed().as_secs_f64()))
        })
        .await
    }
}
