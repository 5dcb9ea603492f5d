//! One file per verb.

mod copy;
mod delete;
mod get;
mod mkcol;
mod moving;
mod propfind;
mod proppatch;
mod put;
mod token_request;
mod tree;

use http::{HeaderValue, Method, Response, StatusCode, header};
use weir_auth::StoragePath;
use weir_http::{Body, body};

pub(crate) use token_request::at_well_known;

use crate::{refusal::Refusal, service::Call};

/// The supported methods.
const ALLOW: &str = "OPTIONS, GET, HEAD, PUT, DELETE, PROPFIND, PROPPATCH, MKCOL, MOVE, COPY";

/// Carries out a request with a valid path.
pub(crate) async fn dispatch(call: &mut Call) -> Result<Response<Body>, Refusal> {
    match call.method.as_str() {
        "GET" | "HEAD" => get::get(call).await,
        "PUT" => put::put(call).await,
        "DELETE" => delete::delete(call).await,
        "PROPFIND" => propfind::propfind(call).await,
        "PROPPATCH" => proppatch::proppatch(call).await,
        "MKCOL" => mkcol::mkcol(call).await,
        "MOVE" => moving::moving(call).await,
        "COPY" => copy::copy(call).await,
        "POST" => token_request::macaroon(call).await,
        other => Err(Refusal::method_not_allowed(format!("{other} is not offered"), ALLOW)),
    }
}

/// The endpoint's abilities. Needs no permission: clients ask before they show a token.
pub(crate) fn options() -> Response<Body> {
    let mut response = Response::new(body::empty());
    let headers = response.headers_mut();
    headers.insert(header::ALLOW, HeaderValue::from_static(ALLOW));
    headers.insert("dav", HeaderValue::from_static("1"));
    headers.insert("ms-author-via", HeaderValue::from_static("DAV"));
    headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from_static("0"));
    response
}

/// An answer without a body.
fn status(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(body::empty());
    *response.status_mut() = status;
    response
}

/// `Overwrite: T` or `F` (RFC 4918 section 10.6); absent means T.
fn overwrite(call: &Call) -> Result<bool, Refusal> {
    match call.header("overwrite").map(str::trim) {
        None => Ok(true),
        Some(value) if value.eq_ignore_ascii_case("t") => Ok(true),
        Some(value) if value.eq_ignore_ascii_case("f") => Ok(false),
        Some(_) => Err(Refusal::bad_request("Overwrite must be T or F")),
    }
}

/// The path of a `Destination` URI on this endpoint, if it leads here.
///
/// The client's name for us counts: the value of its `Host`, or the configured URL.
fn path_here(call: &Call, uri: &http::Uri) -> Option<Result<StoragePath, Refusal>> {
    if let Some(authority) = uri.authority() {
        let same = |name: &str| authority.as_str().eq_ignore_ascii_case(name);
        let own = call
            .endpoint
            .url
            .split_once("://")
            .map_or("", |(_, authority)| authority);
        let host = call
            .headers
            .get(header::HOST)
            .and_then(|value| value.to_str().ok())
            .unwrap_or("");
        if !same(host) && !same(own) {
            return None;
        }
    }
    Some(StoragePath::from_url_path(uri.path()).map_err(|error| Refusal::bad_request(format!("Destination: {error}"))))
}

/// Whether a request is a GET, so that its answer has a body.
fn has_body(method: &Method) -> bool {
    method != Method::HEAD
}
