//! The paths below `/.well-known/`: about the endpoint, outside of its name space.

use http::{HeaderValue, Method, Response, StatusCode, header};
use serde_json::{Value, json};
use weir_http::{Body, Network, body};

use crate::{data::blocking, refusal::Refusal, service::Call, srr, verbs};

/// The answer to a request at one of the endpoint's own names; none if it is for the name space.
pub(crate) async fn answer(call: &mut Call, path: &str) -> Option<Result<Response<Body>, Refusal>> {
    let name = path.strip_prefix("/.well-known/")?;
    match (&call.method, name) {
        (&Method::GET, "weir/metrics") => Some(metrics(call).await),
        (&Method::GET, "weir/health") => Some(Ok(json_answer(StatusCode::OK, &json!({ "status": "ok" })))),
        (&Method::GET, "weir/ready") => Some(Ok(ready(call).await)),
        (&Method::GET, "weir/srr") => Some(space(call).await),
        _ => verbs::at_well_known(call, path).await,
    }
}

/// Whether the client's address lies in one of these networks.
fn is_shown(call: &Call, allowed: &[Network]) -> bool {
    weir_http::comes_from(allowed, call.info.peer.ip(), &call.headers)
}

fn check_shown(call: &Call, allowed: &[Network], what: &str) -> Result<(), Refusal> {
    if is_shown(call, allowed) {
        return Ok(());
    }
    Err(Refusal::new(StatusCode::FORBIDDEN, format!("{what} to this address")))
}

async fn metrics(call: &Call) -> Result<Response<Body>, Refusal> {
    let endpoint = call.endpoint.clone();
    check_shown(
        call,
        &endpoint.config.metrics_allow,
        "(metrics_allow) metrics are not shown",
    )?;
    let text = blocking(move || endpoint.metrics.render(endpoint.names.areas())).await;
    let mut response = Response::new(body::full(text));
    let value = HeaderValue::from_static(weir_service::metrics::CONTENT_TYPE);
    response.headers_mut().insert(header::CONTENT_TYPE, value);
    Ok(response)
}

/// Readiness for load balancers. The reason of a failure is for callers that may read metrics.
async fn ready(call: &Call) -> Response<Body> {
    let report = call.endpoint.standing.report(&call.endpoint).await;
    let (status, answer) = report.answer(is_shown(call, &call.endpoint.config.metrics_allow));
    json_answer(status, &answer)
}

async fn space(call: &Call) -> Result<Response<Body>, Refusal> {
    let endpoint = call.endpoint.clone();
    check_shown(
        call,
        &endpoint.config.srr.allow,
        "(srr.allow) the space report is not shown",
    )?;
    let report = blocking(move || srr::report(&endpoint)).await;
    Ok(json_answer(StatusCode::OK, &report))
}

/// An answer that no intermediary may store.
pub(crate) fn json_answer(status: StatusCode, value: &Value) -> Response<Body> {
    let mut response = Response::new(body::full(value.to_string()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
