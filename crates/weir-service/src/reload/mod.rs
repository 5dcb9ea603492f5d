//! Reloading while a service runs: its configuration on request, and files that other programs renew once they have
//! changed. An unreadable file keeps its former content in force, and is counted and logged.

mod files;

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use parking_lot::Mutex;

pub use files::Seen;

use crate::metrics::{
    Kind::{Counter, Gauge},
    Page,
};

/// How often files are looked at. `fetch-crl` runs every six hours, renewals of certificates every few weeks; a minute is soon enough and
/// costs a millisecond.
const LOOK_EVERY: Duration = Duration::from_secs(60);

/// A part that is reloaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// The configuration, on request.
    Configuration,
    /// Certificate and key of the service, because they have changed.
    Certificate,
    /// The authorities of other servers and their revocation lists, alike.
    Trust,
    /// The files of `[x509]`.
    Clients,
}

impl Part {
    /// As logs and metrics name it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Configuration => "configuration",
            Self::Certificate => "certificate",
            Self::Trust => "trust",
            Self::Clients => "clients",
        }
    }
}

/// The files of each part, as they were looked at.
pub type Files = BTreeMap<Part, Seen>;

/// A service with watched files.
pub trait Renew: Send + Sync + 'static {
    /// Counters of reloads.
    fn reloads(&self) -> &Reloads;

    /// Files and directories of each part that are in use now.
    fn files(&self) -> Vec<(Part, Vec<PathBuf>)>;

    /// Reads the files of a part again. Parts are independent of each other. It may wait for disks.
    ///
    /// # Errors
    /// They cannot be used; then the former content stays in force.
    fn take(&self, part: Part) -> Result<(), String>;
}

/// Counters of reloads. Clones share their counts.
#[derive(Debug, Clone, Default)]
pub struct Reloads(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    outcomes: Mutex<BTreeMap<(Part, bool), u64>>,
    /// Unix seconds; 0: no certificate.
    certificate_end: AtomicU64,
    seen: Mutex<Files>,
    turn: tokio::sync::Mutex<()>,
}

impl Reloads {
    /// Something was read again, or could not be: counts it, and says so in the log.
    pub fn told(&self, part: Part, outcome: Result<(), &str>) {
        *self.0.outcomes.lock().entry((part, outcome.is_ok())).or_default() += 1;
        let what = part.as_str();
        match (part, outcome) {
            (Part::Configuration, Ok(())) => tracing::info!("configuration and files read again"),
            (_, Ok(())) => tracing::info!(what, "changed files read again"),
            (_, Err(error)) => tracing::error!(what, error, "not taken: all stays as it was"),
        }
    }

    /// A configuration was taken, but for keys that need a restart, a sentence for each; or it was not.
    pub fn took(&self, taken: &Result<Vec<String>, impl std::error::Error + 'static>) {
        match taken {
            Ok(waiting) => {
                for sentence in waiting {
                    tracing::warn!("{sentence}");
                }
                self.told(Part::Configuration, Ok(()));
            }
            Err(error) => self.told(Part::Configuration, Err(&weir_auth::error_chain(error))),
        }
    }

    /// A certificate is shown to clients from now on that ends then.
    pub fn shows_certificate(&self, end: Option<SystemTime>) {
        let end = end.and_then(|end| end.duration_since(UNIX_EPOCH).ok());
        let seconds = end.map_or(0, |end| end.as_secs());
        self.0.certificate_end.store(seconds, Ordering::Relaxed);
    }

    /// When the certificate ends that is shown to clients.
    pub fn certificate_end(&self) -> Option<SystemTime> {
        let seconds = self.0.certificate_end.load(Ordering::Relaxed);
        (seconds != 0).then(|| UNIX_EPOCH + Duration::from_secs(seconds))
    }

    /// Waits for a running reload, and keeps others from starting. [`look`] does so by itself.
    pub async fn turn(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.0.turn.lock().await
    }

    /// The files of these parts have been read. Look first, then read: a change between the two is seen later.
    pub fn have_read(&self, files: Files) {
        self.0.seen.lock().extend(files);
    }

    /// For the page of a service: `weir_SERVICE_reloads_total` and the end of the certificate.
    pub fn show(&self, page: &mut Page, service: &str) {
        let help = "reloads while serving, by kind and result; after a failed one the former content stays in force";
        page.family(&format!("weir_{service}_reloads_total"), Counter, help);
        for ((part, good), count) in self.0.outcomes.lock().iter() {
            let outcome = if *good { "completed" } else { "failed" };
            page.sample(&[("what", part.as_str()), ("outcome", outcome)], *count);
        }
        let end = self.0.certificate_end.load(Ordering::Relaxed);
        if end != 0 {
            let name = format!("weir_{service}_certificate_end_timestamp_seconds");
            let help = "the end of the first certificate that clients see to expire";
            page.single(&name, Gauge, help, end);
        }
    }
}

/// Looks at the files of each part. It waits for disks.
pub fn look_at(parts: Vec<(Part, Vec<PathBuf>)>) -> Files {
    let look = |(part, paths): (Part, Vec<PathBuf>)| (part, Seen::of(paths.iter().map(PathBuf::as_path)));
    parts.into_iter().map(look).collect()
}

/// Looks at the files now, and takes the parts that have changed since.
pub async fn look(service: Arc<impl Renew>) {
    // A look that panicked has been told by the panic; the next one may do better.
    let _ = tokio::task::spawn_blocking(move || take_changed(&*service)).await;
}

fn take_changed(service: &impl Renew) {
    let reloads = service.reloads();
    let _turn = reloads.0.turn.blocking_lock();
    let now = look_at(service.files());
    // Also after a failure: an unchanged file need not be tried, and reported, each minute.
    let before = std::mem::replace(&mut *reloads.0.seen.lock(), now.clone());
    for (part, _) in now.iter().filter(|(part, seen)| before.get(part) != Some(seen)) {
        let taken = service.take(*part);
        reloads.told(*part, taken.as_ref().copied().map_err(String::as_str));
    }
}

/// Checks the files each minute, for as long as another owner holds the service.
pub async fn keep_up(service: Weak<impl Renew>) {
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let Some(service) = service.upgrade() else { return };
        look(service).await;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]

    use std::{fs, path::Path};

    use super::*;

    struct Service {
        reloads: Reloads,
        folder: PathBuf,
        taken: Mutex<Vec<Part>>,
    }

    impl Renew for Service {
        fn reloads(&self) -> &Reloads {
            &self.reloads
        }

        fn files(&self) -> Vec<(Part, Vec<PathBuf>)> {
            let file = |name: &str| vec![self.folder.join(name)];
            vec![(Part::Certificate, file("cert")), (Part::Trust, file("ca"))]
        }

        fn take(&self, part: Part) -> Result<(), String> {
            self.taken.lock().push(part);
            let text = fs::read_to_string(self.files()[usize::from(part == Part::Trust)].1[0].as_path());
            match text.map_err(|error| error.to_string())?.as_str() {
                "good" => Ok(()),
                other => Err(format!("{other} is no file of this kind")),
            }
        }
    }

    fn service(folder: &Path) -> Service {
        let service = Service {
            reloads: Reloads::default(),
            folder: folder.to_owned(),
            taken: Mutex::default(),
        };
        service.reloads.have_read(look_at(service.files()));
        service
    }

    /// A certificate that cannot be read would keep a revocation list from being taken, or be told each minute for ever.
    #[test]
    fn parts_are_taken_one_by_one_when_they_have_changed() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["cert", "ca"] {
            fs::write(folder.path().join(name), "good").unwrap();
        }
        let service = service(folder.path());
        let taken = || std::mem::take(&mut *service.taken.lock());
        take_changed(&service);
        assert_eq!(taken(), []);
        fs::write(folder.path().join("cert"), "half").unwrap();
        fs::remove_file(folder.path().join("ca")).unwrap();
        fs::write(folder.path().join("ca"), "good").unwrap();
        take_changed(&service);
        assert_eq!(taken(), [Part::Certificate, Part::Trust]);
        take_changed(&service);
        assert_eq!(taken(), [], "what was refused is not tried again");
        fs::write(folder.path().join("cert"), "good").unwrap();
        take_changed(&service);
        assert_eq!(taken(), [Part::Certificate]);
        // The certificate was read otherwise meanwhile.
        for name in ["cert", "ca"] {
            fs::remove_file(folder.path().join(name)).unwrap();
            fs::write(folder.path().join(name), "good").unwrap();
        }
        let mut files = look_at(service.files());
        files.remove(&Part::Trust);
        service.reloads.have_read(files);
        take_changed(&service);
        assert_eq!(taken(), [Part::Trust], "nobody has read it");
        let mut page = Page::default();
        service
            .reloads
            .shows_certificate(Some(UNIX_EPOCH + Duration::from_secs(5)));
        service.reloads.show(&mut page, "issuer");
        let text = page.text();
        for line in [
            "weir_issuer_reloads_total{what=\"certificate\",outcome=\"completed\"} 1",
            "weir_issuer_reloads_total{what=\"certificate\",outcome=\"failed\"} 1",
            "weir_issuer_reloads_total{what=\"trust\",outcome=\"completed\"} 2",
            "weir_issuer_certificate_end_timestamp_seconds 5",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
    }
}
