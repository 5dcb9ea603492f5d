//! Bodies of bounded memory.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, Empty, Full, StreamBody, combinators::UnsyncBoxBody};

use crate::BodyError;

/// The cause of a body that cannot be produced.
pub type Cause = Box<dyn std::error::Error + Send + Sync>;

/// The body of every request and response that Weir sends.
pub type Body = UnsyncBoxBody<Bytes, Cause>;

/// No bytes.
pub fn empty() -> Body {
    Empty::new().map_err(|never| match never {}).boxed_unsync()
}

/// All bytes at once.
pub fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

/// Bytes as they come. Without a `Content-Length` set by the caller they travel chunked.
pub fn stream<S>(stream: S) -> Body
where
    S: futures_util::Stream<Item = Result<Bytes, Cause>> + Send + 'static,
{
    use futures_util::TryStreamExt;
    StreamBody::new(stream.map_ok(http_body::Frame::data)).boxed_unsync()
}

/// Reads a whole body of at most `limit` bytes, all of which must come within `whole`. A client that sends it byte by byte holds a
/// connection that others could use.
pub async fn read_within<B>(body: B, limit: usize, whole: Duration) -> Result<Bytes, BodyError>
where
    B: http_body::Body<Data = Bytes>,
    B::Error: Into<Cause>,
{
    let read = tokio::time::timeout(whole, read_limited(body, limit, whole)).await;
    read.unwrap_or(Err(BodyError::Late(whole)))
}

/// Reads a whole body of at most `limit` bytes, each of whose pieces must come within `idle`: for senders that are
/// trusted to end their bodies.
pub async fn read_limited<B>(body: B, limit: usize, idle: Duration) -> Result<Bytes, BodyError>
where
    B: http_body::Body<Data = Bytes>,
    B::Error: Into<Cause>,
{
    let mut body = std::pin::pin!(body);
    let mut read = BytesMut::new();
    loop {
        let next = tokio::time::timeout(idle, body.frame())
            .await
            .map_err(|_| BodyError::Stalled(idle))?;
        let Some(frame) = next else { return Ok(read.freeze()) };
        let Ok(data) = frame.map_err(|source| BodyError::Broken(source.into()))?.into_data() else {
            continue;
        };
        if read.len() + data.len() > limit {
            return Err(BodyError::TooLarge { limit });
        }
        read.extend_from_slice(&data);
    }
}
