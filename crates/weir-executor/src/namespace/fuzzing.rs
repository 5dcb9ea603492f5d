//! Fuzz targets for storages' answers to PROPFIND.

use bytes::Bytes;
use futures_util::FutureExt as _;
use http_body::Frame;
use http_body_util::StreamBody;

use super::{
    listing::listing,
    multistatus::{Entry, Unread, read},
};

/// Entries that are taken.
const MOST: usize = 100;

fn read_in(text: &[u8], piece: usize) -> Result<Vec<Entry>, Unread> {
    let pieces = text.chunks(piece);
    let frames = pieces.map(|piece| Ok::<_, std::io::Error>(Frame::data(Bytes::copy_from_slice(piece))));
    let body = StreamBody::new(futures_util::stream::iter(frames.collect::<Vec<_>>()));
    let read = read(body, MOST).now_or_never();
    read.expect("all of it is there")
}

/// A multistatus: pieces of any size must say the same, and no name may lead out of the directory.
pub(crate) fn fuzz(data: &[u8]) {
    let whole = read_in(data, data.len().max(1));
    let pieces = read_in(data, 1);
    assert_eq!(whole.is_ok(), pieces.is_ok(), "{whole:?} {pieces:?}");
    let Ok(entries) = whole else { return };
    assert_eq!(Ok(&entries), pieces.as_ref());
    assert!(entries.len() <= MOST);
    let names = entries.iter().map(|entry| entry.name.clone()).collect::<Vec<_>>();
    for name in names {
        for inside in listing(entries.clone(), name.as_deref()).into_iter().flatten() {
            assert!(!inside.0.contains('/') && !inside.0.is_empty() && inside.0 != "..");
        }
    }
}
