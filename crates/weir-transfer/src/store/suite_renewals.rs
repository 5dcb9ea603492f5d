//! The part of the suite about renewed tokens.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use weir_auth::Secret;
use weir_executor::orders::Orders as _;
use weir_executor::{
    job::hash_of,
    orders::{Expiring, Renewal, Turn},
};
use weir_world::Party;

use super::{
    Change, Store,
    suite::{Keeper, again, begin, end, submission},
};
use weir_executor::job::{FileResult, FileState, TokenHash};

fn token(job: u128) -> TokenHash {
    hash_of(&format!("token-of-{job}"))
}

fn submit(store: &impl Store, job: u128, first: u64, n: u64, expires: i64) {
    let mut submission = submission(job, first, n);
    let due = expires - 100;
    submission.expiring.insert(token(job), Expiring { expires, due });
    store.apply(&[Change::Submit(Box::new(submission))]).unwrap();
}

fn renewal(access: &str, refresh: &str) -> Renewal {
    Renewal {
        access: Some(Secret::new(access)),
        expires: 9000,
        good_until: 8000,
        refresh: Some(Secret::new(refresh)),
    }
}

fn read(store: &impl Store, job: u128) -> Option<(String, i64, String)> {
    let renewal = store.renewal(token(job)).unwrap()?;
    let text = |secret: Option<Secret>| secret.unwrap().expose().to_owned();
    Some((text(renewal.access), renewal.good_until, text(renewal.refresh)))
}

/// A restart would ask the issuer again, with a refresh token that it took back; or the secrets of jobs long gone would pile up.
pub(crate) fn an_issuers_answer_is_kept_as_long_as_its_token<K: Keeper>() {
    let keeper = K::new();
    {
        let store = keeper.open();
        submit(&store, 1, 1, 1, 5000);
        super::suite::submit(&store, 2, 2, 1);
        assert!(read(&store, 1).is_none() && read(&store, 2).is_none());
        let outcomes = [
            (token(1), Some(renewal("a1", "r1"))),
            (token(2), Some(renewal("b1", "s1"))),
        ];
        store.renewed(&outcomes).unwrap();
        store
            .renewed(&[(token(1), Some(renewal("a2", "r2"))), (token(2), None)])
            .unwrap();
        store.renewed(&[(token(3), Some(renewal("of nobody", "x")))]).unwrap();
    }
    let store = keeper.open();
    assert_eq!(read(&store, 1), Some(("a2".into(), 8000, "r2".into())));
    assert_eq!(
        read(&store, 2),
        Some(("b1".into(), 8000, "s1".into())),
        "nothing new keeps what was there"
    );
    assert_eq!(read(&store, 3), None);
    assert!(matches!(
        store.claim_renewal(token(1), 10).unwrap(),
        Turn::Ours(Some(_))
    ));
    store.apply(&[begin(1, 1), end(1, FileState::Finished)]).unwrap();
    store.archive(i64::MAX, 10).unwrap();
    assert_eq!(read(&store, 1), None);
    submit(&store, 4, 3, 1, 5000);
    assert_eq!(read(&store, 4), None, "a new token has nothing of an old one");
}

/// The issuer would be asked for every token there ever was, or a waiting one would expire.
pub(crate) fn only_tokens_that_wait_are_due<K: Keeper>() {
    let keeper = K::new();
    let store = keeper.open();
    submit(&store, 1, 1, 2, 6000);
    submit(&store, 2, 3, 1, 5000);
    submit(&store, 3, 4, 1, 7000);
    super::suite::submit(&store, 4, 5, 1);
    let due = |now| {
        let due = store.due_renewals(now, 0, 10).unwrap();
        due.into_iter()
            .map(|due| (due.token.unwrap().expose().to_owned(), due.needed))
            .collect::<Vec<_>>()
    };
    let named = |jobs: &[(u32, bool)]| {
        let name = |(job, needed): &(u32, bool)| (format!("token-of-{job}"), *needed);
        jobs.iter().map(name).collect::<Vec<_>>()
    };
    assert_eq!(due(4899), named(&[]));
    assert_eq!(
        due(5900),
        named(&[(2, true), (1, true)]),
        "what expires first comes first"
    );
    assert_eq!(store.due_renewals(5900, 1, 10).unwrap()[0].hash, token(1));
    assert_eq!(store.due_renewals(5900, 0, 1).unwrap()[0].hash, token(2));
    store
        .apply(&[
            begin(3, 1),
            end(3, FileState::Finished),
            begin(1, 1),
            end(1, FileState::Finished),
        ])
        .unwrap();
    assert_eq!(due(5900), named(&[(2, false), (1, true)]));
    store
        .renewed(&[(token(2), None), (token(1), Some(renewal("a", "r")))])
        .unwrap();
    assert_eq!(due(9000), named(&[(3, true)]));
    // The same tokens with further jobs: one waits again, the other needs not.
    for (job, first, of) in [(5, 6, 1), (6, 7, 2)] {
        let mut more = submission(of, first, 1);
        more.job.id = uuid::Uuid::from_u128(job);
        more.expiring.insert(
            token(of),
            Expiring {
                expires: 5000,
                due: 4900,
            },
        );
        store.apply(&[Change::Submit(Box::new(more))]).unwrap();
    }
    assert_eq!(due(9000), named(&[(2, true), (3, true)]));
}

/// An issuer that is away for a night would fill the database with rows that say so.
pub(crate) fn waiting_for_an_issuer_is_no_retry<K: Keeper>() {
    let keeper = K::new();
    let store = keeper.open();
    super::suite::submit(&store, 1, 1, 2);
    let result = |party: Party| FileResult {
        party: Some(party),
        reason: Some(format!("because of the {party}")),
        ..FileResult::default()
    };
    for (file, party) in [(1, Party::Issuer), (2, Party::Source)] {
        store.apply(&[begin(file, 1), again(file, result(party))]).unwrap();
    }
    assert_eq!(
        (store.retries(1).unwrap().len(), store.retries(2).unwrap().len()),
        (0, 1)
    );
    let reason = store.file(1).unwrap().unwrap().result.reason;
    assert_eq!(
        reason.as_deref(),
        Some("because of the issuer"),
        "and it is told why it waits"
    );
}
