//! The removal of an attempt's leftovers: see the rule in [`super`].

use std::time::Duration;

use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use weir_world::{ErrorClass, Failure, Party, Phase};

use crate::{
    requests::{
        failure::Scene,
        hide,
        wire::{Forward, send},
    },
    steps::{
        attempt::Attempt,
        stat::{Stat, is_collection},
        trace::Trace,
    },
};
use weir_service::time::{self, Millis};

use crate::{job::Claim, orders::Note};

/// Timeout of the removal: it follows a failure, and delays the next attempt.
const TIDY_LIMIT: Duration = Duration::from_secs(15);

/// Pause between two looks that must agree. A storage that writes in place notices within milliseconds that its client
/// has left; half a second is long for that, and short for a waiting transfer.
const SETTLE_PAUSE: Duration = Duration::from_millis(500);

/// `Date` and `Last-Modified` are whole seconds, each cut off.
const ROUNDING: Millis = 2000;

/// The state of a destination after the removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Left {
    /// Free: there was nothing, or our own file was removed.
    Nothing,
    /// Something that is not provably ours.
    Foreign,
}

/// Whether a file is provably a part that orders under this claim have written. Pure.
///
/// It is smaller than the source, and was written while the orders were out, by the storage's own clock. Without a size or a
/// time nothing is proven.
fn is_part_of_ours(claim: Claim, source_size: Option<u64>, now: Millis, there: &Stat) -> bool {
    let (Some(source), Some(size), Some(age)) = (source_size, there.size, there.age) else {
        return false;
    };
    let written = now.saturating_sub(Millis::try_from(age.as_millis()).unwrap_or(Millis::MAX));
    let in_time = written >= claim.since.saturating_sub(ROUNDING)
        && claim
            .until
            .is_none_or(|until| written <= until.saturating_add(ROUNDING));
    size < source && in_time
}

/// Whether a file is provably the copy that a storage said to have made, and that did not pass the comparison. Pure.
fn is_copy_of_ours(trace: &Trace, there: &Stat) -> bool {
    let confirmed = trace.confirmed.as_ref().is_some_and(|seen| seen.is_same(there));
    let changed = trace.before.as_ref().is_none_or(|before| !before.is_same(there));
    trace.verdict == Some(true) && confirmed && changed
}

impl Attempt<'_> {
    /// Makes durable whether the destination is free, before any order goes out.
    pub(crate) async fn claim(&self, free: bool) -> Result<(), Failure> {
        let claim = free.then(|| Claim {
            since: time::now(),
            until: None,
        });
        let known = {
            let mut trace = self.trace();
            (trace.claim, trace.looked) = (claim, true);
            std::mem::replace(&mut trace.stored, claim)
        };
        let file = self.file.spec.id;
        if claim == known || self.journal.make_durable(Note::Claim { file, claim }).await {
            return Ok(());
        }
        let scene = Scene::new(Party::TransferService, Phase::Preparation);
        Err(scene.fail(ErrorClass::Internal, "the service is stopping"))
    }

    /// After the end: removes the file that this attempt left, and records a possible leftover. False: an order of ours
    /// was sent, and a file exists, or may exist.
    pub(crate) async fn tidy(&self) -> bool {
        let trace = self.trace().clone();
        let claim = trace.claim_in_use();
        let left = if claim.is_none() && !trace.has_begun() {
            Ok(Left::Nothing)
        } else if trace.exists {
            Ok(Left::Foreign)
        } else if self.job.params.disable_cleanup || trace.source_size.is_none() {
            // Without the source's size nothing can be proven now; the next attempt may know it.
            Err(None)
        } else {
            match tokio::time::timeout(TIDY_LIMIT, self.clear_away()).await {
                Ok(left) => left.map_err(Some),
                Err(_) => Err(None),
            }
        };
        if let Err(Some(failure)) = &left {
            let failure = hide::shown(&self.file.spec, failure);
            tracing::info!(op = %self.op, failure, "could not look after what an attempt may have left");
        }
        let clear = matches!(left, Ok(Left::Nothing)) || trace.exists;
        let claim = match left {
            Ok(_) => None,
            Err(_) => claim.map(|claim| Claim {
                until: claim.until.or_else(|| Some(time::now())),
                ..claim
            }),
        };
        if claim != trace.stored {
            let file = self.file.spec.id;
            // Before the end is told: after that the file may be another node's, and a claim that was to end would go on there.
            self.journal.make_durable(Note::Claim { file, claim }).await;
        }
        clear
    }

    /// Removes a file that is provably ours.
    ///
    /// # Errors
    /// The state of the destination is unknown, or the file could not be removed.
    pub(crate) async fn clear_away(&self) -> Result<Left, Failure> {
        let trace = self.trace().clone();
        let Some(there) = self.look_twice(trace.verdict.is_some()).await? else {
            return Ok(Left::Nothing);
        };
        let part = |claim| is_part_of_ours(claim, trace.source_size, time::now(), &there);
        if trace.claim_in_use().is_some_and(part) || is_copy_of_ours(&trace, &there) {
            return self.remove(&there).await;
        }
        tracing::info!(op = %self.op, destination = %self.destination.surl, "left a file that is not provably ours");
        Ok(Left::Foreign)
    }

    /// Before another mode is tried: its order must find the destination as the first one did.
    pub(crate) async fn is_ready_for_another_mode(&self) -> bool {
        if !self.trace().has_begun() {
            return true;
        }
        let cleared = tokio::time::timeout(TIDY_LIMIT, self.clear_away()).await;
        if matches!(cleared, Ok(Ok(Left::Nothing))) {
            self.trace().start_over();
            return true;
        }
        self.may_overwrite()
    }

    /// Looks until two looks agree. A single one suffices for "nothing" if the storage has said that it is done.
    async fn look_twice(&self, over: bool) -> Result<Option<Stat>, Failure> {
        let mut seen = self.look(self.destination, Phase::Finalization, false).await?;
        if seen.is_none() && over {
            return Ok(None);
        }
        loop {
            tokio::time::sleep(SETTLE_PAUSE).await;
            let now = self.look(self.destination, Phase::Finalization, false).await?;
            match (&seen, &now) {
                (None, None) => return Ok(None),
                (Some(before), Some(after)) if before.is_same(after) => return Ok(now),
                _ => seen = now,
            }
        }
    }

    /// Removes a file that was checked before; not a collection, and not a file that has replaced it.
    async fn remove(&self, seen: &Stat) -> Result<Left, Failure> {
        let (side, phase) = (self.destination, Phase::Finalization);
        let limit = self.settings.response_timeout;
        match is_collection(self.client, side, phase, limit).await {
            Some(false) => {}
            Some(true) => return Ok(Left::Foreign),
            None => {
                let text = "it is not known whether a file or a collection is at the destination";
                return Err(side.scene(phase).fail(ErrorClass::Protocol, text));
            }
        }
        let mut headers = HeaderMap::new();
        let strong = seen.etag.as_ref().filter(|tag| tag.starts_with('"'));
        if let Some(tag) = strong.and_then(|tag| HeaderValue::from_str(tag).ok()) {
            headers.insert(header::IF_MATCH, tag);
        }
        let request = (Method::DELETE, headers);
        let answer = send(self.client, side, phase, request, Forward::Same, limit).await?;
        match answer.response.status() {
            status if status.is_success() || status == StatusCode::NOT_FOUND => Ok(Left::Nothing),
            StatusCode::PRECONDITION_FAILED => Ok(Left::Foreign),
            status => Err(side.scene(phase).status(&side.naming(&Method::DELETE), status, "")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Millis = 1_000_000_000;
    const SOURCE: Option<u64> = Some(100);

    /// Size and age in seconds of the existing file, under a claim of 60 to 30 seconds ago.
    fn ours(size: Option<u64>, age: Option<u64>, expected: bool) {
        let claim = Claim {
            since: NOW - 60_000,
            until: Some(NOW - 30_000),
        };
        let there = Stat {
            size,
            age: age.map(Duration::from_secs),
            ..Stat::default()
        };
        assert_eq!(
            is_part_of_ours(claim, SOURCE, NOW, &there),
            expected,
            "{size:?} {age:?}"
        );
    }

    #[test]
    fn a_part_is_ours_if_size_and_time_prove_it() {
        ours(Some(99), Some(45), true);
        ours(Some(0), Some(61), true);
        ours(Some(99), Some(29), true);
        ours(Some(99), Some(63), false);
        ours(Some(99), Some(27), false);
        ours(Some(99), Some(0), false);
        ours(Some(100), Some(45), false);
        ours(Some(101), Some(45), false);
        ours(None, Some(45), false);
        ours(Some(99), None, false);
        ours(Some(99), Some(u64::MAX), false);
    }

    #[test]
    fn without_the_source_s_size_nothing_is_ours() {
        let claim = Claim { since: 0, until: None };
        let there = Stat {
            size: Some(0),
            age: Some(Duration::ZERO),
            ..Stat::default()
        };
        assert!(!is_part_of_ours(claim, None, NOW, &there));
        assert!(is_part_of_ours(claim, SOURCE, NOW, &there));
    }

    #[test]
    fn a_copy_is_ours_if_a_storage_said_so_and_it_has_not_changed_since() {
        let seen = |tag: &str| Stat {
            size: SOURCE,
            etag: Some(tag.to_owned()),
            ..Stat::default()
        };
        let trace = |verdict, before: Option<&str>, confirmed: Option<&str>| Trace {
            verdict,
            before: before.map(seen),
            confirmed: confirmed.map(seen),
            ..Trace::default()
        };
        let there = seen("2");
        assert!(is_copy_of_ours(&trace(Some(true), None, Some("2")), &there));
        assert!(is_copy_of_ours(&trace(Some(true), Some("1"), Some("2")), &there));
        assert!(!is_copy_of_ours(&trace(Some(true), Some("2"), Some("2")), &there));
        assert!(!is_copy_of_ours(&trace(Some(true), None, Some("1")), &there));
        assert!(!is_copy_of_ours(&trace(Some(true), None, None), &there));
        assert!(!is_copy_of_ours(&trace(Some(false), None, Some("2")), &there));
        assert!(!is_copy_of_ours(&trace(None, None, Some("2")), &there));
    }
}
