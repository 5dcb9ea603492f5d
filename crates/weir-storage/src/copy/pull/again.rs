//! Going on with a stream that broke, where it broke, if the file is still the same.

use std::{ops::Range, time::Duration};

use http::{HeaderMap, HeaderValue, Request, StatusCode, header};
use weir_http::Body;
use weir_units::Algorithm;
use weir_world::{ErrorClass, Party, Phase};

use crate::copy::{CopyFailure, Remote, remote::Answer};

/// Pauses before the first, second, and every later try.
const PAUSES: [Duration; 3] = [
    Duration::from_millis(200),
    Duration::from_secs(1),
    Duration::from_secs(5),
];

/// So much progress and a stream has all its tries again: a way that breaks once in a while is no broken way.
const PROGRESS: u64 = 16 << 20;

/// A value that differs between versions of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::copy) enum Version {
    /// A strong validator (RFC 9110 section 8.8.3).
    Tag(HeaderValue),
    /// When it was changed, to the second.
    Date(HeaderValue),
}

impl Version {
    /// The best that an answer gives.
    pub(in crate::copy) fn of(headers: &HeaderMap) -> Option<Self> {
        let strong = |tag: &&HeaderValue| tag.as_bytes().starts_with(b"\"");
        if let Some(tag) = headers.get(header::ETAG).filter(strong) {
            return Some(Self::Tag(tag.clone()));
        }
        headers.get(header::LAST_MODIFIED).cloned().map(Self::Date)
    }

    /// Asks for this version, or none.
    pub(in crate::copy) fn demand(&self, request: &mut Request<Body>) {
        let (name, value) = match self {
            Self::Tag(tag) => (header::IF_MATCH, tag),
            // Of another version the whole would come, 200.
            Self::Date(date) => (header::IF_RANGE, date),
        };
        request.headers_mut().insert(name, value.clone());
    }
}

/// A file at a source that can be read in parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::copy) struct File {
    pub(in crate::copy) size: u64,
    /// None if the source does not tell: then a checksum must.
    pub(in crate::copy) version: Option<Version>,
}

impl File {
    /// Requests a part. `None` if the source does not send exactly that part of this file.
    pub(super) async fn part(
        &self,
        source: &Remote,
        part: &Range<u64>,
        wanted: &[Algorithm],
    ) -> Result<Option<Answer>, CopyFailure> {
        let answer = source.get_part(part, self.version.as_ref(), wanted).await?;
        Ok(self.is_part(&answer, part).then_some(answer))
    }

    fn is_part(&self, answer: &Answer, part: &Range<u64>) -> bool {
        let headers = answer.response.headers();
        let given = headers.get(header::CONTENT_RANGE).and_then(|value| value.to_str().ok());
        let due = format!("bytes {}-{}/{}", part.start, part.end - 1, self.size);
        // A part that does not say of which version it is may be of another one.
        let same = self.version.is_none() || Version::of(headers) == self.version;
        let encoded = headers
            .get(header::CONTENT_ENCODING)
            .is_some_and(|encoding| encoding != "identity");
        answer.response.status() == StatusCode::PARTIAL_CONTENT
            && given.is_some_and(|given| given.trim() == due)
            && same
            && !encoded
    }
}

/// The tries of one stream.
pub(super) struct Tries<'a> {
    source: &'a Remote,
    file: File,
    end: u64,
    /// Where the last break was.
    broke_at: u64,
    used: u32,
}

impl<'a> Tries<'a> {
    /// For a stream that ends before `end`.
    pub(super) fn new(source: &'a Remote, file: File, end: u64) -> Self {
        Self {
            source,
            file,
            end,
            broke_at: 0,
            used: 0,
        }
    }

    /// Takes up a stream that broke by this failure, at `at`.
    ///
    /// # Errors
    /// The failure, after the last try; or that the file is not the same any more.
    pub(super) async fn again(&mut self, at: u64, mut failure: CopyFailure) -> Result<Answer, CopyFailure> {
        if at >= self.broke_at.saturating_add(PROGRESS) {
            self.used = 0;
        }
        self.broke_at = at;
        while self.used < self.source.tpc.stream_retries {
            let pause = PAUSES[(self.used as usize).min(PAUSES.len() - 1)];
            self.used += 1;
            tokio::time::sleep(pause).await;
            match self.file.part(self.source, &(at..self.end), &[]).await {
                Ok(Some(answer)) => return Ok(answer),
                Ok(None) => return Err(changed(self.source)),
                // A condition that does not hold.
                Err(again) if again.class == ErrorClass::Exists => return Err(changed(self.source)),
                Err(again) if may_pass(again.class) => failure = again,
                Err(again) => return Err(again),
            }
        }
        Err(failure)
    }
}

/// Whether it may go by itself.
fn may_pass(class: ErrorClass) -> bool {
    matches!(
        class,
        ErrorClass::Network | ErrorClass::Tls | ErrorClass::Timeout | ErrorClass::Stall | ErrorClass::Overload
    )
}

fn changed(source: &Remote) -> CopyFailure {
    let text = format!("GET {}: the file changed while it was being read", source.shown());
    CopyFailure::new(ErrorClass::Protocol, Party::Source, Phase::Transfer, text)
}
