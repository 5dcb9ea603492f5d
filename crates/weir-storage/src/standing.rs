//! Whether the endpoint can do its work: asked when somebody wants to know, never more than once at a time.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant, SystemTime},
};

use tokio::{sync::watch, task::JoinHandle};

use crate::{
    area::{Area, ReadOnly},
    data::blocking,
    service::Endpoint,
};

/// How long an answer counts: those who ask every second cost a probe every two.
const COUNTS_FOR: Duration = Duration::from_secs(2);
/// What a disk may take; a cluster file system that hangs says nothing at all.
const PATIENCE: Duration = Duration::from_secs(5);
/// What issuers may take where the keys of none are known: less than those allow who ask whether it is ready.
const KEYS: Duration = Duration::from_millis(500);
/// How long before its end a certificate is worth a warning.
const SOON: Duration = Duration::from_secs(7 * 86_400);

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// What keeps it from its work.
    pub(crate) troubles: Vec<String>,
    /// What keeps some from theirs, or soon will.
    pub(crate) warnings: Vec<String>,
}

/// What was last found, and whether somebody is looking.
pub(crate) struct Standing {
    found: watch::Sender<Option<(Instant, Arc<Report>)>>,
    is_looking: AtomicBool,
    /// When the server's own certificate ends; none without TLS.
    certificate: Mutex<Option<SystemTime>>,
}

impl Standing {
    pub(crate) fn new(certificate: Option<SystemTime>) -> Self {
        Self {
            found: watch::Sender::new(None),
            is_looking: AtomicBool::new(false),
            certificate: Mutex::new(certificate),
        }
    }

    /// Another certificate is shown from now on, which ends then.
    pub(crate) fn shows_certificate(&self, end: Option<SystemTime>) {
        *self.certificate.lock().unwrap_or_else(PoisonError::into_inner) = end;
        self.found.send_replace(None);
    }

    /// How it stands now, or did a moment ago.
    pub(crate) async fn report(&self, endpoint: &Arc<Endpoint>) -> Arc<Report> {
        let mut found = self.found.subscribe();
        let fresh = |found: &Option<(Instant, Arc<Report>)>| {
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
            Arc::new(Report {
                troubles: vec![text],
                warnings: Vec::new(),
            })
        })
    }

    async fn look(&self, endpoint: &Arc<Endpoint>) -> Report {
        let mut report = Report::default();
        let now = SystemTime::now();
        let asked = ask_issuers(endpoint, now);
        for area in endpoint.names.areas() {
            let looked = area.clone();
            if let Some(trouble) = blocking(move || trouble(&looked)).await {
                report.troubles.push(format!("area {}: {trouble}", area.name));
            }
        }
        let certificate = *self.certificate.lock().unwrap_or_else(PoisonError::into_inner);
        match certificate.map(|end| end.duration_since(now)) {
            Some(Err(_)) => report.troubles.push("the server's certificate has expired".to_owned()),
            Some(Ok(left)) if left < SOON => {
                let hours = left.as_secs() / 3600;
                report
                    .warnings
                    .push(format!("the server's certificate expires in {hours} h"));
            }
            _ => {}
        }
        // One issuer that is away is a trouble of its users; without any, nobody with a token is let in.
        let without = issuers_away(endpoint, now, asked).await;
        let all_away = !without.is_empty() && without.len() == endpoint.config.issuers.len();
        let list = if all_away {
            &mut report.troubles
        } else {
            &mut report.warnings
        };
        list.extend(
            without
                .into_iter()
                .map(|url| format!("the keys of issuer {url} are not known")),
        );
        report
    }
}

/// Asks the issuers whose keys are not known, unless that failed a moment ago; none if all are.
fn ask_issuers(endpoint: &Endpoint, now: SystemTime) -> Option<JoinHandle<()>> {
    let verifier = endpoint.verifier.clone();
    // It goes on when nobody waits for it any more.
    let asks = async move {
        let _said_in_the_log = verifier.warm(now).await;
    };
    (!endpoint.verifier.without_keys(now).is_empty()).then(|| tokio::spawn(asks))
}

/// The issuers whose keys are not known. Where there are none of any, those that were asked have a moment: nobody has heard of an
/// endpoint yet that has just started.
async fn issuers_away(endpoint: &Endpoint, now: SystemTime, asked: Option<JoinHandle<()>>) -> Vec<String> {
    let Some(asked) = asked else { return Vec::new() };
    let until = Instant::now() + KEYS;
    loop {
        let is_late = asked.is_finished() || Instant::now() >= until;
        let away = endpoint.verifier.without_keys(now);
        if is_late || away.len() < endpoint.config.issuers.len() {
            return away;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Somebody who looks; however that ends, the next one may.
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
        // A file that nobody sees, and that goes at once.
        None => area
            .backend
            .draft(false)
            .err()
            .map(|error| weir_auth::error_chain(&error)),
    }
}
