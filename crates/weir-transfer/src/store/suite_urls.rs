//! The part of the suite about sealed queries of URLs.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use super::{
    Change, Store,
    suite::{Keeper, begin, end, submission},
};
use crate::testing::surl;
use weir_executor::job::FileState;
use weir_executor::orders::Orders as _;

const SOURCE: &str = "https://a/f1?X-Amz-Signature=needle-of-the-source#x";
const DESTINATION: &str = "https://b/f1?authz=needle-of-the-destination";

/// A signed URL would be in every backup and every answer, or its transfer go out without its signature.
pub(crate) fn urls_keep_their_secrets_to_themselves<K: Keeper>() {
    let keeper = K::new();
    {
        let store = keeper.open();
        let mut job = submission(1, 1, 3);
        job.files[1].set_urls(&surl(SOURCE), &surl(DESTINATION));
        store.apply(&[Change::Submit(Box::new(job)), begin(2, 1)]).unwrap();
    }
    let store = keeper.open();
    let mut files = store.files(uuid::Uuid::from_u128(1)).unwrap();
    let seen = format!("{files:?} {:?} {:?}", store.file(2).unwrap(), store.pins().unwrap());
    assert!(seen.contains("https://a/f1?***") && !seen.contains("needle"), "{seen}");

    store.reveal(&mut files).unwrap();
    let urls = files
        .iter()
        .map(|file| (file.spec.source_url(), file.spec.destination_url()));
    let urls = urls.collect::<Vec<_>>();
    let urls = |at: usize| (urls[at].0.as_str(), urls[at].1.as_str());
    assert_eq!(urls(0), ("https://a/f0", "https://b/f0"));
    assert_eq!(urls(1), (SOURCE, DESTINATION));
    assert!(files[2].spec.secrets.is_none());
    let order = store.order(2).unwrap().unwrap();
    assert_eq!(order.file.spec.source_url().as_str(), SOURCE);
    assert_eq!(order.file.spec.destination_url().as_str(), DESTINATION);
    assert!(!format!("{order:?}").contains("needle"));

    store
        .apply(&[1, 2, 3].map(|file| end(file, FileState::Finished)))
        .unwrap();
    while store.archive(4000, 100).unwrap() > 0 {}
    let mut files = store.files(uuid::Uuid::from_u128(1)).unwrap();
    store.reveal(&mut files).unwrap();
    assert_eq!(files[1].spec.source_url().as_str(), "https://a/f1?***");
}
