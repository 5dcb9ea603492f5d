//! The part of the suite that is about finding jobs, and settings.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use super::{
    Change, JobFilter, Store as _,
    suite::{Keeper, begin, cancel, end, submission, submit},
};
use weir_executor::job::{FileState, JobState};

pub(crate) fn listings_are_filtered<K: Keeper>() {
    let keeper = K::new();
    let store = keeper.open();
    for job in 1..=4 {
        submit(&store, job, job as u64, 1);
    }
    store
        .apply(&[
            begin(1, 1),
            end(1, FileState::Finished),
            begin(2, 1),
            end(2, FileState::Failed),
            begin(3, 1),
        ])
        .unwrap();
    let list = |filter: JobFilter| -> Vec<u128> {
        store
            .jobs(&filter)
            .unwrap()
            .iter()
            .map(|job| job.spec.id.as_u128())
            .collect()
    };
    assert_eq!(list(JobFilter::default()), [3, 4]);
    assert_eq!(
        list(JobFilter {
            states: vec![JobState::Active],
            ..JobFilter::default()
        }),
        [3]
    );
    let ended = vec![JobState::Finished, JobState::Failed];
    assert_eq!(
        list(JobFilter {
            states: ended.clone(),
            ..JobFilter::default()
        }),
        [0; 0]
    );
    assert_eq!(
        list(JobFilter {
            states: ended.clone(),
            limit: Some(10),
            ..JobFilter::default()
        }),
        [2, 1]
    );
    assert_eq!(
        list(JobFilter {
            states: ended.clone(),
            finished_since: Some(3000),
            ..JobFilter::default()
        }),
        [1, 2]
    );
    assert_eq!(
        list(JobFilter {
            states: ended,
            finished_since: Some(3001),
            ..JobFilter::default()
        }),
        [0; 0]
    );
    assert_eq!(
        list(JobFilter {
            cred_id: Some("cred-1".into()),
            ..JobFilter::default()
        }),
        [3]
    );
    assert_eq!(
        list(JobFilter {
            source_se: Some("https://z".into()),
            ..JobFilter::default()
        }),
        [0; 0]
    );
    assert_eq!(
        list(JobFilter {
            vo: Some("testvo".into()),
            limit: Some(1),
            ..JobFilter::default()
        }),
        [4]
    );
}

pub(crate) fn overdue_transfers_are_found<K: Keeper>() {
    let keeper = K::new();
    let store = keeper.open();
    let mut late = submission(1, 1, 3);
    late.job.params.max_time_in_queue = Some(50);
    store.apply(&[Change::Submit(Box::new(late))]).unwrap();
    submit(&store, 2, 4, 1);
    store.apply(&[begin(2, 1)]).unwrap();
    let overdue = |now| {
        let found = store.overdue(now).unwrap();
        found
            .into_iter()
            .map(|job| (job.job.as_u128(), job.kind, job.files))
            .collect::<Vec<_>>()
    };
    assert_eq!(overdue(49), []);
    assert_eq!(overdue(50), [(1, 'N', vec![1, 3])]);
    store.apply(&[cancel(1, false, &[1, 3], &[])]).unwrap();
    assert_eq!(overdue(50), []);
    // Any number of jobs that have nothing that waits keep none back.
    let mut jobs = Vec::new();
    for job in 10..1210 {
        let mut late = submission(job, job as u64, 1);
        late.job.params.max_time_in_queue = Some(50 + i64::from(job == 1209));
        jobs.push(Change::Submit(Box::new(late)));
    }
    jobs.extend((10..1209).filter(|file| *file != 700).map(|file| begin(file, 1)));
    store.apply(&jobs).unwrap();
    assert_eq!(overdue(51), [(700, 'N', vec![700]), (1209, 'N', vec![1209])]);
}

pub(crate) fn settings_are_kept<K: Keeper>() {
    let keeper = K::new();
    let set = |key: &str, value: Option<&str>| Change::Setting {
        key: key.into(),
        value: value.map(str::to_owned),
    };
    keeper
        .open()
        .apply(&[
            set("link/a", Some("1")),
            set("link/b", Some("2")),
            set("se/x", Some("3")),
        ])
        .unwrap();
    let store = keeper.open();
    store.apply(&[set("link/a", None), set("link/b", Some("4"))]).unwrap();
    assert_eq!(
        store.settings("link/").unwrap(),
        [("link/b".to_owned(), "4".to_owned())]
    );
}
