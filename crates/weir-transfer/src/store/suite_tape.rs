//! The part of the suite that is about tape.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use uuid::Uuid;
use weir_executor::orders::Orders as _;
use weir_executor::orders::Pin;
use weir_sched::Work;

use super::{
    Change, Live, Restored, Store, Submission,
    suite::{Keeper, submission},
};
use crate::testing::surl;
use weir_executor::job::{FileResult, FileState, JobState};

const JOB: u128 = 7;

/// Two files that are staged first and archived afterwards, 1 and 2.
fn taped() -> Submission {
    let mut taped = submission(JOB, 1, 2);
    let params = &mut taped.job.params;
    (params.bring_online, params.copy_pin_lifetime, params.archive_timeout) = (Some(60), Some(60), Some(0));
    taped
}

fn begin(file: u64, work: Work, attempt: u32) -> Change {
    Change::Begin {
        file,
        work,
        attempt,
        epoch: 7,
        at: 1000 + i64::from(attempt),
    }
}

fn advance(file: u64, next: Work, at: i64) -> Change {
    let copied = FileResult {
        filesize: Some(5),
        bytes_moved: 5,
        counted: Some(4),
        first_byte_ms: Some(7),
        waits: weir_world::Waits::parse("disk=77").map(Box::new),
        mode: Some("pull".into()),
        ..FileResult::default()
    };
    Change::Advance {
        file,
        at,
        next,
        result: (next == Work::Archive).then_some(copied),
    }
}

fn state(store: &impl Store) -> JobState {
    store.job(Uuid::from_u128(JOB)).unwrap().unwrap().state
}

fn live(store: &impl Store) -> Vec<Live> {
    let mut all = Vec::new();
    let mut each = |restored| {
        if let Restored::Job(job) = restored {
            all.extend(job.files);
        }
    };
    store.restore(u64::MAX >> 1, &mut each).unwrap();
    all
}

/// Clients wait by these states; a restart goes on from them.
pub(crate) fn a_file_goes_from_tape_to_tape<K: Keeper>() {
    let keeper = K::new();
    let store = keeper.open();
    store.apply(&[Change::Submit(Box::new(taped()))]).unwrap();
    assert_eq!(state(&store), JobState::Staging);
    assert_eq!(live(&store)[0].state.work(), Work::Stage);
    let apply = |changes: &[Change]| store.apply(changes).unwrap();
    let file = |id| store.file(id).unwrap().unwrap();
    apply(&[begin(1, Work::Stage, 1), begin(2, Work::Stage, 1)]);
    assert_eq!((file(1).state, state(&store)), (FileState::Started, JobState::Staging));
    assert!(live(&store)[0].running && file(1).started.is_none());
    let request = "r-1".to_owned();
    apply(&[Change::Requested {
        files: vec![1, 2],
        request,
    }]);
    apply(&[advance(1, Work::Copy, 1500)]);
    assert_eq!((file(1).state, state(&store)), (FileState::Submitted, JobState::Active));
    assert_eq!(
        (live(&store)[0].state.work(), live(&store)[1].state.work()),
        (Work::Copy, Work::Stage)
    );
    apply(&[begin(1, Work::Copy, 2)]);
    apply(&[advance(1, Work::Archive, 1600)]);
    assert_eq!(
        (file(1).state, live(&store)[0].state.work()),
        (FileState::Archiving, Work::Archive)
    );
    assert_eq!((file(1).result.bytes_moved, file(1).moved_total), (5, 5));
    apply(&[begin(1, Work::Archive, 3)]);
    apply(&[
        advance(2, Work::Copy, 1700),
        begin(2, Work::Copy, 2),
        advance(2, Work::Archive, 1800),
    ]);
    assert_eq!(state(&store), JobState::Archiving);
    let over = |id, state| Change::End {
        file: id,
        work: Work::Archive,
        at: 3000,
        state,
        result: FileResult::default(),
    };
    apply(&[over(1, FileState::Finished)]);
    assert_eq!(state(&store), JobState::Archiving);
    apply(&[over(2, FileState::Failed)]);
    assert_eq!(state(&store), JobState::FinishedDirty);
    let done = file(1);
    assert_eq!(
        (
            done.result.mode.as_deref(),
            done.result.filesize,
            done.moved_total,
            done.result.counted,
            done.result.first_byte_ms,
            done.result.waits.is_some(),
        ),
        (Some("pull"), Some(5), 5, Some(4), Some(7), true)
    );
    let tape = done.tape;
    assert_eq!((tape.staging_start, tape.staging_finished), (Some(1001), Some(1500)));
    assert_eq!((tape.archive_start, tape.archive_finished), (Some(1600), Some(3000)));
    assert_eq!(tape.request.as_deref(), Some("r-1"));
    let counts = store.job(Uuid::from_u128(JOB)).unwrap().unwrap().counts;
    assert_eq!((counts.archiving, counts.finished, counts.failed), (0, 1, 1));
    while store.archive(i64::MAX, 100).unwrap() > 0 {}
    assert_eq!(file(1).tape, tape, "history keeps what tape did");
}

/// A forgotten pin fills the tape's buffer for a week.
pub(crate) fn pins_are_kept_until_they_are_given_back<K: Keeper>() {
    let keeper = K::new();
    let store = keeper.open();
    let apply = |changes: &[Change]| store.apply(changes).unwrap();
    apply(&[
        Change::Submit(Box::new(taped())),
        begin(1, Work::Stage, 1),
        begin(2, Work::Stage, 1),
    ]);
    assert_eq!(store.pins().unwrap(), []);
    let request = "r-1".to_owned();
    apply(&[Change::Requested {
        files: vec![1, 2, 99],
        request,
    }]);
    let failed = Change::End {
        file: 2,
        work: Work::Stage,
        at: 3000,
        state: FileState::Failed,
        result: FileResult::default(),
    };
    apply(&[failed]);
    let pin = |file: u64, over| Pin {
        file,
        source: surl(format!("https://a/f{}", file - 1)),
        over,
    };
    drop(store);
    let store = keeper.open();
    assert_eq!(store.pins().unwrap(), [pin(1, false), pin(2, true)]);
    store.apply(&[Change::Unpinned { files: vec![2] }]).unwrap();
    assert_eq!(store.pins().unwrap(), [pin(1, false)]);
    assert_eq!(store.file(2).unwrap().unwrap().tape.request.as_deref(), Some("r-1"));
}

/// A failed tape operation is retried; a cancelled one no longer counts as archiving.
pub(crate) fn retries_at_a_tape_wait_for_the_same<K: Keeper>() {
    let keeper = K::new();
    let store = keeper.open();
    let apply = |changes: &[Change]| store.apply(changes).unwrap();
    let again = |file, work| Change::Again {
        file,
        work,
        attempt: 1,
        at: 2500,
        result: FileResult {
            reason: Some("no".into()),
            ..FileResult::default()
        },
        follow_up: super::FollowUp::default(),
    };
    apply(&[Change::Submit(Box::new(taped())), begin(1, Work::Stage, 1)]);
    apply(&[again(1, Work::Stage)]);
    assert_eq!(
        (store.file(1).unwrap().unwrap().state, state(&store)),
        (FileState::Staging, JobState::Staging)
    );
    apply(&[
        begin(2, Work::Stage, 1),
        advance(2, Work::Copy, 1500),
        begin(2, Work::Copy, 2),
    ]);
    apply(&[advance(2, Work::Archive, 1600), begin(2, Work::Archive, 3)]);
    apply(&[again(2, Work::Archive)]);
    assert_eq!(store.file(2).unwrap().unwrap().state, FileState::Archiving);
    assert_eq!(store.file(2).unwrap().unwrap().result.mode.as_deref(), Some("pull"));
    let cancel = Change::Cancel {
        job: Uuid::from_u128(JOB),
        whole: true,
        settled: vec![1, 2],
        stopping: vec![],
        at: 4000,
        reason: "enough".into(),
    };
    apply(&[cancel]);
    let job = store.job(Uuid::from_u128(JOB)).unwrap().unwrap();
    assert_eq!((job.state, job.counts.archiving), (JobState::Canceled, 0));
}
