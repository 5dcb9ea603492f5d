//! The part of the suite that is about history.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use uuid::Uuid;
use weir_executor::orders::Orders as _;

use super::{
    Change, Conflict, JobFilter, Store,
    suite::{Keeper, again, begin, cancel, end, submission, submit},
};
use weir_executor::job::{FileResult, FileState, JobState};

/// Everything that clients can ask about a job.
fn answers(store: &impl Store, job: u128, files: &[u64]) -> String {
    let id = Uuid::from_u128(job);
    let each = files
        .iter()
        .map(|file| (store.file(*file).unwrap(), store.retries(*file).unwrap()));
    let each = each.collect::<Vec<_>>();
    let listed = |filter: JobFilter| -> Vec<u128> {
        let jobs = store.jobs(&filter).unwrap();
        jobs.iter().map(|job| job.spec.id.as_u128()).collect()
    };
    let recent = JobFilter {
        states: vec![JobState::Finished, JobState::FinishedDirty, JobState::Canceled],
        finished_since: Some(3000),
        ..JobFilter::default()
    };
    let newest = JobFilter {
        limit: Some(3),
        finished_since: None,
        ..recent.clone()
    };
    let (job, files) = (store.job(id).unwrap(), store.files(id).unwrap());
    let live = listed(JobFilter::default());
    format!(
        "{job:?} {files:?} {each:?} {:?} {:?} {live:?}",
        listed(recent),
        listed(newest)
    )
}

/// Job 1 with three files, one of which was tried twice; all have ended.
fn an_ended_job(store: &impl Store) {
    submit(store, 1, 1, 3);
    let result = FileResult {
        reason: Some("it broke \u{1f30d}".into()),
        class: Some(weir_world::ErrorClass::Network),
        ..FileResult::default()
    };
    store
        .apply(&[
            begin(1, 1),
            again(1, result),
            begin(1, 2),
            end(1, FileState::Finished),
            begin(2, 1),
            end(2, FileState::Failed),
            end(3, FileState::Finished),
        ])
        .unwrap();
}

pub(crate) fn an_old_job_is_answered_from_history<K: Keeper>() {
    let keeper = K::new();
    let before;
    {
        let store = keeper.open();
        an_ended_job(&store);
        submit(&store, 2, 4, 1);
        submit(&store, 3, 5, 1);
        store.apply(&[cancel(3, true, &[5], &[])]).unwrap();
        before = answers(&store, 1, &[1, 2, 3]);
        assert_eq!(store.archive(2999, 100).unwrap(), 0);
        assert_eq!(store.archive(3000, 100).unwrap(), 4);
        assert_eq!(answers(&store, 1, &[1, 2, 3]), before);
    }
    let store = keeper.open();
    assert_eq!(answers(&store, 1, &[1, 2, 3]), before);
    assert!(store.order(1).unwrap().is_none(), "nothing is ordered from history");
    // It is taken, and it has ended.
    let again = Change::Submit(Box::new(submission(1, 7, 1)));
    assert!(matches!(
        store.apply(&[again]).unwrap_err().refusal(),
        Some(Conflict::Duplicate(_))
    ));
    store
        .apply(&[end(1, FileState::Failed), cancel(1, true, &[2], &[3]), begin(3, 2)])
        .unwrap();
    assert_eq!(answers(&store, 1, &[1, 2, 3]), before);
    assert_eq!(store.next_file_id().unwrap(), 6);
}

pub(crate) fn a_large_job_leaves_in_pieces<K: Keeper>() {
    let keeper = K::new();
    let store = keeper.open();
    submit(&store, 1, 1, 5);
    store.apply(&[cancel(1, true, &[1, 2, 3, 4, 5], &[])]).unwrap();
    let before = answers(&store, 1, &[1, 2, 3, 4, 5]);
    let mut steps = Vec::new();
    while steps.last() != Some(&0) {
        steps.push(store.archive(9000, 2).unwrap());
        assert_eq!(answers(&store, 1, &[1, 2, 3, 4, 5]), before, "after {steps:?}");
    }
    assert_eq!((steps.iter().sum::<usize>(), steps.iter().max()), (6, Some(&2)));
}

pub(crate) fn only_what_ended_leaves<K: Keeper>() {
    // A live job that left would never start.
    let keeper = K::new();
    let store = keeper.open();
    an_ended_job(&store);
    submit(&store, 2, 4, 2);
    store
        .apply(&[begin(4, 1), end(4, FileState::Finished), begin(5, 1)])
        .unwrap();
    store.archive(i64::MAX, 100).unwrap();
    let mut live = Vec::new();
    let mut take = |row| live.push(super::suite::live(row));
    store.restore(1 << 40, &mut take).unwrap();
    assert_eq!((live.len(), live[0].files.len(), live[0].files[0].file), (1, 1, 5));
    assert_eq!(store.order(5).unwrap().unwrap().job.id, Uuid::from_u128(2));
    store.apply(&[end(5, FileState::Finished)]).unwrap();
    let job = store.job(Uuid::from_u128(2)).unwrap().unwrap();
    assert_eq!((job.state, job.counts.finished), (JobState::Finished, 2));
}

pub(crate) fn a_token_goes_with_its_last_file<K: Keeper>() {
    let keeper = K::new();
    let store = keeper.open();
    submit(&store, 1, 1, 2);
    // A second job with the token of the first.
    let mut same = submission(1, 3, 1);
    same.job.id = Uuid::from_u128(2);
    store.apply(&[Change::Submit(Box::new(same))]).unwrap();
    submit(&store, 3, 4, 1);
    assert_eq!(K::tokens(&store), 2);
    store
        .apply(&[cancel(1, true, &[1, 2], &[]), cancel(3, true, &[4], &[])])
        .unwrap();
    store.archive(4000, 100).unwrap();
    assert_eq!(K::tokens(&store), 1);
    assert_eq!(
        store.order(3).unwrap().unwrap().source_token.unwrap().expose(),
        "token-of-1"
    );
    store.apply(&[cancel(2, true, &[3], &[])]).unwrap();
    store.archive(4000, 100).unwrap();
    assert_eq!(K::tokens(&store), 0);
    // And comes back with the next.
    submit(&store, 4, 5, 1);
    assert_eq!(
        store.order(5).unwrap().unwrap().source_token.unwrap().expose(),
        "token-of-4"
    );
}

pub(crate) fn history_is_forgotten<K: Keeper>() {
    let keeper = K::new();
    let store = keeper.open();
    an_ended_job(&store);
    submit(&store, 2, 4, 1);
    store.apply(&[cancel(2, true, &[4], &[])]).unwrap();
    assert_eq!(store.forget(9000, 10).unwrap(), 0, "the present is never forgotten");
    store.archive(9000, 100).unwrap();
    assert_eq!(store.forget(2999, 10).unwrap(), 0);
    assert_eq!(store.forget(9000, 1).unwrap(), 3, "one job");
    assert!(store.job(Uuid::from_u128(1)).unwrap().is_none() && store.file(1).unwrap().is_none());
    assert!(store.files(Uuid::from_u128(1)).unwrap().is_empty() && store.retries(1).unwrap().is_empty());
    assert!(store.job(Uuid::from_u128(2)).unwrap().is_some());
    assert_eq!(store.forget(9000, 10).unwrap(), 1);
    assert_eq!(store.next_file_id().unwrap(), 5, "ids are never given twice");
}

pub(crate) fn a_large_job_is_forgotten_in_time<K: Keeper>() {
    // A step that forgets jobs of any size holds the writer up for as long as it takes.
    let keeper = K::new();
    let store = keeper.open();
    let ids = (1..=2500).collect::<Vec<u64>>();
    submit(&store, 1, 1, 2500);
    submit(&store, 2, 2501, 1);
    store
        .apply(&[cancel(1, true, &ids, &[]), cancel(2, true, &[2501], &[])])
        .unwrap();
    while store.archive(9000, 1000).unwrap() >= 1000 {}
    let mut steps = Vec::new();
    while steps.last().is_none_or(|n| *n >= 1000) {
        assert!(store.file(2501).unwrap().is_some(), "the older one goes first");
        steps.push(store.forget(9000, 1000).unwrap());
    }
    assert!(steps.len() <= 5, "{steps:?}");
    for job in [1, 2] {
        assert!(store.job(Uuid::from_u128(job)).unwrap().is_none());
        assert!(store.files(Uuid::from_u128(job)).unwrap().is_empty());
    }
    assert!(store.file(1).unwrap().is_none() && store.file(2501).unwrap().is_none());
}
