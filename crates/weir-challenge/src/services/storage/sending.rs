//! Requests to a storage: the token, where redirects lead, and an error if it does not say yes.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, Uri, header};
use hyper::body::Incoming;
use weir_http::{Body, ClientError, body, redirect};

use super::call::Call;
use super::{PATIENCE, StorageDoor, StorageError};

/// Redirects followed in a row.
const REDIRECTS_MAX: usize = 5;

/// How long a storage may take to say `100 Continue` before an upload is sent all the same.
const CONTINUE_PATIENCE: Duration = Duration::from_secs(2);

impl StorageDoor {
    /// Sends a request without a body; see [`Self::send_with`].
    pub(super) async fn send(&self, call: Call<'_>) -> Result<Response<Incoming>, StorageError> {
        self.send_with(call, body::empty).await
    }

    /// Sends a request, and again to the target of each redirect: a storage with pools redirects to the one that holds
    /// the file. Another server does not get the token: the redirect's URL has its credential. `body` makes the
    /// body for each.
    pub(super) async fn send_with(
        &self,
        call: Call<'_>,
        mut body: impl FnMut() -> Body,
    ) -> Result<Response<Incoming>, StorageError> {
        let broken = |why: String| self.broken(call.operation, call.path, why.into());
        let first: Uri = self.url_of(call.path).parse().expect("a URL of the plan");
        let mut uri = first.clone();
        for _ in 0..=REDIRECTS_MAX {
            let is_told = redirect::is_same_origin(&first, &uri);
            let request = request(&call, &uri, is_told, body());
            let sent = self.exchange(&call, request).await;
            let response = sent.map_err(|error| self.broken(call.operation, call.path, error.into()))?;
            if !redirect::is_redirect(response.status()) {
                return self.accept(&call, &uri, is_told, response).await;
            }
            let Some(next) = redirect::target(&uri, response.headers()) else {
                return Err(broken(format!("{} without a usable Location", response.status())));
            };
            if redirect::leaves_tls(&uri, &next) {
                let place = place(&next);
                return Err(broken(format!(
                    "redirected out of TLS to {place}, which is not followed"
                )));
            }
            uri = next;
        }
        Err(broken(format!("more than {REDIRECTS_MAX} redirects in a row")))
    }

    async fn exchange(&self, call: &Call<'_>, request: Request<Body>) -> Result<Response<Incoming>, ClientError> {
        let is_empty = call.headers.get(header::CONTENT_LENGTH) == Some(&HeaderValue::from_static("0"));
        if call.method == Method::PUT && !is_empty {
            return self.client.send_expecting(request, CONTINUE_PATIENCE, call.limit).await;
        }
        self.client.send_within(request, call.limit).await
    }

    /// Turns everything that is not a success into an error with the answer's first line.
    async fn accept(
        &self,
        call: &Call<'_>,
        uri: &Uri,
        is_told: bool,
        response: Response<Incoming>,
    ) -> Result<Response<Incoming>, StorageError> {
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let text = body::read_limited(response.into_body(), 64 * 1024, PATIENCE)
            .await
            .unwrap_or_else(|_| Bytes::new());
        let mut message = weir_auth::peer_line(&text);
        if !is_told && call.token.is_some() {
            let place = place(uri);
            message = format!("{message} (by {place}, to which it redirects; tokens are not sent there)");
        }
        Err(StorageError::Refused {
            operation: call.operation,
            path: call.path.to_owned(),
            rse: self.name.clone(),
            status,
            message: message.trim_start().to_owned(),
        })
    }
}

fn request(call: &Call<'_>, uri: &Uri, is_told: bool, body: Body) -> Request<Body> {
    let mut request = Request::new(body);
    *request.method_mut() = call.method.clone();
    *request.uri_mut() = uri.clone();
    *request.headers_mut() = call.headers.clone();
    if let Some(token) = call.token.as_ref().filter(|_| is_told) {
        let bearer = format!("Bearer {}", token.expose());
        let mut bearer = HeaderValue::try_from(bearer).expect("tokens are plain text");
        bearer.set_sensitive(true);
        request.headers_mut().insert(header::AUTHORIZATION, bearer);
    }
    request
}

/// Scheme, host and port: the rest of a redirect may hold a secret.
fn place(uri: &Uri) -> String {
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    format!("{}://{authority}", uri.scheme_str().unwrap_or_default())
}
