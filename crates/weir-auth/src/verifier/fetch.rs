//! Getting a document over HTTPS: the one thing that a verifier needs of the network.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use http::{Request, StatusCode, header};
use thiserror::Error;
use weir_http::body;

use crate::error_chain;

/// Limit for one document, from resolving the name to the last byte. Requests with new tokens wait for it.
const FETCH_TIMEOUT: Duration = Duration::from_secs(10);

/// The future of a [`Fetch`].
pub type FetchFuture<'a> = Pin<Box<dyn Future<Output = Result<Vec<u8>, FetchError>> + Send + 'a>>;

/// Gets documents.
pub trait Fetch: fmt::Debug + Send + Sync {
    /// The body of a 200 answer to GET, at most `limit` bytes, within a time that the implementation bounds.
    fn get<'a>(&'a self, url: &'a str, limit: usize) -> FetchFuture<'a>;
}

/// Why a document could not be had.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FetchError {
    /// The server says that there is none: 404.
    #[error("{0} does not exist")]
    NotFound(String),
    /// Anything else, as a sentence without secrets.
    #[error("{0}")]
    Failed(String),
}

impl Fetch for weir_http::Client {
    fn get<'a>(&'a self, url: &'a str, limit: usize) -> FetchFuture<'a> {
        Box::pin(async move {
            match tokio::time::timeout(FETCH_TIMEOUT, get(self, url, limit)).await {
                Ok(outcome) => outcome,
                Err(_) => Err(FetchError::Failed(format!(
                    "{url} did not answer within {} s",
                    FETCH_TIMEOUT.as_secs()
                ))),
            }
        })
    }
}

async fn get(client: &weir_http::Client, url: &str, limit: usize) -> Result<Vec<u8>, FetchError> {
    let request = Request::get(url)
        .header(header::ACCEPT, "application/json")
        .body(body::empty())
        .map_err(|_| FetchError::Failed(format!("{url} is not a URL")))?;
    let response = client
        .send(request)
        .await
        .map_err(|error| FetchError::Failed(error_chain(&error)))?;
    match response.status() {
        StatusCode::OK => {}
        StatusCode::NOT_FOUND => return Err(FetchError::NotFound(url.to_owned())),
        status => return Err(FetchError::Failed(format!("{url} answered {status}"))),
    }
    let bytes = body::read_limited(response.into_body(), limit, FETCH_TIMEOUT)
        .await
        .map_err(|error| FetchError::Failed(format!("{url}: {}", error_chain(&error))))?;
    Ok(bytes.to_vec())
}
