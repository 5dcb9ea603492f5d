//! The door of the transfer service: FTS3's REST interface, its schemas, and the authentication of callers.
//!
//! It starts the service behind it (`weir-transfer`). Its configuration, which it reloads while it serves, names the
//! accepted callers. Deliberately absent: scheduling, the storage of jobs.
//!
//! Status codes, texts, doubled slashes and time formats are those that the field's clients rely on; the handbook page
//! `docs/transfer-access.md` has the table. Rights are not those of FTS3: a user sees and cancels own jobs, and only
//! administrators see all of them and change the configuration.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use weir_fts::{TransferConfig, TransferService};
//!
//! let running = TransferService::start(TransferConfig::load("transfer.toml".as_ref())?).await?;
//! println!("{}", running.url());
//! running.shutdown().await;
//! # Ok(()) }
//! ```

mod access;
mod error;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod jobs;
mod messages;
mod namespace;
mod nodes;
mod operation;
mod reload;
mod service;
mod start;
mod state;

use std::{convert::Infallible, sync::Arc, time::Duration};

pub use access::certificates::CertificatesError;
use axum::{
    Router,
    extract::{DefaultBodyLimit, Request},
    response::{IntoResponse as _, Response},
    routing::{get, post},
};
pub use error::{OpenError, StartError};
use http::{StatusCode, Uri};
use hyper::body::Incoming;
use messages::answer::ApiError;
pub(crate) use operation::queue::{CHOICE, ROOM};
pub use start::{Running, TransferService};
use state::Door;
use tower::Service as _;
pub use weir_transfer::config::TransferConfig;

/// How long open requests have when the service stops.
pub(crate) const GRACE: Duration = Duration::from_secs(5);

/// Of that, how long the answer may take to be found; the rest is for sending it.
const TO_FIND: Duration = Duration::from_millis(4_500);

/// The door as a service of the HTTP server.
pub(crate) fn door(
    service: Arc<Door>,
) -> impl tower::Service<http::Request<Incoming>, Response = Response, Error = Infallible, Future: Send + 'static>
+ Clone
+ Send
+ Sync
+ 'static {
    let stopping = service.stopping.clone();
    let router = router(service);
    tower::service_fn(move |request: http::Request<Incoming>| {
        let (mut router, stopping) = (router.clone(), stopping.clone());
        async move {
            let mut request = request.map(axum::body::Body::new);
            collapse_slashes(&mut request);
            std::future::poll_fn(|cx| <Router as tower::Service<Request>>::poll_ready(&mut router, cx)).await?;
            let is_safe = request.method().is_safe();
            let late = async {
                stopping.cancelled().await;
                tokio::time::sleep(TO_FIND).await;
            };
            tokio::select! {
                answer = router.call(request) => answer,
                () = late => Ok(unanswered(is_safe).into_response()),
            }
        }
    })
}

/// The error in place of an answer when the service has no more time for it.
fn unanswered(is_safe: bool) -> ApiError {
    if is_safe {
        ApiError::unavailable("The service is stopping; ask again")
    } else {
        // It may have been done.
        let text = "The service is stopping, and whether this was done is not known; look before asking again";
        ApiError::new(StatusCode::GATEWAY_TIMEOUT, text)
    }
}

/// All that the door answers.
pub(crate) fn router(service: Arc<Door>) -> Router {
    let limit = service.body_max;
    Router::new()
        .route("/", get(service::about::service_document))
        .route("/whoami", get(service::about::whoami))
        .route("/whoami/certificate", get(service::about::certificate))
        .route("/api-docs/schema/submit", get(service::about::submit_schema))
        .route("/openapi.json", get(service::openapi::openapi))
        .route("/.well-known/weir/health", get(service::about::health))
        .route("/.well-known/weir/ready", get(service::about::ready))
        .route("/.well-known/weir/metrics", get(service::metrics::metrics))
        .route("/.well-known/weir/nodes", get(service::about::nodes))
        .route("/.well-known/weir/queue", get(operation::queue::queue))
        .route(ROOM, post(operation::queue::room))
        .route(CHOICE, post(operation::queue::choice))
        .route(
            "/jobs",
            get(jobs::list::jobs)
                .post(jobs::submit::submit)
                .put(jobs::submit::submit),
        )
        .route(
            "/jobs/{ids}",
            get(jobs::query::jobs)
                .delete(jobs::cancel::jobs)
                .post(jobs::cancel::modify),
        )
        .route("/jobs/vo/{vo}", axum::routing::delete(jobs::cancel::vo))
        .route("/jobs/all", axum::routing::delete(jobs::cancel::all))
        .route("/jobs/{id}/files", get(jobs::query::files))
        .route("/jobs/{id}/files/{files}", axum::routing::delete(jobs::cancel::files))
        .route("/jobs/{id}/files/{file}/retries", get(jobs::query::retries))
        .route("/jobs/{id}/dm", get(jobs::query::dm))
        .route("/jobs/{id}/{field}", get(jobs::query::field))
        .merge(operation::config::routes())
        .merge(operation::why::routes())
        .merge(operation::ban::routes())
        .merge(operation::optimizer::routes())
        .merge(operation::status::routes())
        .merge(jobs::archive::routes())
        .merge(namespace::routes())
        .merge(operation::force::routes())
        .merge(service::absent::routes())
        .merge(access::delegation::routes())
        .merge(access::attributes::routes())
        .fallback(async || ApiError::new(StatusCode::NOT_FOUND, "The requested URL was not found on the server."))
        .method_not_allowed_fallback(service::absent::other_method)
        .layer(axum::middleware::from_fn_with_state(
            service.clone(),
            nodes::relay::relay,
        ))
        .layer(DefaultBodyLimit::max(limit))
        .with_state(service)
}

/// Paths that FTS3 has with a slash at their end too.
const WITH_SLASH: [&str; 3] = ["/jobs/", "/files/", "/archive/"];

/// Clients write `https://host:port//jobs`: their endpoint, a slash, and a path that begins with one.
fn collapse_slashes(request: &mut Request) {
    let path = request.uri().path();
    if !path.contains("//") && !WITH_SLASH.contains(&path) {
        return;
    }
    let mut clean = String::with_capacity(path.len());
    for c in path.chars() {
        if c != '/' || !clean.ends_with('/') {
            clean.push(c);
        }
    }
    if WITH_SLASH.contains(&clean.as_str()) {
        clean.pop();
    }
    if let Some(query) = request.uri().query() {
        clean.push('?');
        clean.push_str(query);
    }
    let mut parts = request.uri().clone().into_parts();
    parts.path_and_query = clean.parse().ok();
    if let Ok(uri) = Uri::from_parts(parts) {
        *request.uri_mut() = uri;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test may panic")]
    use super::*;

    fn collapses(uri: &str, expected: &str) {
        let mut request = Request::new(axum::body::Body::empty());
        *request.uri_mut() = uri.parse().unwrap();
        collapse_slashes(&mut request);
        assert_eq!(request.uri().to_string(), expected);
    }

    #[test]
    fn slashes_that_say_nothing_go() {
        collapses("//", "/");
        collapses("//jobs?state_in=A//B", "/jobs?state_in=A//B");
        collapses("/jobs//1,2///files", "/jobs/1,2/files");
        collapses("/jobs?", "/jobs?");
        collapses("//jobs?", "/jobs?");
        collapses("/archive/", "/archive");
        collapses("//jobs//?limit=1", "/jobs?limit=1");
        collapses("/api-docs/", "/api-docs/");
    }
}
