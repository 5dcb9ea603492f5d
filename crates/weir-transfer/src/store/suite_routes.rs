//! The part of the suite about jobs whose files go one after the other.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use serde_json::value::RawValue;
use uuid::Uuid;

use super::{
    Change, Store, Submission,
    suite::{Keeper, begin, cancel, end, live, submission},
};
use weir_executor::job::{Claim, FileState, JobState, SEVERAL_HOPS, SEVERAL_SOURCES};
use weir_service::time::Millis;

/// A job of three files from 1 on, of which one begins.
fn submit(store: &impl Store, kind: char, first: u64) {
    let mut submission = submission(1, 1, 3);
    submission.job.kind = kind;
    submission.live = Some(first);
    if kind == SEVERAL_SOURCES {
        submission.files.iter_mut().for_each(|file| file.index = 0);
    }
    store.apply(&[Change::Submit(Box::new(submission))]).unwrap();
}

fn states(store: &impl Store) -> (Vec<&'static str>, JobState) {
    let files = store.files(Uuid::from_u128(1)).unwrap();
    let states = files.iter().map(|file| file.state.as_str()).collect();
    (states, store.job(Uuid::from_u128(1)).unwrap().unwrap().state)
}

/// The restored files: id, whether it is held, whether it resumes.
fn restored(store: &impl Store) -> Vec<(u64, bool, bool)> {
    let mut found = Vec::new();
    let mut each = |restored| {
        let files = live(restored).files;
        found.extend(
            files
                .into_iter()
                .map(|file| (file.file, file.state == FileState::NotUsed, file.follow_up.resume)),
        );
    };
    store.restore(100, &mut each).unwrap();
    found
}

pub(crate) fn one_source_follows_another<K: Keeper>() {
    let keeper = K::new();
    let store = keeper.open();
    submit(&store, SEVERAL_SOURCES, 2);
    assert_eq!(
        states(&store),
        (vec!["NOT_USED", "SUBMITTED", "NOT_USED"], JobState::Submitted)
    );
    assert_eq!(
        restored(&store),
        [(1, true, false), (2, false, false), (3, true, false)]
    );
    let claim = |at: Millis| Some(Claim { since: at, until: None });
    store
        .apply(&[
            begin(2, 1),
            Change::Claim {
                file: 2,
                claim: claim(2001),
            },
            end(2, FileState::Failed),
            Change::Release { file: 3 },
        ])
        .unwrap();
    drop(store);
    let store = keeper.open();
    assert_eq!(
        states(&store),
        (vec!["NOT_USED", "FAILED", "SUBMITTED"], JobState::Active)
    );
    assert_eq!(restored(&store), [(1, true, false), (3, false, true)]);
    let third = store.file(3).unwrap().unwrap();
    assert_eq!(third.spec.index, 0, "all are sources of one file");
    assert_eq!(
        third.claim,
        claim(2001),
        "it goes on with what is known of the destination"
    );
    let told = RawValue::from_string(r#"{"dst_file":{}}"#.into()).unwrap();
    let tell = Change::Metadata {
        file: 3,
        metadata: told.clone(),
    };
    // Only a waiting file is released.
    store
        .apply(&[
            Change::Release { file: 2 },
            tell,
            begin(3, 1),
            end(3, FileState::Finished),
        ])
        .unwrap();
    assert_eq!(
        states(&store),
        (vec!["NOT_USED", "FAILED", "FINISHED"], JobState::Finished)
    );
    assert_eq!(store.file(3).unwrap().unwrap().spec.metadata.unwrap().get(), told.get());
    assert!(restored(&store).is_empty());
    assert!(store.archive(i64::MAX, 100).unwrap() > 0);
    assert_eq!(
        states(&store),
        (vec!["NOT_USED", "FAILED", "FINISHED"], JobState::Finished)
    );
    assert_eq!(K::tokens(&store), 0, "a source that was not used holds its token");
}

pub(crate) fn a_source_follows_whatever_the_parameters_hold<K: Keeper>() {
    // PostgreSQL reads no JSON with such a character: the writer stood still for ever.
    let odd = "a\u{0}b \"bring_online\":7 ü";
    for (number, (online, expected)) in [(None, FileState::Submitted), (Some(60), FileState::Staging)]
        .into_iter()
        .enumerate()
    {
        let keeper = K::new();
        let store = keeper.open();
        let mut submission = submission(number as u128 + 1, 1, 2);
        submission.job.kind = SEVERAL_SOURCES;
        submission.live = Some(1);
        let params = &mut submission.job.params;
        (params.source_spacetoken, params.destination_spacetoken) = (Some(odd.into()), Some(odd.into()));
        (params.bring_online, params.copy_pin_lifetime) = (online, online);
        store.apply(&[Change::Submit(Box::new(submission))]).unwrap();
        let ends = [begin(1, 1), end(1, FileState::Failed), Change::Release { file: 2 }];
        store.apply(&ends).unwrap();
        assert_eq!(store.file(2).unwrap().unwrap().state, expected);
    }
}

pub(crate) fn hops_follow_each_other<K: Keeper>() {
    let keeper = K::new();
    let store = keeper.open();
    submit(&store, SEVERAL_HOPS, 1);
    store
        .apply(&[begin(1, 1), end(1, FileState::Finished), Change::Release { file: 2 }])
        .unwrap();
    assert_eq!(restored(&store), [(2, false, false), (3, true, false)]);
    let mut firsts = Vec::new();
    store.restore(100, &mut |job| firsts.push(live(job).first)).unwrap();
    assert_eq!(firsts, [1], "which hop is which is told by the first one");
    assert_eq!(store.file(3).unwrap().unwrap().spec.index, 2);
    store.apply(&[begin(2, 1), end(2, FileState::Failed)]).unwrap();
    assert_eq!(
        states(&store),
        (vec!["FINISHED", "FAILED", "NOT_USED"], JobState::Failed)
    );
    assert!(restored(&store).is_empty());

    drop(store);
    let keeper = K::new();
    let store = keeper.open();
    submit(&store, SEVERAL_HOPS, 1);
    store.apply(&[begin(1, 1), cancel(1, true, &[2, 3], &[1])]).unwrap();
    assert_eq!(
        states(&store),
        (vec!["ACTIVE", "CANCELED", "CANCELED"], JobState::Active)
    );
    store.apply(&[end(1, FileState::Canceled)]).unwrap();
    assert_eq!(states(&store).1, JobState::Canceled);
}

#[test]
fn a_job_that_no_scheduler_has_seen_begins_with_one_file() {
    // A node that does not schedule writes jobs as they come: with all hops live, the second would run before the first.
    let submission = |kind: char| {
        let mut plain = submission(1, 5, 3);
        plain.job.kind = kind;
        Submission::new(plain.job, plain.files, plain.tokens)
    };
    for kind in [SEVERAL_SOURCES, SEVERAL_HOPS] {
        let job = submission(kind);
        let states = [0, 1, 2].map(|place| job.first_state(&job.files[place]));
        assert_eq!(states, [FileState::Submitted, FileState::NotUsed, FileState::NotUsed]);
    }
    let job = submission('N');
    assert_eq!(job.first_state(&job.files[1]), FileState::Submitted);
}
