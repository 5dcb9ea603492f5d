//! Reading metadata at a storage: of one file, or of a directory.

use http::{HeaderName, HeaderValue, StatusCode, header};
use weir_http::body;
use weir_units::{Algorithm, Checksum, parse_digest_header};

use super::{PATIENCE, StorageDoor, StorageError, call::Call};
use crate::services::listing::{self, Entry};

const DEPTH: HeaderName = HeaderName::from_static("depth");
const WANT_DIGEST: HeaderName = HeaderName::from_static("want-digest");

/// Largest listing that is read: some 10,000 names.
const LISTING_MAX: usize = 16 * 1024 * 1024;

/// A storage's metadata of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Its size, where told.
    pub(crate) size: Option<u64>,
    /// Its Adler-32, where told.
    pub(crate) checksum: Option<Checksum>,
}

impl StorageDoor {
    /// Looks at a file, with its checksum where the storage tells it; `None` if there is none.
    pub(crate) async fn look(&self, path: &str) -> Result<Option<Seen>, StorageError> {
        match self.look_once(path, true).await {
            // A storage that cannot do the algorithm may refuse the request as a whole.
            Err(StorageError::Refused { status, .. }) if !matches!(status.as_u16(), 401 | 403) => {
                self.look_once(path, false).await
            }
            outcome => outcome,
        }
    }

    async fn look_once(&self, path: &str, digest: bool) -> Result<Option<Seen>, StorageError> {
        let mut call = Call::new("look at", "HEAD", path, self.token_to_write().await?);
        if digest {
            call = call.header(WANT_DIGEST, HeaderValue::from_static("adler32"));
        }
        let answer = match self.send(call).await {
            Err(StorageError::Refused {
                status: StatusCode::NOT_FOUND | StatusCode::GONE,
                ..
            }) => return Ok(None),
            outcome => outcome?,
        };
        let text = |name: &str| answer.headers().get(name).and_then(|value| value.to_str().ok());
        let checksums = text("digest").map(parse_digest_header).unwrap_or_default();
        Ok(Some(Seen {
            size: text(header::CONTENT_LENGTH.as_str()).and_then(|size| size.parse().ok()),
            checksum: checksums
                .into_iter()
                .find(|checksum| checksum.algorithm == Algorithm::Adler32),
        }))
    }

    /// Lists a directory: itself, and its direct members; `None` if there is none.
    pub(crate) async fn list(&self, path: &str) -> Result<Option<Vec<Entry>>, StorageError> {
        self.propfind(path, self.token_to_write().await?).await
    }

    /// The same with a token for this path, which need not be below the run's directory.
    pub(crate) async fn list_above(&self, path: &str) -> Result<Option<Vec<Entry>>, StorageError> {
        let token = self.token(&format!("storage.read:{}", self.scope_of(path))).await?;
        self.propfind(path, token).await
    }

    async fn propfind(&self, path: &str, token: weir_auth::Secret) -> Result<Option<Vec<Entry>>, StorageError> {
        let kind = HeaderValue::from_static("application/xml; charset=utf-8");
        let call = Call::new("list", "PROPFIND", path, token)
            .header(DEPTH, HeaderValue::from_static("1"))
            .header(header::CONTENT_TYPE, kind);
        let answer = match self.send_with(call, || body::full(listing::WANTED)).await {
            Err(StorageError::Refused {
                status: StatusCode::NOT_FOUND | StatusCode::GONE,
                ..
            }) => return Ok(None),
            outcome => outcome?,
        };
        let bytes = body::read_limited(answer.into_body(), LISTING_MAX, PATIENCE).await;
        let bytes = bytes.map_err(|error| self.broken("list", path, error.into()))?;
        let entries = listing::parse(&bytes).map_err(|error| self.broken("list", path, error.into()))?;
        Ok(Some(entries))
    }
}
