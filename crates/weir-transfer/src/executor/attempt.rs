//! One attempt at one transfer: look, copy, look again; and leave nothing half-done behind.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use http::{HeaderMap, Method, StatusCode, Uri};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use weir_http::Client;
use weir_units::{Bytes, Checksum};
use weir_world::{CopyMode, ErrorClass, Failure, OpId, Outcome, Party, Phase, Retry, WorldEvent};

use super::{
    ExecutorSettings, Modes,
    failure::Scene,
    stat::{Patience, Stat, stat},
    streamed, thirdparty,
    thirdparty::Refused,
    verify::Expected,
    wire::{Forward, Side, send},
};
use crate::{
    model::{File, NewJob},
    time,
};

/// How long tidying up may take, per request: it follows a failure, and nobody waits for it gladly.
const TIDY_LIMIT: Duration = Duration::from_secs(15);

/// Everything an attempt needs.
pub(crate) struct Attempt<'a> {
    pub(crate) client: &'a Client,
    pub(crate) settings: &'a ExecutorSettings,
    pub(crate) modes: &'a Modes,
    pub(crate) source: &'a Side,
    pub(crate) destination: &'a Side,
    pub(crate) job: &'a NewJob,
    pub(crate) file: &'a File,
    pub(crate) expected: Expected,
    pub(crate) op: OpId,
    /// An earlier attempt may have left something.
    pub(crate) resume: bool,
    /// Earlier failures that counted.
    pub(crate) failures: u8,
    /// Limit for the copy itself.
    pub(crate) wall: Duration,
    pub(crate) stop: &'a CancellationToken,
    pub(crate) progress: &'a (dyn Fn(u64) + Send + Sync),
    pub(crate) state: State,
}

/// What an attempt has done so far: read when it is stopped or fails.
#[derive(Debug, Default)]
pub(crate) struct State {
    moved: AtomicU64,
    trace: Mutex<Trace>,
}

#[derive(Debug, Default, Clone)]
struct Trace {
    /// A storage has taken the order, or may have: something may be at the destination that was not there before.
    began: bool,
    /// What was at the destination before.
    before: Option<Stat>,
}

impl Attempt<'_> {
    /// Runs to the end. Never panics, never hangs beyond its limits.
    pub(crate) async fn run(&self) -> WorldEvent {
        let outcome = tokio::select! {
            biased;
            outcome = self.sequence() => outcome,
            () = self.stop.cancelled() => {
                // The copy's connection is closed by now: the storage stops when its client goes away.
                self.tidy().await;
                return WorldEvent::Ended(Outcome::Stopped { bytes_moved: self.bytes_moved() });
            }
        };
        match outcome {
            Ok(event) => event,
            Err(mut failure) => {
                if failure.phase != Phase::Preparation {
                    self.tidy().await;
                }
                failure.bytes_moved = failure.bytes_moved.max(self.bytes_moved());
                WorldEvent::Ended(Outcome::Failed(failure))
            }
        }
    }

    /// After a cancelled operation was lost from sight: adopt what is whole, remove what is ours.
    pub(crate) async fn clean_up(&self) -> WorldEvent {
        let stopped = WorldEvent::Ended(Outcome::Stopped { bytes_moved: Bytes(0) });
        let Ok(Some(there)) = self.look(self.destination, Phase::Preparation, true).await else {
            return stopped;
        };
        if let Ok(Some(source)) = self.look(self.source, Phase::Preparation, true).await
            && self.expected.is_whole(&source, &there)
            && self.is_ours(&there)
        {
            return WorldEvent::Adopted(Bytes(there.size.unwrap_or_default()));
        }
        if self.is_ours(&there) {
            let _ = self.delete(TIDY_LIMIT).await;
        }
        stopped
    }

    async fn sequence(&self) -> Result<WorldEvent, Failure> {
        let digest = self.expected.needs_source_checksum() || self.resume;
        let Some(source) = self.look(self.source, Phase::Preparation, digest).await? else {
            let scene = self.source.scene(Phase::Preparation);
            return Err(scene.fail(
                ErrorClass::NotFound,
                format!("No such file at the source: {}", self.source.surl),
            ));
        };
        self.expected.check_source(&source)?;
        let size = source.size.or(self.expected.size);
        if let Some(there) = self.look(self.destination, Phase::Preparation, self.resume).await?
            && let Some(adopted) = self.decide_about(&source, there).await?
        {
            return Ok(WorldEvent::Adopted(Bytes(adopted)));
        }
        let (mode, relayed) = self.copy(&source, size).await?;
        let bytes = self.confirm(&source, relayed.as_ref()).await?;
        self.moved(bytes);
        Ok(WorldEvent::Ended(Outcome::Done {
            bytes: Bytes(bytes),
            mode,
        }))
    }

    /// Something is at the destination already. Gives its size if it is adopted; returns if copying may go on.
    async fn decide_about(&self, source: &Stat, there: Stat) -> Result<Option<u64>, Failure> {
        if self.resume && self.expected.is_whole(source, &there) {
            return Ok(there.size);
        }
        if self.resume && self.is_ours(&there) {
            self.delete(self.settings.response_timeout).await?;
            return Ok(None);
        }
        if self.may_overwrite() {
            self.trace().before = Some(there);
            return Ok(None);
        }
        let scene = self.destination.scene(Phase::Preparation);
        Err(scene.fail(
            ErrorClass::Exists,
            "Destination file exists and overwrite is not enabled",
        ))
    }

    /// Whether a file at the destination was written by this transfer: it is younger than the first attempt, by the
    /// storage's own clock. Without a time it is taken as ours, as there was none when the first attempt looked.
    fn is_ours(&self, there: &Stat) -> bool {
        const ROUNDING: Duration = Duration::from_secs(2);
        let began = self.file.first_started.or(self.file.started);
        match (there.age, began) {
            (Some(age), Some(began)) => {
                age <= Duration::from_millis(u64::try_from(time::now() - began).unwrap_or_default()) + ROUNDING
            }
            _ => true,
        }
    }

    /// Tries the modes in their order until one works or fails for a reason that no other mode helps.
    async fn copy(&self, source: &Stat, size: Option<u64>) -> Result<(CopyMode, Option<Checksum>), Failure> {
        let forced = self.job.params.copy_mode.as_deref();
        let (order, explores) = self.modes.order(forced, self.source, self.destination, self.failures);
        let mut first_failure = None;
        let deadline = Instant::now() + self.wall;
        for mode in order {
            let outcome = match tokio::time::timeout_at(deadline, self.copy_by(mode, source, size)).await {
                Ok(outcome) => outcome,
                Err(_) => Err(Refused::for_good(self.overdue())),
            };
            match outcome {
                Ok(relayed) => {
                    self.modes.remember(self.source, self.destination, mode);
                    return Ok((mode, relayed));
                }
                Err(refused) => {
                    tracing::debug!(op = %self.op, %mode, failure = %refused.failure, fallback = refused.fallback, "copy refused");
                    let mut failure = refused.failure;
                    failure.message = format!("{mode}: {}", failure.message);
                    let fallback = refused.fallback || (explores && failure.retry == Retry::Never);
                    first_failure = Some(match first_failure {
                        None => failure,
                        Some(first) => both(first, failure),
                    });
                    if !fallback {
                        break;
                    }
                }
            }
        }
        Err(first_failure.unwrap_or_else(|| {
            self.destination
                .scene(Phase::Transfer)
                .fail(ErrorClass::Internal, "no copy mode was left to try")
        }))
    }

    /// One mode. A target that is busy (an earlier copy that has not noticed its end) is asked again for a while.
    async fn copy_by(&self, mode: CopyMode, source: &Stat, size: Option<u64>) -> Result<Option<Checksum>, Refused> {
        let mut pause = Duration::from_millis(500);
        let patience = Instant::now() + self.settings.busy_patience;
        let mut parents_made = false;
        loop {
            let outcome = match mode {
                CopyMode::Streamed => streamed::copy(self, size).await,
                _ => thirdparty::copy(self, mode, source.checksum.is_some())
                    .await
                    .map(|()| None),
            };
            let Err(refused) = outcome else { return outcome };
            if !parents_made && lacks_parent(&refused.failure) {
                parents_made = true;
                self.make_parents().await;
            } else if is_busy(&refused.failure) && Instant::now() + pause < patience {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(Duration::from_secs(5));
            } else {
                return Err(refused);
            }
        }
    }

    /// Looks at the destination after the copy.
    async fn confirm(&self, source: &Stat, relayed: Option<&Checksum>) -> Result<u64, Failure> {
        let phase = Phase::Finalization;
        let Some(there) = self.look(self.destination, phase, self.expected.mode.target()).await? else {
            let scene = self.destination.scene(phase);
            let mut failure = scene.fail(
                ErrorClass::NotFound,
                "the copy was reported as done, but the file is not there",
            );
            failure.retry = Retry::Later;
            return Err(failure);
        };
        self.expected.check_destination(source, relayed, &there)?;
        Ok(there.size.or(source.size).unwrap_or_default())
    }

    async fn look(&self, side: &Side, phase: Phase, digest: bool) -> Result<Option<Stat>, Failure> {
        let patience = Patience {
            plain: self.settings.response_timeout,
            digest: self.settings.checksum_timeout,
        };
        stat(
            self.client,
            side,
            phase,
            digest.then_some(self.expected.algorithm),
            patience,
        )
        .await
    }

    /// Removes what this attempt left: only what was not there before, or has changed since.
    async fn tidy(&self) {
        let trace = self.trace().clone();
        if !trace.began || self.job.params.disable_cleanup {
            return;
        }
        let look = self.look(self.destination, Phase::Finalization, false);
        let Ok(Ok(Some(there))) = tokio::time::timeout(TIDY_LIMIT, look).await else {
            return;
        };
        let untouched = trace
            .before
            .is_some_and(|before| before.size == there.size && before.version == there.version);
        if !untouched && let Err(failure) = self.delete(TIDY_LIMIT).await {
            tracing::info!(op = %self.op, %failure, "could not remove what an attempt left");
        }
    }

    async fn delete(&self, limit: Duration) -> Result<(), Failure> {
        let (side, phase) = (self.destination, Phase::Finalization);
        let request = (Method::DELETE, HeaderMap::new());
        let answer = send(self.client, side, phase, request, Forward::SameHost, limit).await?;
        match answer.response.status() {
            status if status.is_success() || status == StatusCode::NOT_FOUND => Ok(()),
            status => Err(side.scene(phase).status(&side.naming(&Method::DELETE), status, "")),
        }
    }

    /// Makes the directories above the destination, as far as that is possible; the copy then tells whether it was.
    async fn make_parents(&self) {
        let Ok(uri) = self.destination.uri(Phase::Preparation) else {
            return;
        };
        let mkcol = Method::from_bytes(b"MKCOL").expect("MKCOL is a token");
        let path = uri.path().to_owned();
        let parents = path
            .match_indices('/')
            .map(|(at, _)| &path[..at])
            .filter(|parent| !parent.is_empty());
        let mut missing = Vec::new();
        for parent in parents.collect::<Vec<_>>().into_iter().rev() {
            match self.make(&uri, parent, &mkcol).await {
                Some(StatusCode::CONFLICT | StatusCode::NOT_FOUND) => missing.push(parent),
                _ => break,
            }
        }
        for parent in missing.into_iter().rev() {
            self.make(&uri, parent, &mkcol).await;
        }
    }

    async fn make(&self, uri: &Uri, path: &str, mkcol: &Method) -> Option<StatusCode> {
        let mut request = http::Request::new(weir_http::body::empty());
        *request.method_mut() = mkcol.clone();
        *request.uri_mut() = format!("{}://{}{path}/", uri.scheme_str()?, uri.authority()?)
            .parse()
            .ok()?;
        if let Some(token) = self.destination.bearer() {
            request.headers_mut().insert(http::header::AUTHORIZATION, token);
        }
        Some(
            self.client
                .send_within(request, self.settings.response_timeout)
                .await
                .ok()?
                .status(),
        )
    }

    fn overdue(&self) -> Failure {
        let scene = Scene::new(Party::Network, Phase::Transfer);
        let mut failure = scene.fail(
            ErrorClass::Timeout,
            format!("the copy took longer than {}", weir_units::duration::format(self.wall)),
        );
        failure.remedy = "submit with a longer timeout, or look for what slows the path".into();
        failure.bytes_moved = self.bytes_moved();
        failure
    }

    /// From here on something of this attempt may be at the destination. An order that was refused leaves nothing, and what
    /// is there then may be somebody else's.
    pub(crate) fn has_begun(&self) {
        self.trace().began = true;
    }

    fn trace(&self) -> std::sync::MutexGuard<'_, Trace> {
        self.state.trace.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes that have moved so far, in all.
    pub(crate) fn moved(&self, bytes: u64) {
        if self.state.moved.fetch_max(bytes, Ordering::Relaxed) < bytes {
            (self.progress)(bytes);
        }
    }

    pub(crate) fn bytes_moved(&self) -> Bytes {
        Bytes(self.state.moved.load(Ordering::Relaxed))
    }
}

/// A missing parent collection: 409 by RFC 4918 section 9.7.1; XRootD 5.5 says 400 or 404 with "no such file or directory".
fn lacks_parent(failure: &Failure) -> bool {
    let missing = failure.class == ErrorClass::NotFound && failure.party == Party::Destination;
    failure.bytes_moved.0 == 0 && (missing || failure.message.contains("HTTP 409"))
}

fn is_busy(failure: &Failure) -> bool {
    failure.class == ErrorClass::Overload && failure.bytes_moved.0 == 0
}

/// Two modes failed. A trouble that may pass outweighs a refusal of the other mode; else the later failure decides. Both are
/// told.
fn both(first: Failure, second: Failure) -> Failure {
    let bytes_moved = first.bytes_moved.max(second.bytes_moved);
    let (main, other, order) = if first.retry == Retry::Later && second.retry == Retry::Never {
        (first, second.message, "after that")
    } else {
        (second, first.message, "before that")
    };
    let message = super::failure::scrub(&format!("{}; {order} {other}", main.message));
    Failure {
        message,
        bytes_moved,
        ..main
    }
}
