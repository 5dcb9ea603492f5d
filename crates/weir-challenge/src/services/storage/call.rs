//! One request to a storage.

use std::time::Duration;

use http::{HeaderMap, HeaderValue, Method, header};
use weir_auth::Secret;

/// Time for a request without a large body.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// One request.
pub(super) struct Call<'a> {
    /// The operation, as messages name it.
    pub(super) operation: &'static str,
    pub(super) method: Method,
    /// Path below the base.
    pub(super) path: &'a str,
    /// `None`: anonymous.
    pub(super) token: Option<Secret>,
    pub(super) headers: HeaderMap,
    /// For all of it but the body of the answer.
    pub(super) limit: Duration,
}

impl<'a> Call<'a> {
    pub(super) fn new(operation: &'static str, method: &str, path: &'a str, token: impl Into<Option<Secret>>) -> Self {
        Self {
            operation,
            method: Method::from_bytes(method.as_bytes()).expect("a method"),
            path,
            token: token.into(),
            headers: HeaderMap::new(),
            limit: PATIENCE,
        }
    }

    #[must_use]
    pub(super) fn header(mut self, name: header::HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }
}
