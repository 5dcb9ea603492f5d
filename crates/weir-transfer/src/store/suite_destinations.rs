//! The part of the suite that is about destinations with one writer.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use super::{
    Change, Conflict, Store, Submission,
    suite::{Keeper, end, submission},
};
use crate::testing::surl;
use weir_executor::job::{FileState, SEVERAL_HOPS, SEVERAL_SOURCES};

/// A job of `n` files to the same destinations as every other.
fn job(number: u128, first: u64, n: u64) -> Submission {
    Submission {
        one_writer: true,
        ..submission(number, first, n)
    }
}

fn take(store: &impl Store, job: Submission) -> Result<(), String> {
    match store.apply(&[Change::Submit(Box::new(job))]) {
        Ok(()) => Ok(()),
        Err(error) => match error.refusal() {
            Some(Conflict::Taken(url)) => Err(url.clone()),
            _ => panic!("{error:?}"),
        },
    }
}

/// Two transfers would write to one file, and the later one find it there.
pub(crate) fn a_destination_has_one_writer<K: Keeper>() {
    let keeper = K::new();
    let taken = Err("https://b/f1".to_owned());
    {
        let store = keeper.open();
        take(&store, job(1, 1, 2)).unwrap();
        let mut second = job(2, 3, 2);
        second.files[0].set_urls(&surl("https://a/x"), &surl("https://b/x"));
        assert_eq!(take(&store, second.clone()), taken);
        // The submission leaves no row, and a VO without the check is not checked.
        assert!(store.job(second.job.id).unwrap().is_none());
        second.one_writer = false;
        take(&store, second).unwrap();
    }
    let store = keeper.open();
    let mut replicas = job(3, 5, 2);
    replicas.job.kind = SEVERAL_SOURCES;
    take(&store, replicas).unwrap();

    // The end of a file frees its destination, whatever the state of its job.
    store.apply(&[end(2, FileState::Failed)]).unwrap();
    let mut third = job(4, 7, 2);
    third.files[0].set_urls(&surl("https://a/y"), &surl("https://b/y"));
    take(&store, third).unwrap();
    let mut fourth = job(5, 9, 1);
    fourth.files[0].set_urls(&surl("https://a/y"), &surl("https://b/f1"));
    assert_eq!(take(&store, fourth), taken);

    // A hop that never came to its turn ends with its job.
    let mut hops = job(6, 11, 2);
    hops.job.kind = SEVERAL_HOPS;
    hops.live = Some(11);
    hops.files[0].set_urls(&surl("https://a/1"), &surl("https://b/1"));
    hops.files[1].set_urls(&surl("https://b/1"), &surl("https://b/2"));
    take(&store, hops).unwrap();
    let last = |number, first| {
        let mut one = job(number, first, 1);
        one.files[0].set_urls(&surl("https://a/z"), &surl("https://b/2"));
        one
    };
    assert_eq!(take(&store, last(7, 13)), Err("https://b/2".to_owned()));
    store.apply(&[end(11, FileState::Failed)]).unwrap();
    take(&store, last(8, 14)).unwrap();

    // Of one job, and of one batch.
    let mut twice = job(9, 15, 2);
    for file in &mut twice.files {
        file.set_urls(&surl("https://a/w"), &surl("https://b/w?authz=needle"));
    }
    assert_eq!(take(&store, twice), Err("https://b/w?***".to_owned()));
    let batch = [job(10, 17, 1), job(11, 18, 1)].map(|mut job| {
        job.files[0].set_urls(&surl("https://a/v"), &surl("https://b/v"));
        Change::Submit(Box::new(job))
    });
    assert!(matches!(
        store.apply(&batch).unwrap_err().refusal(),
        Some(Conflict::Taken(_))
    ));
    store.apply(&batch[..1]).unwrap();
}
