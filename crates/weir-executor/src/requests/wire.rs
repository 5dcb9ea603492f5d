//! Requests to one side of a transfer: token, time limit, redirects, and the failure if there is no answer.

use std::time::Duration;

use http::{HeaderMap, HeaderValue, Method, Request, Response, Uri, header};
use hyper::body::Incoming;
use weir_auth::Secret;
use weir_http::{Body, Client, ClientError, body, redirect};
use weir_world::{ErrorClass, Failure, Party, Phase};

use crate::{config::RedirectHost, surl::Surl};
use crate::{requests::failure::Scene, tokens::Right};

/// Redirects followed in a row.
const REDIRECTS_MAX: usize = 5;

/// Text of an error answer that is read, for the message.
const ERROR_TEXT_MAX: usize = 16 * 1024;

/// Source or destination: party, URL, and credential.
#[derive(Debug, Clone)]
pub(crate) struct Side {
    pub(crate) party: Party,
    pub(crate) surl: Surl,
    /// Good when the attempt began.
    pub(crate) token: Option<Secret>,
    /// Where the next one comes from.
    pub(crate) right: Right,
}

impl Side {
    pub(crate) fn scene(&self, phase: Phase) -> Scene {
        Scene::new(self.party, phase)
    }

    pub(crate) fn uri(&self, phase: Phase) -> Result<Uri, Failure> {
        self.surl.http_url().parse().map_err(|_| {
            self.scene(phase).fail(
                ErrorClass::Protocol,
                format!("{} is not a URL that can be requested", self.surl),
            )
        })
    }

    /// `Bearer ...` as a header that no log shows.
    pub(crate) fn bearer(&self) -> Option<HeaderValue> {
        bearer(self.token.as_ref()?)
    }

    /// `HEAD https://host/path`: how messages name a request.
    pub(crate) fn naming(&self, method: &Method) -> String {
        format!("{method} {}", self.surl)
    }
}

pub(crate) fn bearer(token: &Secret) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(&format!("Bearer {}", token.expose())).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// Whether credentials go along when a redirect leads elsewhere.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Forward<'a> {
    /// To the same authority only, port included. A redirect's URL for another host usually contains a credential.
    Same,
    /// Also, encrypted, to hosts that the operator has named: a redirector's COPY is answered by a host of its choice,
    /// which needs both sides' tokens.
    Named(&'a [RedirectHost]),
}

/// An answer, and where it came from after redirects.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) response: Response<Incoming>,
    /// The host to which a redirect led without the credentials.
    pub(crate) stripped: Option<String>,
}

/// A request that got no answer.
#[derive(Debug)]
pub(crate) struct UnansweredRequest {
    pub(crate) failure: Failure,
    /// Whether the other side may have acted on it all the same.
    pub(crate) reached: bool,
}

impl From<Failure> for UnansweredRequest {
    fn from(failure: Failure) -> Self {
        Self {
            failure,
            reached: false,
        }
    }
}

impl From<UnansweredRequest> for Failure {
    fn from(trouble: UnansweredRequest) -> Self {
        trouble.failure
    }
}

/// A request without a body, as often as redirects ask for it.
pub(crate) async fn send(
    client: &Client,
    side: &Side,
    phase: Phase,
    request: (Method, HeaderMap),
    forward: Forward<'_>,
    limit: Duration,
) -> Result<Answer, UnansweredRequest> {
    send_watched(client, side, phase, request, forward, limit, &|_| ()).await
}

/// As [`send`]; `before` sees each request before it goes.
pub(crate) async fn send_watched(
    client: &Client,
    side: &Side,
    phase: Phase,
    (method, mut headers): (Method, HeaderMap),
    forward: Forward<'_>,
    limit: Duration,
    before: &(dyn Fn(&mut Request<Body>) + Sync),
) -> Result<Answer, UnansweredRequest> {
    let mut uri = side.uri(phase)?;
    let (mut token, mut stripped) = (side.bearer(), None);
    for _ in 0..=REDIRECTS_MAX {
        let parts = (&method, &headers, &uri, token.as_ref());
        let response = exchange(client, side, phase, parts, limit, before).await?;
        let Some(next) = redirected_to(&response, &uri, side, phase, &method)? else {
            return Ok(Answer { response, stripped });
        };
        if !keeps_credentials(&uri, &next, forward) {
            token = None;
            headers.remove(FORWARDED);
            if names_secret(&headers) {
                let text = format!(
                    "{}: a redirect to {}, which is not told the credential in the other side's URL; name it in copy.redirect_hosts if it \
                     is a node of this storage",
                    side.naming(&method),
                    next.host().unwrap_or("?"),
                );
                return Err(side.scene(phase).fail(ErrorClass::Permission, text).into());
            }
            stripped = next.host().map(str::to_owned);
        }
        uri = next;
    }
    let text = format!("{}: more than {REDIRECTS_MAX} redirects in a row", side.naming(&method));
    Err(side.scene(phase).fail(ErrorClass::Protocol, text).into())
}

/// One exchange. If the connection broke before an answer came, it is tried once more. Exceptions are COPY, of which
/// two might then run at once, and requests that might meet their own earlier effect, or a later one.
async fn exchange(
    client: &Client,
    side: &Side,
    phase: Phase,
    (method, headers, uri, token): (&Method, &HeaderMap, &Uri, Option<&HeaderValue>),
    limit: Duration,
    before: &(dyn Fn(&mut Request<Body>) + Sync),
) -> Result<Response<Incoming>, UnansweredRequest> {
    let build = || {
        let mut request = Request::new(body::empty());
        *request.method_mut() = method.clone();
        *request.uri_mut() = uri.clone();
        *request.headers_mut() = headers.clone();
        if let Some(token) = token {
            request.headers_mut().insert(header::AUTHORIZATION, token.clone());
        }
        before(&mut request);
        request
    };
    let repeatable = !matches!(method.as_str(), "COPY" | "DELETE" | "MKCOL" | "MOVE");
    let mut outcome = client.send_within(build(), limit).await;
    if repeatable && matches!(outcome, Err(ClientError::Exchange { .. })) {
        outcome = client.send_within(build(), limit).await;
    }
    outcome.map_err(|error| UnansweredRequest {
        failure: side.scene(phase).client(&side.naming(method), &error),
        reached: !error.before_request(),
    })
}

/// Where a redirect leads; `None` if the answer is none.
///
/// # Errors
/// A redirect without a usable target, or out of TLS.
pub(crate) fn redirected_to(
    response: &Response<Incoming>,
    from: &Uri,
    side: &Side,
    phase: Phase,
    method: &Method,
) -> Result<Option<Uri>, Failure> {
    if !redirect::is_redirect(response.status()) {
        return Ok(None);
    }
    let wrong = |why: &str| {
        Err(side
            .scene(phase)
            .fail(ErrorClass::Protocol, format!("{}: {why}", side.naming(method))))
    };
    if !response.headers().contains_key(header::LOCATION) {
        return wrong("a redirect without a Location");
    }
    let Some(target) = redirect::target(from, response.headers()) else {
        return wrong("a redirect to something that is no URL");
    };
    if redirect::leaves_tls(from, &target) {
        return wrong("a redirect out of TLS, which is not followed");
    }
    Ok(Some(target))
}

pub(crate) fn keeps_credentials(from: &Uri, to: &Uri, forward: Forward<'_>) -> bool {
    let named = |hosts: &[RedirectHost]| {
        let host = to.host().unwrap_or_default();
        to.scheme_str() == Some("https") && hosts.iter().any(|named| named.is(host))
    };
    redirect::is_same_origin(from, to) || matches!(forward, Forward::Named(hosts) if named(hosts))
}

/// Whether the URL of the other side holds one, as signed URLs do.
fn names_secret(headers: &HeaderMap) -> bool {
    let sides = ["source", "destination"]
        .into_iter()
        .filter_map(|name| headers.get(name));
    sides.into_iter().any(|url| url.as_bytes().contains(&b'?'))
}

/// The header with a credential for the other side of a copy.
const FORWARDED: &str = "transferheaderauthorization";

/// The beginning of an answer's body, as text; any error only makes it shorter.
pub(crate) async fn text_of(response: Response<Incoming>) -> String {
    let html = response
        .headers()
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .is_some_and(|kind| kind.starts_with("text/html"));
    match body::read_limited(response.into_body(), ERROR_TEXT_MAX, Duration::from_secs(5)).await {
        Ok(bytes) if html => strip_tags(&String::from_utf8_lossy(&bytes)),
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(_) => String::new(),
    }
}

/// Error pages are for browsers; their words are for people.
pub(crate) fn strip_tags(html: &str) -> String {
    let mut text = String::new();
    let mut inside = false;
    for c in html.chars() {
        match c {
            '<' => inside = true,
            '>' => {
                inside = false;
                text.push(' ');
            }
            _ if !inside => text.push(c),
            _ => {}
        }
    }
    text
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test may panic")]
    use super::*;

    #[test]
    fn credentials_go_along_only_where_they_may() {
        let uri = |text: &str| text.parse::<Uri>().unwrap();
        let named = ["*.grid.example", "b"].map(|text| text.parse::<RedirectHost>().unwrap());
        let from = uri("https://a/f");
        for (to, same, listed) in [
            ("https://a/g", true, true),
            ("https://A:443/g", true, true),
            ("https://a:99/g", false, false),
            ("http://a/g", false, false),
            ("https://b/f", false, true),
            ("https://b:8443/f", false, true),
            ("http://b/f", false, false),
            ("https://n1.Grid.example:1094/f", false, true),
            ("https://grid.example/f", false, false),
            ("https://evilgrid.example/f", false, false),
        ] {
            assert_eq!(keeps_credentials(&from, &uri(to), Forward::Same), same, "{to}");
            assert_eq!(
                keeps_credentials(&from, &uri(to), Forward::Named(&named)),
                listed,
                "{to}"
            );
        }
    }

    #[test]
    fn error_pages_lose_their_tags() {
        assert_eq!(
            strip_tags("<h1>No</h1><p>space").split_whitespace().collect::<Vec<_>>(),
            ["No", "space"]
        );
    }
}
