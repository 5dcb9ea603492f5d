//! One attempt at one transfer: check, copy, check again, and remove partial files.
//!
//! An attempt spends nearly all of its time on the markers of its copy, and thousands do so at once. The steps before
//! and after are therefore boxed: they take memory only while they run.

use std::time::Duration;

use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::Instant,
};
use weir_units::{Bytes, Checksum};
use weir_world::{CopyMode, ErrorClass, Failure, Outcome, Party, Phase, Retry, Wait, WorldEvent};

use crate::{
    copying::{
        modes::CredentialKind,
        streamed, thirdparty,
        thirdparty::{Cause, RefusedCopy},
    },
    requests::{failure::Scene, hide},
    steps::{attempt::Attempt, leftover::Left, parents::lacks_parent, stat::Stat},
};

/// How long an attempt waits for a second connection. It holds slots of its link and of this process meanwhile, which others need.
const RELAY_PATIENCE: Duration = Duration::from_secs(5);

/// The right to hold a second connection.
///
/// # Errors
/// If none becomes free in time: a failure of this service, which costs the transfer nothing but a pause.
async fn relay(relays: &Semaphore, patience: Duration) -> Result<SemaphorePermit<'_>, Failure> {
    let scene = Scene::new(Party::TransferService, Phase::Transfer);
    match tokio::time::timeout(patience, relays.acquire()).await {
        Ok(Ok(place)) => Ok(place),
        _ => Err(scene.fail(
            ErrorClass::Overload,
            "the service has no connections left for another copy through itself; it waits for its turn",
        )),
    }
}

impl Attempt<'_> {
    /// Runs to the end. Never panics, never hangs beyond its limits.
    pub(crate) async fn run(&self) -> WorldEvent {
        let outcome = tokio::select! {
            biased;
            outcome = self.sequence() => outcome,
            () = self.stop.cancelled() => {
                // The copy's connection is closed by now: the storage stops when its client goes away.
                self.clock.enter(Wait::Delete);
                if !Box::pin(self.tidy()).await && let Some(size) = Box::pin(self.whole_after_all()).await {
                    return WorldEvent::Adopted(Bytes(size));
                }
                return WorldEvent::Ended(Outcome::Stopped { bytes_moved: self.bytes_moved() });
            }
        };
        match outcome {
            Ok(event) => event,
            Err(mut failure) => {
                self.note_failure(&failure);
                self.clock.enter(Wait::Delete);
                Box::pin(self.tidy()).await;
                failure.bytes_moved = failure.bytes_moved.max(self.bytes_moved());
                WorldEvent::Ended(Outcome::Failed(failure))
            }
        }
    }

    /// After a cancelled operation was lost: adopts a complete file, removes one that is ours.
    pub(crate) async fn clean_up(&self) -> WorldEvent {
        self.clock.enter(Wait::Delete);
        if let Some(size) = self.whole_after_all().await {
            return WorldEvent::Adopted(Bytes(size));
        }
        self.tidy().await;
        WorldEvent::Ended(Outcome::Stopped { bytes_moved: Bytes(0) })
    }

    /// The copy was faster than its cancellation: gives its size if the destination holds the whole file.
    async fn whole_after_all(&self) -> Option<u64> {
        let looks = async {
            let source = self.look(self.source, Phase::Preparation, true).await.ok()??;
            self.trace().source_size = source.size.or(self.expected.size);
            let there = self.look(self.destination, Phase::Preparation, true).await.ok()??;
            self.expected.is_whole(&source, &there).then_some(there.size)?
        };
        tokio::time::timeout(self.settings.checksum_timeout, looks).await.ok()?
    }

    async fn sequence(&self) -> Result<WorldEvent, Failure> {
        self.clock.enter(Wait::Look);
        let digest = self.expected.needs_source_checksum() || self.resume;
        let look = self.look(self.source, Phase::Preparation, digest);
        let source = if digest {
            self.timed(|times| &mut times.source_checksum, look).await?
        } else {
            look.await?
        };
        let Some(source) = source else {
            let scene = self.source.scene(Phase::Preparation);
            return Err(scene.fail(
                ErrorClass::NotFound,
                format!("No such file or directory: {}", self.source.surl),
            ));
        };
        self.expected.check_source(&source)?;
        let size = source.size.or(self.expected.size);
        self.trace().source_size = size;
        let there = self.look(self.destination, Phase::Preparation, self.resume).await?;
        let free = match there {
            None => true,
            Some(there) => match Box::pin(self.decide_about(&source, there)).await? {
                Found::Whole(size) => return Ok(WorldEvent::Adopted(Bytes(size))),
                Found::Cleared => true,
                Found::Replaceable => false,
            },
        };
        self.clock.during(Wait::Store, Box::pin(self.claim(free))).await?;
        // Boxed, as what is handed to another future is stored twice in it.
        let copy = Box::pin(self.copy(&source, size));
        let copied = self.timed(|times| &mut times.copy, copy).await;
        self.clock.enter(Wait::Verify);
        let (mode, relayed) = match copied {
            Ok(copied) => copied,
            Err(failure) => {
                let adopted = Box::pin(self.ended_meanwhile(&failure)).await;
                return adopted.map(WorldEvent::Adopted).ok_or(failure);
            }
        };
        let bytes = Box::pin(self.confirm(&source, relayed.as_ref())).await?;
        self.moved(bytes);
        let (counted, first_byte) = {
            let trace = self.trace();
            (trace.counted.map(Bytes), trace.first_byte)
        };
        Ok(WorldEvent::Ended(Outcome::Done {
            bytes: Bytes(bytes),
            mode,
            counted,
            first_byte,
        }))
    }

    /// The order of an earlier attempt was carried out while this one was given: the destination says that the file is there, or is being
    /// written. Gives its size if it is the whole file.
    async fn ended_meanwhile(&self, failure: &Failure) -> Option<Bytes> {
        let is_there = matches!(failure.class, ErrorClass::Exists | ErrorClass::Overload);
        if !self.resume || !is_there || failure.party == Party::TransferService {
            return None;
        }
        self.whole_after_all().await.map(Bytes)
    }

    /// Something is at the destination already.
    async fn decide_about(&self, source: &Stat, there: Stat) -> Result<Found, Failure> {
        if self.resume && self.expected.is_whole(source, &there) {
            return Ok(Found::Whole(there.size.unwrap_or_default()));
        }
        let claimed = self.trace().claim_in_use().is_some();
        if claimed && self.clock.during(Wait::Delete, self.clear_away()).await? == Left::Nothing {
            return Ok(Found::Cleared);
        }
        let locality = self.locality().await?;
        self.trace().locality.clone_from(&locality);
        if self.may_overwrite() {
            self.trace().before = Some(there);
            return Ok(Found::Replaceable);
        }
        if self.job.params.dst_file_report {
            self.report_destination(there, locality.as_deref()).await;
        }
        let scene = self.destination.scene(Phase::Preparation);
        if self.replaces_on_disk() {
            let locality = locality.unwrap_or_default();
            let mut failure = scene.fail(
                ErrorClass::Exists,
                format!("Destination file exists and is on tape ({locality}): only a file on disk alone is replaced"),
            );
            failure.remedy = "remove the file at the destination first, if it is not the wanted one".into();
            return Err(failure);
        }
        Err(scene.fail(ErrorClass::Exists, EXISTS))
    }

    /// Where the file at the destination is, if that matters. For a report alone, a tape that does not answer is no failure.
    async fn locality(&self) -> Result<Option<String>, Failure> {
        let params = &self.job.params;
        if self.replaces_on_disk() {
            return self.tapes.locality(self.destination).await.map(Some);
        }
        if params.dst_file_report && params.archive_timeout.is_some() {
            return Ok(self.tapes.locality(self.destination).await.ok());
        }
        Ok(None)
    }

    /// Tries the modes in their order until one works or fails for a reason that no other mode helps.
    async fn copy(&self, source: &Stat, size: Option<u64>) -> Result<(CopyMode, Option<Checksum>), Failure> {
        // With a proxy nothing is there that one storage could show to the other: the bytes pass through this service.
        let by_proxy = self.job.moves_by_proxy(self.file).then_some("streamed");
        let forced = self.job.params.copy_mode.as_deref().or(by_proxy);
        let mut choice = self
            .modes
            .choose(forced, self.source, self.destination, self.credential());
        let (mut first_failure, mut doubt) = (None, None);
        let mut deadline = Instant::now() + self.wall;
        for mode in choice.order() {
            // Waiting for a place says nothing about the path.
            let waits = Instant::now();
            let _place = match mode {
                CopyMode::Streamed => {
                    let place = relay(self.relays, RELAY_PATIENCE);
                    Some(self.clock.during(Wait::Executor, place).await?)
                }
                _ => None,
            };
            deadline += waits.elapsed();
            let outcome = match self.not_ordered(mode, source) {
                Some(refused) => Err(refused),
                None => tokio::time::timeout_at(deadline, self.copy_by(mode, source, size))
                    .await
                    .unwrap_or_else(|_| Err(RefusedCopy::for_good(self.overdue()))),
            };
            match outcome {
                Ok(relayed) => {
                    choice.worked(mode);
                    // The file existed, whatever the copying storage said about it.
                    if let Some((mode, status)) = doubt {
                        choice.makes_no_copies(mode, status);
                    }
                    return Ok((mode, relayed));
                }
                Err(refused) => {
                    self.note_failure(&refused.failure);
                    let failure = hide::shown(&self.file.spec, &refused.failure);
                    let cause = refused.cause;
                    tracing::debug!(op = %self.op, %mode, failure, ?cause, "copy refused");
                    match cause {
                        Cause::Mode(status) => choice.refused(mode, status),
                        Cause::NoCopies(status) => choice.makes_no_copies(mode, status),
                        Cause::Doubt(status) => doubt = Some((mode, status)),
                        Cause::Path | Cause::Matter => {}
                    }
                    let mut failure = refused.failure;
                    failure.message = format!("{mode}: {}", in_words_of_fts3(&failure));
                    first_failure = Some(match first_failure {
                        None => failure,
                        Some(first) => both(first, failure),
                    });
                    let ready = self.clock.during(Wait::Delete, self.is_ready_for_another_mode());
                    if cause == Cause::Matter || !Box::pin(ready).await {
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

    /// The reason against an order in this mode. A web server would take an order to push for a copy within itself, and might replace
    /// a file of its own.
    fn not_ordered(&self, mode: CopyMode, source: &Stat) -> Option<RefusedCopy> {
        if mode != CopyMode::Push {
            return None;
        }
        let why = self.modes.why_no_push(self.source, source.server.as_deref())?;
        let scene = self.source.scene(Phase::Transfer);
        let text =
            format!("the source makes no third-party copies as far as is known ({why}), and is not ordered to push");
        let mut failure = scene.fail(ErrorClass::Protocol, text);
        failure.remedy = "let the destination pull, or submit with copy_mode=streamed".into();
        Some(RefusedCopy {
            failure,
            cause: Cause::Path,
        })
    }

    /// The kind of credential that both storages are shown.
    fn credential(&self) -> CredentialKind {
        if self.job.moves_by_proxy(self.file) {
            CredentialKind::Proxy
        } else if self.source.token.is_some() || self.destination.token.is_some() {
            CredentialKind::Token
        } else {
            CredentialKind::None
        }
    }

    /// One mode. A target that is busy (an earlier copy that has not noticed its end) is asked again for a while.
    async fn copy_by(&self, mode: CopyMode, source: &Stat, size: Option<u64>) -> Result<Option<Checksum>, RefusedCopy> {
        let mut pause = Duration::from_millis(500);
        let patience = Instant::now() + self.settings.busy_patience;
        let mut parents_made = false;
        loop {
            let outcome = match mode {
                CopyMode::Streamed => Box::pin(streamed::copy(self, size)).await,
                _ => thirdparty::copy(self, mode, source.checksum.is_some())
                    .await
                    .map(|()| None),
            };
            let Err(refused) = outcome else { return outcome };
            if !parents_made && lacks_parent(&refused.failure) {
                parents_made = true;
                Box::pin(self.clock.during(Wait::Look, self.make_parents())).await;
            } else if is_busy(&refused.failure) && !self.trace().has_begun() && Instant::now() + pause < patience {
                self.clock.during(Wait::Place, tokio::time::sleep(pause)).await;
                pause = (pause * 2).min(Duration::from_secs(5));
            } else {
                return Err(refused);
            }
        }
    }

    /// Looks at the destination after the copy.
    async fn confirm(&self, source: &Stat, relayed: Option<&Checksum>) -> Result<u64, Failure> {
        let phase = Phase::Finalization;
        let digest = self.expected.mode.target();
        let look = self.look(self.destination, phase, digest);
        let there = if digest {
            self.timed(|times| &mut times.destination_checksum, look).await?
        } else {
            look.await?
        };
        let Some(there) = there else {
            let scene = self.destination.scene(phase);
            let mut failure = scene.fail(
                ErrorClass::NotFound,
                "the copy was reported as done, but the file is not there",
            );
            failure.retry = Retry::Later;
            return Err(failure);
        };
        self.trace().confirmed = Some(there.clone());
        self.expected.check_destination(source, relayed, &there)?;
        Ok(there.size.or(source.size).unwrap_or_default())
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
}

/// The state of a destination before the copy.
enum Found {
    /// The whole file, of this size.
    Whole(u64),
    /// Nothing any more: it was a part of an earlier attempt.
    Cleared,
    /// Something that the user wants replaced.
    Replaceable,
}

/// FTS3's message for an existing destination: Rucio recognises such a file by these words.
const EXISTS: &str = "Destination file exists and overwrite is not enabled";

/// The message of a failure, with [`EXISTS`] where a storage said so in its own words.
fn in_words_of_fts3(failure: &Failure) -> String {
    let message = &failure.message;
    let is_file = failure.class == ErrorClass::Exists && !weir_world::class::says(message, &["directory", "eisdir"]);
    if is_file && !message.contains(EXISTS) {
        return format!("{EXISTS}; {message}");
    }
    message.clone()
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
    let message = crate::requests::failure::scrub(&format!("{}; {order} {other}", main.message));
    Failure {
        message,
        bytes_moved,
        ..main
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test may panic")]
    use super::*;

    #[tokio::test]
    async fn a_client_without_a_second_connection_leaves_soon() {
        // Thousands would wait with their slots for one user's long copies, and no other user's would begin.
        let relays = Semaphore::new(1);
        let patience = Duration::from_millis(20);
        let place = relay(&relays, patience).await.unwrap();
        let failure = relay(&relays, patience).await.unwrap_err();
        // By these the scheduler knows that it is no failure of the transfer.
        let (class, party) = (ErrorClass::Overload, Party::TransferService);
        assert_eq!((failure.class, failure.party), (class, party));
        assert_eq!((failure.phase, failure.retry), (Phase::Transfer, Retry::Later));
        drop(place);
        assert!(relay(&relays, patience).await.is_ok());
    }
}
