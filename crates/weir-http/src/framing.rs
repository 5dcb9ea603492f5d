//! Requests that two readers could take for different ones are refused, at every door alike.
//!
//! A proxy in front of this server may read a request's host or the length of its body in another way. One request for the proxy would
//! be two requests here, or one for another host ("request smuggling"). hyper refuses most of them; these two it leaves to the service.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, Version, header, uri::Authority};
use http_body_util::Full;

/// Why a request is not handed to the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ambiguous {
    /// RFC 9112 section 3.2.
    Host,
    /// RFC 9112 section 6.1.
    Coding,
}

impl Ambiguous {
    fn status(self) -> StatusCode {
        match self {
            Self::Host => StatusCode::BAD_REQUEST,
            Self::Coding => StatusCode::NOT_IMPLEMENTED,
        }
    }

    fn reason(self) -> &'static str {
        match self {
            Self::Host => "there must be one Host, as RFC 9112 section 3.2 has it\n",
            Self::Coding => "of transfer codings only chunked is understood\n",
        }
    }

    /// The answer to the client. Nothing more is read of the connection: its next request may be part of this one's body.
    pub(crate) fn response(self) -> Response<Full<Bytes>> {
        let mut response = Response::new(Full::new(Bytes::from_static(self.reason().as_bytes())));
        *response.status_mut() = self.status();
        let headers = response.headers_mut();
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("text/plain; charset=utf-8"),
        );
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        response
    }
}

/// Judges a request by its head.
pub(crate) fn check<B>(request: &Request<B>) -> Result<(), Ambiguous> {
    if !names_its_host(request.version(), request.headers()) {
        return Err(Ambiguous::Host);
    }
    if !only_chunked(request.headers()) {
        return Err(Ambiguous::Coding);
    }
    Ok(())
}

/// Whether there is one host, and beyond doubt.
fn names_its_host(version: Version, headers: &HeaderMap) -> bool {
    let mut hosts = headers.get_all(header::HOST).iter();
    match (hosts.next(), hosts.next()) {
        (None, _) => version < Version::HTTP_11,
        (Some(host), None) => {
            let authority = |host: &str| !host.contains('@') && host.parse::<Authority>().is_ok();
            host.is_empty() || host.to_str().is_ok_and(authority)
        }
        (Some(_), Some(_)) => false,
    }
}

/// Whether a body is at most chunked (RFC 9112 section 6.1): in another transfer coding it would be taken as it is packed.
pub fn only_chunked(headers: &HeaderMap) -> bool {
    headers.get_all(header::TRANSFER_ENCODING).iter().all(|value| {
        let coding = value.to_str().map(str::trim);
        coding.is_ok_and(|coding| coding.eq_ignore_ascii_case("chunked"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(version: Version, headers: &[(&'static str, &'static str)]) -> Result<(), Ambiguous> {
        let mut request = Request::new(());
        *request.version_mut() = version;
        for (name, value) in headers {
            request.headers_mut().append(*name, HeaderValue::from_static(value));
        }
        check(&request)
    }

    #[test]
    fn a_request_names_its_host_once() {
        // One request for us, and another one for a proxy before us.
        let host = |hosts: &[&'static str], version| {
            let headers: Vec<_> = hosts.iter().map(|host| ("host", *host)).collect();
            judged(version, &headers)
        };
        for hosts in [&["a"][..], &["a:1"], &["[::1]:8443"], &[""]] {
            assert_eq!(host(hosts, Version::HTTP_11), Ok(()), "{hosts:?}");
        }
        for hosts in [&[][..], &["a", "b"], &["a", "a"], &["a b"], &["u@a"], &["a/b"]] {
            assert_eq!(host(hosts, Version::HTTP_11), Err(Ambiguous::Host), "{hosts:?}");
        }
        assert_eq!(host(&[], Version::HTTP_10), Ok(()));
        assert_eq!(host(&["a", "b"], Version::HTTP_10), Err(Ambiguous::Host));
    }

    #[test]
    fn a_body_is_chunked_or_as_it_is() {
        for (coding, due) in [
            ("chunked", Ok(())),
            (" Chunked ", Ok(())),
            ("gzip, chunked", Err(Ambiguous::Coding)),
            ("identity", Err(Ambiguous::Coding)),
            ("", Err(Ambiguous::Coding)),
        ] {
            let headers = [("host", "a"), ("transfer-encoding", coding)];
            assert_eq!(judged(Version::HTTP_11, &headers), due, "{coding:?}");
        }
    }
}
