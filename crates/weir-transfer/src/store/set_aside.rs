//! Changes that a store will never take.

use weir_sched::Work;

use super::Change;
use weir_executor::job::{CANCELED_REASON, FileResult, FileState};
use weir_service::time;

impl weir_store::Change for Change {
    fn name(&self) -> &'static str {
        match self {
            Self::Submit(_) => "submission",
            Self::Begin { .. } => "begin of an attempt",
            Self::Advance { .. } | Self::Again { .. } => "end of an attempt",
            Self::Requested { .. } => "request to a tape",
            Self::Unpinned { .. } => "pins that were given back",
            Self::End { .. } => "end of a file",
            Self::Release { .. } => "turn of a file",
            Self::Metadata { .. } => "metadata",
            Self::Cancel { .. } => "cancellation",
            Self::Claim { .. } => "claim",
            Self::Force { .. } => "forced start",
            Self::Priority { .. } => "priority",
            Self::Setting { .. } => "setting",
        }
    }

    fn rows(&self) -> usize {
        match self {
            Self::Submit(submission) => submission.files.len() + 1,
            Self::Cancel { settled, stopping, .. } => settled.len() + stopping.len() + 1,
            Self::Requested { files, .. } | Self::Unpinned { files } | Self::Force { files } => files.len(),
            _ => 1,
        }
    }

    /// The files that cannot go on without it.
    fn concerns(&self) -> Vec<u64> {
        match self {
            Self::Begin { file, .. }
            | Self::Advance { file, .. }
            | Self::Again { file, .. }
            | Self::End { file, .. }
            | Self::Release { file } => vec![*file],
            Self::Cancel { settled, stopping, .. } => settled.iter().chain(stopping).copied().collect(),
            _ => Vec::new(),
        }
    }

    /// The file fails, in words that every store takes.
    fn in_place(&self) -> Vec<Self> {
        let now = time::now();
        let fails = |file: u64, work: Work, state: FileState| {
            let result = FileResult {
                reason: (state != FileState::Finished).then(|| NOT_TAKEN.to_owned()),
                class: (state != FileState::Finished).then_some(weir_world::ErrorClass::Internal),
                ..FileResult::default()
            };
            vec![Self::End {
                file,
                work,
                at: now,
                state,
                result,
            }]
        };
        match self {
            Self::Begin { file, work, .. } | Self::Again { file, work, .. } => fails(*file, *work, FileState::Failed),
            Self::Advance { file, .. } | Self::Release { file } => fails(*file, Work::Copy, FileState::Failed),
            Self::End { file, work, state, .. } => fails(*file, *work, *state),
            Self::Cancel {
                job,
                whole,
                settled,
                stopping,
                at,
                ..
            } => vec![Self::Cancel {
                job: *job,
                whole: *whole,
                settled: settled.clone(),
                stopping: stopping.clone(),
                at: *at,
                reason: CANCELED_REASON.to_owned(),
            }],
            _ => Vec::new(),
        }
    }
}

/// Failure reason of a file whose row the store does not take.
const NOT_TAKEN: &str =
    "TRANSFER [5] FINALIZATION the service could not record what happened to this file; its log says why";

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test may panic")]
    use std::sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc,
    };

    use weir_world::Seq;

    use super::*;
    use crate::store::{
        Durable, Store as _, StoreError, Writer,
        sqlite::SqliteStore,
        suite::{begin, end, submission},
    };

    #[test]
    fn a_change_that_the_store_never_takes_holds_nothing_up() {
        // One value that the database cannot hold once stopped everything, and again after each restart.
        let store = Arc::new(SqliteStore::in_memory());
        let (tell, told) = mpsc::channel();
        let (inner, tries) = (store.clone(), AtomicU64::new(0));
        let picky = move |changes: &[Change]| {
            // First the disk is full: that passes, and costs nothing.
            if tries.fetch_add(1, Ordering::Relaxed) < 2 {
                return Err(StoreError::Unavailable("disk full".into()));
            }
            for change in changes {
                match change {
                    Change::Begin { file: 2, .. } => return Err(StoreError::Broken("no such value".into())),
                    Change::End { file: 3, result, .. } if result.filesize.is_some() => panic!("on purpose"),
                    Change::Release { file: 4 } | Change::Metadata { .. } | Change::Priority { .. } => {
                        return Err(StoreError::Broken("no such value".into()));
                    }
                    _ => {}
                }
            }
            inner.apply(changes)
        };
        let writer = Writer::start(picky, move |durable| tell.send(durable).unwrap()).unwrap();
        let metadata = serde_json::value::RawValue::from_string("{}".into()).unwrap();
        let priority = Change::Priority {
            job: uuid::Uuid::from_u128(1),
            priority: 5,
        };
        writer.push(Seq(1), vec![Change::Submit(Box::new(submission(1, 1, 6)))]);
        writer.push(Seq(2), vec![begin(1, 1)]);
        writer.push(Seq(3), vec![begin(2, 1)]);
        writer.push(Seq(4), vec![begin(3, 1), end(3, FileState::Finished)]);
        writer.note(Change::Metadata { file: 1, metadata });
        writer.push(Seq(5), vec![end(5, FileState::Failed), Change::Release { file: 4 }]);
        writer.push(Seq(6), vec![priority]);
        writer.push(Seq(7), vec![begin(6, 1)]);
        let (mut refused, mut aside, mut up_to) = (Vec::new(), Vec::new(), Seq(0));
        while up_to < Seq(7) {
            match told.recv().unwrap() {
                Durable::UpTo(seq) => up_to = seq,
                Durable::Refused(seq, _) => refused.push(seq),
                Durable::SetAside {
                    seq, concerns, instead, ..
                } => aside.push((seq, concerns, instead.len())),
                Durable::LeadershipLost => unreachable!(),
            }
        }
        assert_eq!(refused, [Seq(6)]);
        let expected = [(Seq(3), vec![2], 1), (Seq(4), vec![3, 3], 2), (Seq(5), vec![5, 4], 2)];
        assert_eq!(aside, expected);
        let states = store.files(uuid::Uuid::from_u128(1)).unwrap();
        let states = states.iter().map(|file| file.state.as_str()).collect::<Vec<_>>();
        assert_eq!(states, ["ACTIVE", "FAILED", "FINISHED", "FAILED", "FAILED", "ACTIVE"]);
        assert_eq!((writer.set_aside(), writer.trouble()), (5, None));
    }

    #[test]
    fn a_duplicate_is_refused_alone() {
        // Otherwise one client's repetition would take its neighbours' jobs along.
        let store = Arc::new(SqliteStore::in_memory());
        let (tell, told) = mpsc::channel();
        let inner = store.clone();
        let apply = move |changes: &[Change]| inner.apply(changes);
        let writer = Writer::start(apply, move |durable| tell.send(durable).unwrap()).unwrap();
        let submit = |job: u128, first: u64| vec![Change::Submit(Box::new(submission(job, first, 1)))];
        store.apply(&submit(1, 1)).unwrap();
        writer.push(Seq(1), submit(2, 2));
        writer.push(Seq(2), submit(1, 3));
        writer.push(Seq(3), submit(3, 4));
        let (mut refused, mut up_to) = (Vec::new(), Seq(0));
        while up_to < Seq(3) {
            match told.recv().unwrap() {
                Durable::UpTo(seq) => up_to = seq,
                Durable::Refused(seq, _) => refused.push(seq),
                other => unreachable!("{other:?}"),
            }
        }
        assert_eq!(refused, [Seq(2)]);
        assert!(store.job(uuid::Uuid::from_u128(3)).unwrap().is_some());
    }
}
