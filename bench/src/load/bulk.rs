//! Large files.

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
    time::Instant,
};

use anyhow::Result;
use bytes::Bytes;
use http::header;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt as _;

use super::{Door, Tally};

/// The size of the pieces of an upload.
const PIECE: usize = 1 << 20;

pub(super) async fn get(door: &Door, tally: &Tally, urls: &[String], size: u64) {
    let each = urls.iter().map(|url| async move {
        let since = Instant::now();
        tally.count(since, door.fetch(url, size).await);
    });
    futures_util::future::join_all(each).await;
}

pub(super) async fn put(door: &Door, tally: &Tally, urls: &[String], size: u64) {
    let block = block(PIECE);
    let tasks = urls.iter().map(|url| {
        let (door, tally, url, block) = (door.clone(), tally.clone(), url.clone(), block.clone());
        tokio::spawn(async move {
            let since = Instant::now();
            tally.count(since, upload(&door, &url, block, size).await);
        })
    });
    futures_util::future::join_all(tasks.collect::<Vec<_>>()).await;
}

/// Sends a file of so many bytes, a block repeated; gives its size.
pub(super) async fn upload(door: &Door, url: &str, block: Bytes, size: u64) -> Result<u64> {
    let request = door.request("PUT", url).header(header::CONTENT_LENGTH, size);
    let body = Repeated { block, left: size };
    door.send(request.body(body.map_err(|never: Infallible| match never {}).boxed_unsync())?)
        .await?;
    Ok(size)
}

/// Bytes that no server could compress, if any did.
pub(super) fn block(size: usize) -> Bytes {
    Bytes::from(weir_tests::Draw::new(7).bytes(size))
}

/// A body from memory.
struct Repeated {
    block: Bytes,
    left: u64,
}

impl Body for Repeated {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        let length = usize::try_from(self.left).unwrap_or(usize::MAX).min(self.block.len());
        self.left -= length as u64;
        Poll::Ready(Some(Ok(Frame::data(self.block.slice(..length)))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}
