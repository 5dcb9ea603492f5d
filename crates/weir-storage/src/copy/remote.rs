//! The other side of a copy: requests with forwarded headers, and redirects followed with care.

use std::{ops::Range, time::Duration};

use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use hyper::body::Incoming;
use weir_http::{Body, Buffers, Client, ClientError, ConnectedTo, body, redirect};
use weir_units::{Algorithm, Checksum};
use weir_world::{ErrorClass, Party, Phase};

use super::{
    CopyFailure,
    pull::{File, Version},
};
use crate::{config::TpcConfig, digest};

/// As much of the other side's explanation as is passed on, in bytes, and how long it may take.
const SAID_LIMIT: usize = 4096;
const SAID_TIME: Duration = Duration::from_secs(5);

/// Longest duration of an upload; the pace is watched meanwhile.
const UPLOAD_LIMIT: Duration = Duration::from_secs(30 * 24 * 3600);

/// The other side.
pub(crate) struct Remote {
    pub(super) client: Client,
    pub(super) uri: Uri,
    pub(super) headers: HeaderMap,
    pub(super) party: Party,
    pub(super) tpc: TpcConfig,
}

/// A successful answer, and where it came from.
pub(super) struct Answer {
    pub(super) response: Response<Incoming>,
    pub(super) connection: Option<ConnectedTo>,
}

impl Answer {
    /// The memory of the connection that it comes by.
    pub(super) fn buffers(&self) -> Option<Buffers> {
        let connected = self.response.extensions().get::<ConnectedTo>();
        connected.map(|connected| connected.buffers.clone())
    }
}

/// Metadata of the other side's file, as far as it sends them.
pub(super) struct Told {
    pub(super) size: Option<u64>,
    pub(super) checksums: Vec<Checksum>,
}

impl Remote {
    pub(crate) fn new(client: Client, uri: Uri, headers: HeaderMap, party: Party, tpc: TpcConfig) -> Self {
        Self {
            client,
            uri,
            headers,
            party,
            tpc,
        }
    }

    /// `https://host:port/path` without a query, where secrets may hide.
    pub(crate) fn shown(&self) -> String {
        shown(&self.uri)
    }

    /// Whether a token would travel in the clear, or plain HTTP is not allowed here at all.
    pub(crate) fn check_scheme(&self) -> Result<(), String> {
        check_scheme(&self.uri, &self.headers, &self.tpc)
    }

    /// GET, asking for checksums.
    pub(super) async fn get(&self, algorithms: &[Algorithm]) -> Result<Answer, CopyFailure> {
        self.follow(Phase::Preparation, &Method::GET, |request| {
            digest::ask(algorithms, request.headers_mut());
            Some(body::empty())
        })
        .await
    }

    /// GET of a part, of this version of the file if it is known.
    pub(super) async fn get_part(
        &self,
        part: &Range<u64>,
        version: Option<&Version>,
        algorithms: &[Algorithm],
    ) -> Result<Answer, CopyFailure> {
        let range = HeaderValue::from_str(&format!("bytes={}-{}", part.start, part.end - 1));
        let range = range.expect("numbers are valid in headers");
        self.follow(Phase::Transfer, &Method::GET, |request| {
            request.headers_mut().insert(header::RANGE, range.clone());
            if let Some(version) = version {
                version.demand(request);
            }
            digest::ask(algorithms, request.headers_mut());
            Some(body::empty())
        })
        .await
    }

    /// HEAD without a question that the other side might have to read its file for.
    pub(super) async fn describe(&self) -> Result<File, CopyFailure> {
        let answer = self
            .follow(Phase::Preparation, &Method::HEAD, |_| Some(body::empty()))
            .await?;
        let headers = answer.response.headers();
        let size = headers.get(header::CONTENT_LENGTH);
        let size = size.and_then(|value| value.to_str().ok()?.trim().parse().ok());
        let refused = headers.get(header::ACCEPT_RANGES).is_some_and(|value| value == "none");
        let Some(size) = size.filter(|_| !refused) else {
            let text = format!("HEAD {}: the source offers no parts", self.shown());
            return Err(CopyFailure::new(
                ErrorClass::Protocol,
                self.party,
                Phase::Preparation,
                text,
            ));
        };
        let version = Version::of(headers);
        Ok(File { size, version })
    }

    /// The other side's metadata of the file, by HEAD.
    pub(super) async fn look(&self, algorithms: &[Algorithm]) -> Result<Told, CopyFailure> {
        let answer = self
            .follow(Phase::Finalization, &Method::HEAD, |request| {
                digest::ask(algorithms, request.headers_mut());
                Some(body::empty())
            })
            .await?;
        let headers = answer.response.headers();
        let size = headers.get(header::CONTENT_LENGTH);
        Ok(Told {
            size: size.and_then(|value| value.to_str().ok()?.trim().parse().ok()),
            checksums: self.announced(headers, Phase::Finalization)?,
        })
    }

    /// The checksums of an answer; an unreadable one fails the copy, as it cannot be compared.
    pub(super) fn announced(&self, headers: &HeaderMap, phase: Phase) -> Result<Vec<Checksum>, CopyFailure> {
        digest::announced(headers).map_err(|error| {
            let text = format!("{}: {error}", self.shown());
            CopyFailure::new(ErrorClass::Protocol, self.party, phase, text)
        })
    }

    /// Whether there is something at the other side.
    pub(super) async fn exists(&self) -> Result<bool, CopyFailure> {
        match self
            .follow(Phase::Preparation, &Method::HEAD, |_| Some(body::empty()))
            .await
        {
            Ok(_) => Ok(true),
            Err(failure) if failure.class == ErrorClass::NotFound => Ok(false),
            Err(failure) => Err(failure),
        }
    }

    /// PUT with `Expect: 100-continue`. `prepare` sets headers and gives the body anew for every place it is sent to.
    pub(super) async fn put(
        &self,
        prepare: impl FnMut(&mut Request<Body>) -> Option<Body>,
    ) -> Result<Answer, CopyFailure> {
        self.follow(Phase::Transfer, &Method::PUT, prepare).await
    }

    async fn follow(
        &self,
        phase: Phase,
        method: &Method,
        mut prepare: impl FnMut(&mut Request<Body>) -> Option<Body>,
    ) -> Result<Answer, CopyFailure> {
        let (mut uri, mut headers) = (self.uri.clone(), self.headers.clone());
        for _ in 0..=self.tpc.redirects {
            let what = format!("{method} {}", shown(&uri));
            let mut request = Request::new(body::empty());
            *request.method_mut() = method.clone();
            *request.uri_mut() = uri.clone();
            *request.headers_mut() = headers.clone();
            let Some(body) = prepare(&mut request) else {
                return Err(CopyFailure::new(
                    ErrorClass::Protocol,
                    self.party,
                    phase,
                    format!("{what}: the body cannot be sent twice"),
                ));
            };
            *request.body_mut() = body;
            let response = self
                .send(request)
                .await
                .map_err(|error| CopyFailure::unanswered(self.party, phase, &what, &error))?;
            let status = response.status();
            if is_done(method, status) {
                let connection = response.extensions().get::<ConnectedTo>().cloned();
                return Ok(Answer { response, connection });
            }
            if !redirect::is_redirect(status) {
                let said = said(response).await;
                return Err(CopyFailure::answered(self.party, phase, status, &what, &said));
            }
            let next = redirect::target(&uri, response.headers()).ok_or_else(|| {
                CopyFailure::new(
                    ErrorClass::Protocol,
                    self.party,
                    phase,
                    format!("{what}: {status} leads nowhere"),
                )
            })?;
            if !redirect::is_same_origin(&next, &uri) {
                headers = for_any_host(&headers);
            }
            if redirect::leaves_tls(&uri, &next) {
                let text = format!("{what}: refused to follow a redirect from https to {}", shown(&next));
                return Err(CopyFailure::new(ErrorClass::Protocol, self.party, phase, text));
            }
            check_scheme(&next, &headers, &self.tpc)
                .map_err(|text| CopyFailure::new(ErrorClass::Protocol, self.party, phase, text))?;
            uri = next;
        }
        let text = format!("{method} {}: more than {} redirects", self.shown(), self.tpc.redirects);
        Err(CopyFailure::new(ErrorClass::Protocol, self.party, phase, text))
    }

    async fn send(&self, request: Request<Body>) -> Result<Response<Incoming>, ClientError> {
        use http_body::Body as _;
        if request.method() == Method::PUT && !request.body().is_end_stream() {
            return self
                .client
                .send_expecting(request, self.tpc.continue_timeout, UPLOAD_LIMIT)
                .await;
        }
        self.client.send(request).await
    }
}

fn check_scheme(uri: &Uri, headers: &HeaderMap, tpc: &TpcConfig) -> Result<(), String> {
    if uri.scheme_str() == Some("https") {
        return Ok(());
    }
    if !tpc.plain_http {
        return Err(format!(
            "{} is plain HTTP, which this endpoint does not speak to others (tpc.plain_http)",
            shown(uri)
        ));
    }
    if headers.contains_key(header::AUTHORIZATION) {
        return Err(format!("a token would travel in the clear to {}", shown(uri)));
    }
    Ok(())
}

fn shown(uri: &Uri) -> String {
    let scheme = uri.scheme_str().unwrap_or("https");
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    format!("{scheme}://{authority}{}", uri.path())
}

/// Forwarded headers that describe the transfer. All others may be secrets, meant for the host that the client named.
const FOR_ANY_HOST: [&str; 3] = ["scitag", "clientinfo", "archivemetadata"];

fn for_any_host(headers: &HeaderMap) -> HeaderMap {
    let described = headers.iter().filter(|(name, _)| FOR_ANY_HOST.contains(&name.as_str()));
    let mut kept = HeaderMap::new();
    described.for_each(|(name, value)| {
        kept.append(name.clone(), value.clone());
    });
    kept
}

/// Whether the answer confirms the request. 202 (later, perhaps) and 207 (partly) do not confirm that an upload is a
/// file now.
fn is_done(method: &Method, status: StatusCode) -> bool {
    if method == Method::PUT {
        return matches!(status.as_u16(), 200 | 201 | 204);
    }
    status.is_success()
}

/// The beginning of the other side's explanation, if it is text.
async fn said(response: Response<Incoming>) -> String {
    let textual = response.headers().get(header::CONTENT_TYPE).is_none_or(|kind| {
        kind.to_str()
            .is_ok_and(|kind| kind.starts_with("text/plain") || kind.contains("json"))
    });
    if !textual {
        return String::new();
    }
    let read = tokio::time::timeout(
        SAID_TIME,
        body::read_limited(response.into_body(), SAID_LIMIT, SAID_TIME),
    )
    .await;
    let bytes = read.ok().and_then(Result::ok).unwrap_or_default();
    weir_auth::peer_text(&bytes)
}
