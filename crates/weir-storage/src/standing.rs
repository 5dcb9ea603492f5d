//! Readiness of the endpoint: checked on request, never more than once at a time.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant, SystemTime},
};

use tokio::sync::watch;
use weir_service::health::{Readiness, ask_issuers};

use crate::{
    area::{Area, ReadOnly},
    data::blocking,
    service::Endpoint,
};

/// Lifetime of a result: a probe every second causes a check every two.
const COUNTS_FOR: Duration = Duration::from_secs(2);
/// Timeout of a disk; a cluster file system that hangs does not answer at all.
const PATIENCE: Duration = Duration::from_secs(5);
/// The last result, and whether a check is running.
#[derive(Default)]
pub(crate) struct Standing {
    found: watch::Sender<Option<(Instant, Arc<Readiness>)>>,
    is_looking: AtomicBool,
}

impl Standing {
    /// Invalidates the last result after a change.
    pub(crate) fn forget(&self) {
        self.found.send_replace(None);
    }

    /// How it stands now, or did a moment ago.
    pub(crate) async fn report(&self, endpoint: &Arc<Endpoint>) -> Arc<Readiness> {
        let mut found = self.found.subscribe();
        let fresh = |found: &Option<(Instant, Arc<Readiness>)>| {
            let (at, report) = found.as_ref()?;
            (at.elapsed() < COUNTS_FOR).then(|| report.clone())
        };
        if let Some(report) = fresh(&found.borrow_and_update()) {
            return report;
        }
        if !self.is_looking.swap(true, Ordering::AcqRel) {
            let looking = Looking(endpoint.clone());
            tokio::spawn(async move {
                let standing = &looking.0.standing;
                let report = Arc::new(standing.look(&looking.0).await);
                standing.found.send_replace(Some((Instant::now(), report)));
            });
        }
        let looked = tokio::time::timeout(PATIENCE, found.wait_for(|found| fresh(found).is_some())).await;
        let report = looked.ok().and_then(|found| fresh(&*found.ok()?));
        report.unwrap_or_else(|| {
            let text = format!("the areas' disks do not answer within {} s", PATIENCE.as_secs());
            Arc::new(Readiness {
                troubles: vec![text],
                warnings: Vec::new(),
            })
        })
    }

    async fn look(&self, endpoint: &Arc<Endpoint>) -> Readiness {
        let mut report = Readiness::default();
        let now = SystemTime::now();
        let asked = ask_issuers(&endpoint.verifier, now);
        for area in endpoint.names.areas() {
            let looked = area.clone();
            if let Some(trouble) = blocking(move || trouble(&looked)).await {
                report.troubles.push(format!("area {}: {trouble}", area.name));
            }
        }
        report.certificate(endpoint.metrics.reloads.certificate_end(), now);
        let issuers = endpoint.config.issuers.len();
        report.issuers(&endpoint.verifier, issuers, now, asked).await;
        report
    }
}

/// A running check; however it ends, the next one may start.
struct Looking(Arc<Endpoint>);

impl Drop for Looking {
    fn drop(&mut self) {
        self.0.standing.is_looking.store(false, Ordering::Release);
    }
}

/// Why an area takes no files, though it should. On the blocking pool.
fn trouble(area: &Area) -> Option<String> {
    match area.read_only {
        Some(ReadOnly::Configured) => area.backend.space().err().map(|error| weir_auth::error_chain(&error)),
        Some(why @ ReadOnly::Uncounted) => Some(format!("it is read-only {why}")),
        // A private file that is removed at once.
        None => area
            .backend
            .draft(false)
            .err()
            .map(|error| weir_auth::error_chain(&error)),
    }
}
