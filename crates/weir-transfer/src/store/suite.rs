//! The suite that every store passes.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

pub(crate) use crate::testing::submission;
use weir_executor::orders::Orders as _;

use uuid::Uuid;
use weir_sched::Work;
use weir_world::{ErrorClass, Waits};

use super::{Change, Conflict, FollowUp, LiveJob, Restored, Store};
pub(crate) use super::{
    suite_destinations::*, suite_forced::*, suite_history::*, suite_listings::*, suite_renewals::*, suite_routes::*,
    suite_secrets::*, suite_tape::*, suite_urls::*,
};
use weir_executor::job::{Claim, FileResult, FileState, JobState, SIZE_MAX};

/// Where a backend's rows live while a test opens and closes it.
pub(crate) trait Keeper {
    type Store: Store;
    fn new() -> Self;
    fn open(&self) -> Self::Store;
    /// Tokens that are kept.
    fn tokens(store: &Self::Store) -> usize;
}

pub(super) fn submit(store: &impl Store, job: u128, first: u64, n: u64) {
    store
        .apply(&[Change::Submit(Box::new(submission(job, first, n)))])
        .unwrap();
}

pub(super) fn begin(file: u64, attempt: u32) -> Change {
    Change::Begin {
        work: Work::Copy,
        file,
        attempt,
        epoch: 7,
        at: 2000,
    }
}

pub(super) fn end(file: u64, state: FileState) -> Change {
    let result = FileResult {
        filesize: Some(5),
        bytes_moved: 5,
        counted: (state == FileState::Finished).then_some(4),
        first_byte_ms: (state == FileState::Finished).then_some(7),
        waits: Waits::parse("token=1200 disk=77").map(Box::new),
        mode: Some("pull".into()),
        ..FileResult::default()
    };
    Change::End {
        work: Work::Copy,
        file,
        at: 3000,
        state,
        result,
    }
}

pub(super) fn again(file: u64, result: FileResult) -> Change {
    Change::Again {
        work: Work::Copy,
        file,
        attempt: 1,
        at: 2500,
        result,
        follow_up: FOLLOW_UP,
    }
}

const FOLLOW_UP: FollowUp = FollowUp {
    not_before: 9000,
    failures: 1,
    free_retries: 2,
    resume: true,
};

pub(super) fn cancel(job: u128, whole: bool, settled: &[u64], stopping: &[u64]) -> Change {
    Change::Cancel {
        job: Uuid::from_u128(job),
        whole,
        settled: settled.to_vec(),
        stopping: stopping.to_vec(),
        at: 4000,
        reason: "by the user".into(),
    }
}

fn job_state(store: &impl Store, job: u128) -> JobState {
    store.job(Uuid::from_u128(job)).unwrap().unwrap().state
}

pub(super) fn live(restored: Restored) -> LiveJob {
    match restored {
        Restored::Job(job) => *job,
        Restored::Unreadable(row) => panic!("{row:?}"),
    }
}

pub(crate) fn a_submission_is_read_back<K: Keeper>() {
    let keeper = K::new();
    {
        let store = keeper.open();
        assert_eq!(store.next_file_id().unwrap(), 1);
        submit(&store, 1, 1, 3);
    }
    let store = keeper.open();
    let expected = submission(1, 1, 3);
    let job = store.job(Uuid::from_u128(1)).unwrap().unwrap();
    assert_eq!(job.spec.params, expected.job.params);
    assert_eq!(job.spec.metadata.unwrap().get(), expected.job.metadata.unwrap().get());
    assert_eq!(
        (job.state, job.finished, job.counts.files),
        (JobState::Submitted, None, 3)
    );
    let files = store.files(Uuid::from_u128(1)).unwrap();
    assert_eq!(files.len(), 3);
    for (file, expected) in files.iter().zip(&expected.files) {
        assert_eq!((file.spec.id, file.spec.index), (expected.id, expected.index));
        assert_eq!(
            (&file.spec.source, &file.spec.destination),
            (&expected.source, &expected.destination)
        );
        assert_eq!(file.spec.user_filesize, expected.user_filesize);
        assert_eq!(file.spec.source_token, expected.source_token);
        assert_eq!(file.state, FileState::Submitted);
    }
    let order = store.order(2).unwrap().unwrap();
    assert_eq!(order.source_token.unwrap().expose(), "token-of-1");
    assert_eq!(order.job.id, Uuid::from_u128(1));
    assert_eq!(store.next_file_id().unwrap(), 4);
    assert!(store.job(Uuid::from_u128(9)).unwrap().is_none());
    assert!(store.files(Uuid::from_u128(9)).unwrap().is_empty());
    assert!(store.order(99).unwrap().is_none());
}

pub(crate) fn epochs_only_grow<K: Keeper>() {
    let keeper = K::new();
    let first = keeper.open().next_epoch().unwrap();
    let second = keeper.open().next_epoch().unwrap();
    assert!(second > first && first > 0);
}

pub(crate) fn a_job_follows_its_files<K: Keeper>() {
    let keeper = K::new();
    let store = keeper.open();
    submit(&store, 1, 1, 2);
    store.apply(&[begin(1, 1)]).unwrap();
    assert_eq!(job_state(&store, 1), JobState::Active);
    store
        .apply(&[begin(2, 1), end(1, FileState::Finished), end(2, FileState::Failed)])
        .unwrap();
    let job = store.job(Uuid::from_u128(1)).unwrap().unwrap();
    assert_eq!((job.state, job.finished), (JobState::FinishedDirty, Some(3000)));
    assert!(job.reason.unwrap().starts_with("One or more files failed"));
    let file = store.file(1).unwrap().unwrap();
    assert_eq!(
        (file.state, file.attempts, file.started),
        (FileState::Finished, 1, Some(2000))
    );
    assert_eq!(
        (file.result.filesize, file.result.mode.as_deref()),
        (Some(5), Some("pull"))
    );
}

pub(crate) fn a_terminal_file_never_changes<K: Keeper>() {
    let keeper = K::new();
    let store = keeper.open();
    submit(&store, 1, 1, 1);
    store.apply(&[begin(1, 1), end(1, FileState::Finished)]).unwrap();
    let late = again(1, FileResult::default());
    store
        .apply(&[begin(1, 2), late, end(1, FileState::Failed), cancel(1, true, &[1], &[])])
        .unwrap();
    let file = store.file(1).unwrap().unwrap();
    assert_eq!(
        (file.state, file.attempts, file.finished),
        (FileState::Finished, 1, Some(3000))
    );
    assert_eq!(job_state(&store, 1), JobState::Finished);
    assert!(store.retries(1).unwrap().is_empty());
}

pub(crate) fn a_failed_attempt_is_remembered<K: Keeper>() {
    let keeper = K::new();
    let store = keeper.open();
    submit(&store, 1, 1, 1);
    let result = FileResult {
        reason: Some("it broke".into()),
        class: Some(ErrorClass::Network),
        ..FileResult::default()
    };
    store.apply(&[begin(1, 1), again(1, result)]).unwrap();
    let file = store.file(1).unwrap().unwrap();
    assert_eq!(
        (file.state, file.result.class),
        (FileState::Submitted, Some(ErrorClass::Network))
    );
    let retries = store.retries(1).unwrap();
    assert_eq!(
        (retries.len(), retries[0].attempt, retries[0].reason.as_str()),
        (1, 1, "it broke")
    );
    assert_eq!(job_state(&store, 1), JobState::Active);
    store.apply(&[begin(1, 2), end(1, FileState::Finished)]).unwrap();
    assert_eq!(job_state(&store, 1), JobState::Finished);
    assert_eq!(store.file(1).unwrap().unwrap().result.reason, None);
}

pub(crate) fn bytes_of_all_attempts_add_up<K: Keeper>() {
    let keeper = K::new();
    let store = keeper.open();
    submit(&store, 1, 1, 1);
    let failed = |bytes_moved| FileResult {
        bytes_moved,
        ..FileResult::default()
    };
    store.apply(&[begin(1, 1), again(1, failed(30))]).unwrap();
    store.apply(&[begin(1, 2), again(1, failed(0))]).unwrap();
    let moved = |store: &K::Store| {
        let file = store.file(1).unwrap().unwrap();
        (
            file.result.bytes_moved,
            file.moved_total,
            file.result.counted,
            file.result.first_byte_ms,
            file.result.waits.map(|waits| waits.to_string()),
        )
    };
    assert_eq!(moved(&store), (0, 30, None, None, None));
    store.apply(&[begin(1, 3), end(1, FileState::Finished)]).unwrap();
    store.apply(&[end(1, FileState::Failed)]).unwrap();
    let waits = Some("token=1200 disk=77".to_owned());
    assert_eq!(moved(&store), (5, 35, Some(4), Some(7), waits));
}

pub(crate) fn a_storage_that_lies_about_bytes_harms_nobody<K: Keeper>() {
    // Their sum once exceeded the range of a database column: nothing could be written any more, or the row not be
    // read.
    let keeper = K::new();
    let store = keeper.open();
    submit(&store, 1, 1, 1);
    let failed = |bytes_moved| FileResult {
        bytes_moved,
        ..FileResult::default()
    };
    for attempt in 1..=3 {
        let moved = failed(i64::MAX as u64);
        store.apply(&[begin(1, attempt), again(1, moved)]).unwrap();
    }
    store.apply(&[begin(1, 4), again(1, failed(u64::MAX))]).unwrap();
    assert_eq!(store.file(1).unwrap().unwrap().moved_total, 2 * SIZE_MAX);
    assert!(store.order(1).unwrap().is_some());
    store.apply(&[end(1, FileState::Finished)]).unwrap();
    assert_eq!(job_state(&store, 1), JobState::Finished);
}

pub(crate) fn the_claim_of_a_file_is_read_back<K: Keeper>() {
    let keeper = K::new();
    let claim = |since, until| Change::Claim {
        file: 1,
        claim: Some(Claim { since, until }),
    };
    let claimed = |store: &K::Store| store.order(1).unwrap().unwrap().file.claim;
    {
        let store = keeper.open();
        submit(&store, 1, 1, 1);
        assert_eq!(claimed(&store), None);
        store.apply(&[begin(1, 1), claim(2001, None)]).unwrap();
    }
    let store = keeper.open();
    let expected = |until| Some(Claim { since: 2001, until });
    assert_eq!(claimed(&store), expected(None));
    store
        .apply(&[claim(2001, Some(2002)), again(1, FileResult::default())])
        .unwrap();
    assert_eq!(claimed(&store), expected(Some(2002)), "a claim outlives its attempt");
    store.apply(&[Change::Claim { file: 1, claim: None }]).unwrap();
    assert_eq!(claimed(&store), None);
}

pub(crate) fn cancel_takes_only_what_is_live<K: Keeper>() {
    let keeper = K::new();
    let store = keeper.open();
    submit(&store, 1, 1, 3);
    submit(&store, 2, 4, 2);
    store.apply(&[begin(1, 1), end(1, FileState::Finished)]).unwrap();
    store.apply(&[cancel(1, false, &[2, 5], &[])]).unwrap();
    assert_eq!(store.file(2).unwrap().unwrap().state, FileState::Canceled);
    assert_eq!(
        store.file(5).unwrap().unwrap().state,
        FileState::Submitted,
        "another job's file was cancelled"
    );
    assert_eq!(job_state(&store, 1), JobState::Active);
    store
        .apply(&[cancel(1, true, &[1, 3], &[]), cancel(2, true, &[4, 5], &[])])
        .unwrap();
    assert_eq!(store.file(1).unwrap().unwrap().state, FileState::Finished);
    assert_eq!(
        store.file(3).unwrap().unwrap().result.reason.as_deref(),
        Some("by the user")
    );
    assert_eq!(
        (job_state(&store, 1), job_state(&store, 2)),
        (JobState::Canceled, JobState::Canceled)
    );
    let job = store.job(Uuid::from_u128(2)).unwrap().unwrap();
    assert_eq!(
        (job.reason.as_deref(), job.finished),
        (Some("Job canceled by the user"), Some(4000))
    );
}

pub(crate) fn a_stopping_file_stays_active_until_its_end<K: Keeper>() {
    let keeper = K::new();
    {
        let store = keeper.open();
        submit(&store, 1, 1, 1);
        store.apply(&[begin(1, 1), cancel(1, true, &[], &[1])]).unwrap();
        let file = store.file(1).unwrap().unwrap();
        assert_eq!((file.state, file.stopping), (FileState::Active, true));
        let job = store.job(Uuid::from_u128(1)).unwrap().unwrap();
        assert_eq!((job.state, job.cancelled), (JobState::Active, true));
    }
    let store = keeper.open();
    let mut jobs = Vec::new();
    store.restore(u64::MAX >> 1, &mut |row| jobs.push(live(row))).unwrap();
    assert!(jobs[0].files[0].stopping && jobs[0].files[0].running);
    store.apply(&[end(1, FileState::Canceled)]).unwrap();
    let file = store.file(1).unwrap().unwrap();
    assert_eq!((file.state, file.stopping), (FileState::Canceled, false));
    assert_eq!(job_state(&store, 1), JobState::Canceled);
}

pub(crate) fn only_live_files_are_restored<K: Keeper>() {
    let keeper = K::new();
    {
        let store = keeper.open();
        submit(&store, 1, 1, 3);
        submit(&store, 2, 4, 1);
        submit(&store, 3, 5, 1);
        let begun = [
            begin(1, 1),
            end(1, FileState::Finished),
            begin(2, 1),
            begin(3, 1),
            again(3, FileResult::default()),
        ];
        store.apply(&begun).unwrap();
        let priority = Change::Priority {
            job: Uuid::from_u128(3),
            priority: 5,
        };
        store
            .apply(&[begin(4, 1), end(4, FileState::Failed), priority])
            .unwrap();
    }
    let mut jobs = Vec::new();
    let store = keeper.open();
    store.restore(6, &mut |row| jobs.push(live(row))).unwrap();
    assert_eq!(jobs.iter().map(|job| job.job.id.as_u128()).collect::<Vec<_>>(), [1, 3]);
    assert_eq!(jobs[1].job.priority, 5);
    let files = &jobs[0].files;
    assert_eq!(files.iter().map(|file| file.file).collect::<Vec<_>>(), [2, 3]);
    assert_eq!(
        (files[0].running, files[0].attempts, files[0].follow_up),
        (true, 1, FollowUp::default())
    );
    assert_eq!(
        (files[1].running, files[1].attempts, files[1].follow_up),
        (false, 1, FOLLOW_UP)
    );
    let mut older = Vec::new();
    store
        .restore(5, &mut |row| older.push(live(row).job.id.as_u128()))
        .unwrap();
    assert_eq!(older, [1]);
}

pub(crate) fn a_batch_is_all_or_nothing<K: Keeper>() {
    let keeper = K::new();
    let store = keeper.open();
    submit(&store, 1, 1, 1);
    let batch = [
        Change::Submit(Box::new(submission(2, 2, 1))),
        Change::Submit(Box::new(submission(1, 3, 1))),
    ];
    assert!(
        matches!(store.apply(&batch).unwrap_err().refusal(), Some(Conflict::Duplicate(id)) if *id == Uuid::from_u128(1))
    );
    assert!(
        store.job(Uuid::from_u128(2)).unwrap().is_none(),
        "half a batch was kept"
    );
}

macro_rules! store_suite {
    ($keeper:ty) => { crate::store::suite::store_suite!($keeper, true); }; ($keeper:ty, $wanted:expr) => {
        crate::store::suite::store_suite!(@tests $keeper, $wanted;
            a_submission_is_read_back, epochs_only_grow, a_job_follows_its_files, a_terminal_file_never_changes,
            a_failed_attempt_is_remembered, the_claim_of_a_file_is_read_back, bytes_of_all_attempts_add_up,
            a_storage_that_lies_about_bytes_harms_nobody, a_source_follows_whatever_the_parameters_hold, cancel_takes_only_what_is_live,
            a_stopping_file_stays_active_until_its_end, only_live_files_are_restored, a_batch_is_all_or_nothing, listings_are_filtered,
            overdue_transfers_are_found, settings_are_kept, an_old_job_is_answered_from_history, a_large_job_leaves_in_pieces,
            only_what_ended_leaves, a_token_goes_with_its_last_file, history_is_forgotten, a_large_job_is_forgotten_in_time,
            one_source_follows_another, hops_follow_each_other, a_file_goes_from_tape_to_tape, pins_are_kept_until_they_are_given_back,
            retries_at_a_tape_wait_for_the_same, an_issuers_answer_is_kept_as_long_as_its_token, only_tokens_that_wait_are_due,
            waiting_for_an_issuer_is_no_retry, secrets_are_kept_for_their_time, the_first_of_several_secrets_stays,
            a_secret_is_replaced_if_it_is_still_there,
            only_jobs_of_certificates_see_the_proxy, urls_keep_their_secrets_to_themselves, a_destination_has_one_writer,
            a_forced_file_is_forced_until_it_starts, a_forced_file_may_wait_too_long, only_what_waits_for_its_copy_is_forced);
    };
    (@tests $keeper:ty, $wanted:expr; $($test:ident),+) => {
        $(#[test] fn $test() { if $wanted { crate::store::suite::$test::<$keeper>(); } })+
    };
}
pub(crate) use store_suite;
