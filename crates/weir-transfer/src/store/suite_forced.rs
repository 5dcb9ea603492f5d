//! The part of the suite that is about files that start past limits.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use uuid::Uuid;

use super::{
    Change, Store,
    suite::{Keeper, again, begin, cancel, end, live, submission},
};
use weir_executor::job::{
    FileResult,
    FileState::{self, Active, Failed, ForceStart, NotUsed, Staging, Submitted},
    JobState,
};

const JOB: u128 = 1;

fn force(files: &[u64]) -> Change {
    Change::Force { files: files.to_vec() }
}

/// A file forced once starts, whatever happens before.
pub(crate) fn a_forced_file_is_forced_until_it_starts<K: Keeper>() {
    let keeper = K::new();
    {
        let store = keeper.open();
        store.apply(&[Change::Submit(Box::new(submission(JOB, 1, 6)))]).unwrap();
        let result = FileResult::default;
        let before = [
            begin(2, 1),
            again(2, result()),
            begin(3, 1),
            begin(4, 1),
            end(4, Failed),
        ];
        store.apply(&before).unwrap();
        // In one batch with what comes before and after it, as the scheduler has it.
        store.apply(&[force(&[1, 2, 3, 4, 5, 99]), begin(5, 1)]).unwrap();
    }
    let store = keeper.open();
    let state = |file| store.file(file).unwrap().unwrap().state;
    let states = (1..=6).map(state).collect::<Vec<_>>();
    assert_eq!(states, [ForceStart, ForceStart, Active, Failed, Active, Submitted]);
    assert_eq!(
        store.job(Uuid::from_u128(JOB)).unwrap().unwrap().state,
        JobState::Active
    );
    let mut files = Vec::new();
    store
        .restore(u64::MAX >> 1, &mut |row| files.extend(live(row).files))
        .unwrap();
    let told = files
        .iter()
        .map(|file| (file.file, file.state, file.running, file.follow_up.not_before));
    assert_eq!(
        told.collect::<Vec<_>>(),
        [
            (1, ForceStart, false, 0),
            (2, ForceStart, false, 0),
            (3, Active, true, 0),
            (5, Active, true, 0),
            (6, Submitted, false, 0),
        ]
    );
    // A failed file waits for its next turn like any other.
    store.apply(&[begin(1, 1), again(1, FileResult::default())]).unwrap();
    store.apply(&[cancel(JOB, false, &[2], &[])]).unwrap();
    assert_eq!([1, 2].map(state), [Submitted, FileState::Canceled]);
}

/// A file that waits for an operator may wait for ever.
pub(crate) fn a_forced_file_may_wait_too_long<K: Keeper>() {
    let keeper = K::new();
    let store = keeper.open();
    let mut submission = submission(JOB, 1, 2);
    submission.job.params.max_time_in_queue = Some(100);
    store
        .apply(&[Change::Submit(Box::new(submission)), force(&[1])])
        .unwrap();
    assert_eq!(store.overdue(100).unwrap()[0].files, [1, 2]);
}

/// A file that waits for tape, or for other files, keeps its place.
pub(crate) fn only_what_waits_for_its_copy_is_forced<K: Keeper>() {
    let keeper = K::new();
    let store = keeper.open();
    let mut staged = submission(JOB, 1, 1);
    staged.job.params.bring_online = Some(60);
    let mut hops = submission(2, 2, 2);
    hops.job.kind = weir_executor::job::SEVERAL_HOPS;
    hops.live = Some(2);
    store
        .apply(&[
            Change::Submit(Box::new(staged)),
            Change::Submit(Box::new(hops)),
            force(&[1, 2, 3]),
        ])
        .unwrap();
    let state = |file| store.file(file).unwrap().unwrap().state;
    assert_eq!([1, 2, 3].map(state), [Staging, ForceStart, NotUsed]);
}
