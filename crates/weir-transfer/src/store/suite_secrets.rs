//! The part of the suite that is about secrets that are left with the service for a while.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use weir_auth::Secret;
use weir_executor::orders::Orders as _;
use weir_executor::orders::{Kept, proxy_name};

use super::{
    Change, Store,
    suite::{Keeper, submission},
};

fn kept(name: &str, secret: &str, until: i64) -> Kept {
    Kept {
        name: name.to_owned(),
        secret: Secret::new(secret),
        until,
    }
}

fn read(store: &impl Store, name: &str) -> Option<(String, i64)> {
    let kept = store.kept(name).unwrap()?;
    assert_eq!(kept.name, name);
    Some((kept.secret.expose().to_owned(), kept.until))
}

/// A delegated proxy would be lost with the process, or stay for ever.
pub(crate) fn secrets_are_kept_for_their_time<K: Keeper>() {
    let keeper = K::new();
    {
        let store = keeper.open();
        store.keep(&kept("proxy/a", "first", 100), 50).unwrap();
        store.keep(&kept("proxy/a", "second", 200), 60).unwrap();
        store.keep(&kept("proxy/b", "third", 90), 60).unwrap();
        assert_eq!(read(&store, "proxy/c"), None);
    }
    let store = keeper.open();
    assert_eq!(read(&store, "proxy/a"), Some(("second".into(), 200)));
    assert_eq!(read(&store, "proxy/b"), Some(("third".into(), 90)));
    store.keep(&kept("proxy/d", "fourth", 300), 90).unwrap();
    assert_eq!(read(&store, "proxy/b"), None);
    assert!(store.discard("proxy/a").unwrap());
    assert!(!store.discard("proxy/a").unwrap());
    assert_eq!(read(&store, "proxy/a"), None);
}

/// Two nodes would make a key each, and a client's proxy fit only one of them.
pub(crate) fn the_first_of_several_secrets_stays<K: Keeper>() {
    let keeper = K::new();
    let store = keeper.open();
    let first = |kept: &Kept, fresh| store.keep_first(kept, 0, fresh).unwrap().secret.expose().to_owned();
    assert_eq!(first(&kept("request", "one", 100), 50), "one");
    assert_eq!(first(&kept("request", "two", 110), 60), "one");
    assert_eq!(read(&store, "request"), Some(("one".into(), 100)));
    // Too old to be shared.
    assert_eq!(first(&kept("request", "three", 160), 100), "three");
    assert_eq!(read(&store, "request"), Some(("three".into(), 160)));
    store.keep(&kept("request", "four", 120), 0).unwrap();
    assert_eq!(read(&store, "request"), Some(("four".into(), 120)));
}

/// A proxy that its user took back would come back, or an older one take the place of a newer one.
pub(crate) fn a_secret_is_replaced_if_it_is_still_there<K: Keeper>() {
    let keeper = K::new();
    {
        let store = keeper.open();
        let (first, second) = (kept("proxy/a", "first", 100), kept("proxy/a", "second", 90));
        assert!(!store.replace(&first, &second).unwrap());
        assert_eq!(read(&store, "proxy/a"), None);
        store.keep(&first, 50).unwrap();
        assert!(store.replace(&first, &second).unwrap());
        assert!(!store.replace(&first, &kept("proxy/a", "third", 110)).unwrap());
    }
    let store = keeper.open();
    assert_eq!(read(&store, "proxy/a"), Some(("second".into(), 90)));
}

/// A transfer would run under the name of another user, or of none.
pub(crate) fn only_jobs_of_certificates_see_the_proxy<K: Keeper>() {
    let keeper = K::new();
    let store = keeper.open();
    let by_token = submission(1, 1, 1);
    let mut by_certificate = submission(3, 2, 2);
    by_certificate.job.params.certificate = true;
    by_certificate.files[0].source_token = None;
    by_certificate.files[0].destination_token = None;
    assert_eq!(by_token.job.cred_id, by_certificate.job.cred_id);
    let name = proxy_name(&by_token.job.owner());
    store.keep(&kept(&name, "the proxy", 100), 50).unwrap();
    for job in [by_token, by_certificate] {
        store.apply(&[Change::Submit(Box::new(job))]).unwrap();
    }
    let proxy = |file| store.order(file).unwrap().unwrap().proxy;
    assert!(proxy(1).is_none());
    let found = proxy(2).unwrap();
    assert_eq!((found.secret.expose(), found.until), ("the proxy", 100));
    assert!(proxy(3).is_none(), "this file brings its tokens");
    // Another user, or the same name in another VO, whose delegation id is the same.
    for (id, change) in [(5, "vo"), (7, "name")] {
        let mut other = submission(id, id as u64, 1);
        other.job.params.certificate = true;
        other.files[0].source_token = None;
        match change {
            "vo" => other.job.vo.push('2'),
            _ => other.job.user_dn.push('2'),
        }
        store.apply(&[Change::Submit(Box::new(other))]).unwrap();
        assert!(proxy(id as u64).is_none(), "{change}");
    }
    store.discard(&name).unwrap();
    assert!(proxy(2).is_none());
}
