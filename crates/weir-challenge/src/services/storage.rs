//! The storage door of one RSE, as a client sees it: upload a source file, delete, read back, ask for counters.
//!
//! Every call carries a token of least privilege: read for reading, modify for the rest, and only below the run's own
//! directory.

mod call;
mod looks;
mod sending;
mod sums;

pub(crate) use sums::{SenderTimes, StorageSums, TcpSums};

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::TryStreamExt;
use http::{Request, StatusCode, header};
use http_body_util::BodyExt;
use weir_auth::Secret;
use weir_auth::client::{TokenError, TokenSource};
use weir_http::{Client, body};
use weir_units::{Checksums, Hasher};
use weir_world::ErrorClass;

use call::Call;

use crate::prepare::content::{ALGORITHMS, Content, ContentChecksums};
use call::PATIENCE;

/// Slowest upload or read-back that is waited for: 256 kB/s, on top of [`PATIENCE`].
const SLOWEST_BYTES_PER_SEC: u64 = 256 * 1024;

/// Largest text read from an answer: enough for any error, and for the counters of thousands of peers.
const TEXT_MAX: usize = 4 * 1024 * 1024;

/// The storage door of one RSE.
#[derive(Debug, Clone)]
pub(crate) struct StorageDoor {
    /// The RSE.
    pub(crate) name: String,
    /// Its base: `scheme://host:port/area`, without a slash at the end.
    pub(crate) url: String,
    /// Audience of tokens for it.
    pub(crate) audience: String,
    /// The path of its base below the one at which the scopes of tokens begin there; empty if they begin at its base.
    pub(crate) scope_prefix: String,
    /// Whether it belongs to the embedded grid, so that its counters can be read.
    pub(crate) embedded: bool,
    /// Most bytes that it holds, where known.
    pub(crate) quota: Option<u64>,
    /// Directory of the run below the base, `/weir/<run>`.
    pub(crate) directory: String,
    /// Where tokens come from.
    pub(crate) tokens: TokenSource,
    /// The client, with its trusted authorities.
    pub(crate) client: Client,
    /// Whether it was seen to tell no Adler-32 of its files: copies to it are verified by size alone.
    pub(crate) without_checksums: Arc<AtomicBool>,
}

/// The error of a storage door.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StorageError {
    /// There is no token for it.
    #[error("no token for {rse}")]
    Token {
        /// The RSE.
        rse: String,
        /// The error.
        #[source]
        source: TokenError,
    },
    /// It could not be asked.
    #[error("could not {operation} {path} at {rse}")]
    Exchange {
        /// The operation.
        operation: &'static str,
        /// Path below the base.
        path: String,
        /// The RSE.
        rse: String,
        /// The error.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// It says no.
    #[error("could not {operation} {path} at {rse}: {status} {message}")]
    Refused {
        /// The operation.
        operation: &'static str,
        /// Path below the base.
        path: String,
        /// The RSE.
        rse: String,
        /// Its status.
        status: StatusCode,
        /// Its first line, secrets removed.
        message: String,
    },
}

impl StorageError {
    /// The class of transfers that this keeps from being submitted.
    pub(crate) fn class(&self) -> ErrorClass {
        match self {
            Self::Token { .. } => ErrorClass::Token,
            Self::Exchange { source, .. } => {
                ErrorClass::of_text(&weir_auth::error_chain(&**source)).unwrap_or(ErrorClass::Network)
            }
            Self::Refused { status, message, .. } => ErrorClass::of_status(status.as_u16(), message),
        }
    }
}

/// Bytes of transfers that a storage counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counters {
    /// Bytes received in transfers that completed.
    pub(crate) received: u64,
    /// Bytes sent in such.
    pub(crate) sent: u64,
    /// Bytes received in transfers that broke off.
    pub(crate) broken_received: u64,
    /// Bytes sent in such.
    pub(crate) broken_sent: u64,
    /// All bytes that TCP carried, where the storage reports them.
    pub(crate) carried: Option<Carried>,
    /// Bytes of files that are there.
    pub(crate) there: u64,
    /// Begin of the storage's process in ms since 1970: its counters began at zero then.
    pub(crate) started_ms: u64,
}

/// Bytes that TCP carried on all connections of a storage, by the kernel's account.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Carried {
    /// Received in order.
    pub(crate) received: u64,
    /// Sent, and acknowledged by the other side.
    pub(crate) acknowledged: u64,
}

impl Counters {
    /// Returns the counts since an earlier reading.
    pub(crate) fn since(&self, before: &Self) -> Self {
        Self {
            received: self.received.saturating_sub(before.received),
            sent: self.sent.saturating_sub(before.sent),
            broken_received: self.broken_received.saturating_sub(before.broken_received),
            broken_sent: self.broken_sent.saturating_sub(before.broken_sent),
            there: self.there,
            started_ms: self.started_ms,
            carried: self.carried.zip(before.carried).map(|(now, before)| Carried {
                received: now.received.saturating_sub(before.received),
                acknowledged: now.acknowledged.saturating_sub(before.acknowledged),
            }),
        }
    }
}

impl StorageDoor {
    /// Returns the URL of a path below the base; the path starts with a slash.
    pub(crate) fn url_of(&self, path: &str) -> String {
        format!("{}{path}", self.url)
    }

    /// Whether it was seen to tell no Adler-32 of its files.
    pub(crate) fn is_without_checksums(&self) -> bool {
        self.without_checksums.load(Ordering::Relaxed)
    }

    /// Returns `scheme://host:port`.
    pub(crate) fn origin(&self) -> &str {
        let host = self.url.find("://").map_or(0, |end| end + 3);
        self.url[host..]
            .find('/')
            .map_or(&self.url, |slash| &self.url[..host + slash])
    }

    /// Returns the door for a path: one whose tokens reach it. Paths of files in a catalogue begin with its scope.
    pub(crate) fn of_path(&self, path: &str) -> Self {
        let own = path.strip_prefix(&self.directory);
        let mut door = self.clone();
        if !own.is_some_and(|rest| rest.starts_with('/')) {
            let end = path.match_indices('/').nth(1).map_or(path.len(), |(end, _)| end);
            path[..end].clone_into(&mut door.directory);
        }
        door
    }

    /// Returns a token that may only read below the run's directory.
    pub(crate) async fn token_to_read(&self) -> Result<Secret, StorageError> {
        self.token(&format!("storage.read:{}", self.scope_of(&self.directory)))
            .await
    }

    /// Returns a token for a destination: it may write below the run's directory, and read files there.
    pub(crate) async fn token_to_write(&self) -> Result<Secret, StorageError> {
        let path = self.scope_of(&self.directory);
        self.token(&format!("storage.modify:{path} storage.read:{path}")).await
    }

    /// Returns a token for the file at this URL alone: to read it, or to write it and read it back. The transfer service may exchange it
    /// for a later one.
    pub(crate) async fn token_of_file(&self, url: &str, writes: bool) -> Result<Secret, StorageError> {
        let path = self.scope_of(url.strip_prefix(&self.url).unwrap_or(&self.directory));
        let modify = if writes {
            format!("storage.modify:{path} ")
        } else {
            String::new()
        };
        self.token(&format!("{modify}storage.read:{path} offline_access")).await
    }

    /// A path below the base, as scopes of tokens name it.
    fn scope_of(&self, path: &str) -> String {
        format!("{}{path}", self.scope_prefix)
    }

    async fn token(&self, scopes: &str) -> Result<Secret, StorageError> {
        let token = self.tokens.token(scopes, &self.audience).await;
        token.map_err(|source| StorageError::Token {
            rse: self.name.clone(),
            source,
        })
    }

    /// Uploads a source file and returns its checksums. Directories are made if the storage does not make them itself.
    pub(crate) async fn upload(
        &self,
        path: &str,
        seed: u64,
        number: u64,
        size: u64,
    ) -> Result<Checksums, StorageError> {
        match self.upload_once(path, seed, number, size).await {
            Err(StorageError::Refused {
                status: StatusCode::NOT_FOUND | StatusCode::CONFLICT,
                ..
            }) => {
                self.make_directories(path).await?;
                self.upload_once(path, seed, number, size).await
            }
            outcome => outcome,
        }
    }

    async fn upload_once(&self, path: &str, seed: u64, number: u64, size: u64) -> Result<Checksums, StorageError> {
        let mut checksums = ContentChecksums::default();
        let call = Call {
            limit: PATIENCE + Duration::from_secs(size / SLOWEST_BYTES_PER_SEC),
            ..Call::new("write", "PUT", path, self.token_to_write().await?)
        };
        let call = call.header(header::CONTENT_LENGTH, size.into());
        let content = || {
            let content = Content::new(seed, number, size);
            checksums = content.checksums();
            body::stream(content.map_err(|never| match never {}))
        };
        self.send_with(call, content).await?;
        checksums.get().ok_or_else(|| {
            let source = "the storage said yes before it had the whole file".into();
            StorageError::Exchange {
                operation: "write",
                path: path.to_owned(),
                rse: self.name.clone(),
                source,
            }
        })
    }

    /// Makes the directories above a path; existing ones are no error.
    async fn make_directories(&self, path: &str) -> Result<(), StorageError> {
        for (end, _) in path.match_indices('/').filter(|(end, _)| *end > 0) {
            let directory = &path[..end];
            match self.plain("make", "MKCOL", directory).await {
                Ok(()) => {}
                Err(StorageError::Refused { status, .. })
                    if matches!(status.as_u16(), 403 | 405 | 409) || status == StatusCode::CREATED => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Deletes a file or directory; returns whether it was there.
    pub(crate) async fn delete(&self, path: &str) -> Result<bool, StorageError> {
        match self.plain("delete", "DELETE", path).await {
            Ok(()) => Ok(true),
            Err(StorageError::Refused {
                status: StatusCode::NOT_FOUND | StatusCode::GONE,
                ..
            }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Deletes a directory; returns whether it was there. nginx knows collections by the slash at the end of their URL alone, and answers 409
    /// without it.
    pub(crate) async fn delete_directory(&self, path: &str) -> Result<bool, StorageError> {
        match self.delete(path).await {
            Err(StorageError::Refused {
                status: StatusCode::CONFLICT,
                ..
            }) => self.delete(&format!("{path}/")).await,
            outcome => outcome,
        }
    }

    /// Reads a file back; returns its size and checksums.
    pub(crate) async fn read_back(&self, path: &str) -> Result<(u64, Checksums), StorageError> {
        self.read_telling(path, || {}).await
    }

    /// The same; `data` is called whenever some of its bytes have come.
    pub(crate) async fn read_telling(
        &self,
        path: &str,
        mut data: impl FnMut(),
    ) -> Result<(u64, Checksums), StorageError> {
        let response = self
            .send(Call::new("read", "GET", path, self.token_to_read().await?))
            .await?;
        let mut body = response.into_body();
        let mut hasher = Hasher::new(&ALGORITHMS);
        let mut size = 0;
        loop {
            let frame = tokio::time::timeout(PATIENCE, body.frame()).await;
            let frame = frame.map_err(|_| self.broken("read", path, "no data for 30 s".into()))?;
            let Some(frame) = frame else {
                return Ok((size, hasher.finish()));
            };
            let frame = frame.map_err(|error| self.broken("read", path, error.into()))?;
            if let Ok(bytes) = frame.into_data() {
                data();
                size += bytes.len() as u64;
                hasher.update(&bytes);
            }
        }
    }

    /// Reads the counters of an embedded storage.
    pub(crate) async fn counters(&self) -> Result<Counters, StorageError> {
        let text = self.metrics().await?;
        Ok(Counters {
            received: sum_of(&text, "weir_storage_received_bytes_total", Ended::Completed),
            sent: sum_of(&text, "weir_storage_sent_bytes_total", Ended::Completed),
            broken_received: sum_of(&text, "weir_storage_received_bytes_total", Ended::Broken),
            broken_sent: sum_of(&text, "weir_storage_sent_bytes_total", Ended::Broken),
            there: used_of(&text),
            started_ms: start_of(&text),
            carried: text
                .contains("weir_storage_tcp_acknowledged_bytes_total{")
                .then(|| Carried {
                    received: sum_of(&text, "weir_storage_tcp_received_bytes_total", Ended::Completed),
                    acknowledged: sum_of(&text, "weir_storage_tcp_acknowledged_bytes_total", Ended::Completed),
                }),
        })
    }

    /// The metrics of an embedded storage.
    async fn metrics(&self) -> Result<String, StorageError> {
        let path = "/.well-known/weir/metrics";
        let request = Request::get(format!("{}{path}", self.origin()));
        let request = request.body(body::empty()).expect("a URL of the plan");
        let sent = self.client.send_within(request, PATIENCE).await;
        let response = sent.map_err(|error| self.broken("read", path, error.into()))?;
        if !response.status().is_success() {
            return Err(self.broken("read", path, response.status().to_string().into()));
        }
        let text = body::read_limited(response.into_body(), TEXT_MAX, PATIENCE).await;
        let text = text.map_err(|error| self.broken("read", path, error.into()))?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// Writes an empty file without a token.
    pub(crate) async fn write_without_token(&self, path: &str) -> Result<(), StorageError> {
        let call = Call::new("write", "PUT", path, None).header(header::CONTENT_LENGTH, 0.into());
        self.send(call).await.map(|_| ())
    }

    async fn plain(&self, operation: &'static str, method: &str, path: &str) -> Result<(), StorageError> {
        let response = self
            .send(Call::new(operation, method, path, self.token_to_write().await?))
            .await?;
        // An empty body read to its end lets the connection be used again.
        let _text = body::read_limited(response.into_body(), TEXT_MAX, PATIENCE).await;
        Ok(())
    }

    fn broken(&self, operation: &'static str, path: &str, source: Box<dyn Error + Send + Sync>) -> StorageError {
        StorageError::Exchange {
            operation,
            path: path.to_owned(),
            rse: self.name.clone(),
            source,
        }
    }
}

/// The transfers whose bytes are summed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    /// All but failed ones.
    Completed,
    /// Failed ones.
    Broken,
}

/// Adds up the samples of one counter in OpenMetrics text.
fn sum_of(text: &str, counter: &str, which: Ended) -> u64 {
    let broken = |rest: &str| rest.contains("outcome=\"failed\"");
    text.lines()
        .filter_map(|line| line.strip_prefix(counter))
        .filter(|rest| rest.starts_with(['{', ' ']) && broken(rest) == (which == Ended::Broken))
        .filter_map(|rest| {
            rest.rsplit_once([' ', '}'])
                .and_then(|(_, value)| value.trim().parse::<u64>().ok())
        })
        .sum()
}

/// The begin of the process.
fn start_of(text: &str) -> u64 {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("process_start_time_seconds "));
    let seconds = line.and_then(|line| line.trim().parse::<f64>().ok());
    (seconds.unwrap_or_default() * 1000.0) as u64
}

/// Sums the used bytes of all areas.
fn used_of(text: &str) -> u64 {
    let lines = text
        .lines()
        .filter(|line| line.starts_with("weir_storage_space_bytes{") && line.contains("state=\"used\""));
    lines
        .filter_map(|line| line.rsplit_once(' ')?.1.trim().parse::<u64>().ok())
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn used_space_is_that_of_files_alone() {
        // Wrong: free bytes are compared with the catalogue's bytes.
        let text = "weir_storage_space_bytes{area=\"a\",state=\"used\"} 40\nweir_storage_space_bytes{area=\"a\",state=\"available\"} 7\n\
            weir_storage_space_bytes{area=\"b\",state=\"used\"} 2\n";
        assert_eq!(used_of(text), 42);
    }

    #[test]
    fn counters_are_added_over_their_labels() {
        // Wrong: a cross-check sees only one peer, or another counter whose name begins the same.
        let text = "# TYPE weir_storage_sent_bytes_total counter\n\
            weir_storage_sent_bytes_total{area=\"vo\",peer=\"127.0.1.2\"} 40\n\
            weir_storage_sent_bytes_total{area=\"vo\",peer=\"127.0.1.3\",outcome=\"completed\"} 2\n\
            weir_storage_sent_bytes_total{area=\"vo\",peer=\"127.0.1.3\",outcome=\"failed\"} 9\n\
            weir_storage_sent_bytes_total_created 17\n\
            weir_storage_received_bytes_total 7\n";
        let completed = |counter| sum_of(text, counter, Ended::Completed);
        assert_eq!(completed("weir_storage_sent_bytes_total"), 42);
        assert_eq!(completed("weir_storage_received_bytes_total"), 7);
        assert_eq!(completed("weir_storage_other"), 0);
        assert_eq!(sum_of(text, "weir_storage_sent_bytes_total", Ended::Broken), 9);
        assert_eq!(sum_of(text, "weir_storage_received_bytes_total", Ended::Broken), 0);
    }
}
