//! `/delegation`: users with a certificate give the service a proxy to act in their name.
//!
//! The service makes a key and a request, the client signs a proxy for it. Key and proxy are stored sealed, under the
//! delegation id, which is derived from the user's name and FQANs: a user with other groups delegates anew.

use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use axum::{
    Extension, Router,
    extract::Path,
    routing::{get, put},
};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use rustls_pki_types::{CertificateDer, pem::PemObject as _};
use weir_auth::{
    Secret,
    x509::{Identity, delegation},
};

use crate::state::Door;
use crate::state::State;
use crate::{
    access::caller::{By, Caller},
    messages::answer::{Answer, ApiError, ok, text},
};
use weir_executor::orders::{Kept, proxy_name};
use weir_fts_api::{Delegated, Delegation, FtsTime};
use weir_service::time::{self, Millis};

/// How long a proxy may be signed for one request.
const REQUEST_LIFE: Millis = 3_600_000;

/// Time for which all callers get the same request: clients of one user that delegate at the same time must not
/// invalidate each other's.
const REQUEST_SHARED: Millis = 600_000;

/// Shortest remaining life of a delegated proxy for a submission.
const LEFT_MIN: Millis = 3_600_000;

/// Makes one key at a time: it costs some 100 ms of CPU, and waiting callers may find it made.
#[derive(Debug, Default)]
struct Making(tokio::sync::Mutex<()>);

pub(crate) fn routes() -> Router<Arc<Door>> {
    Router::new()
        .route("/delegation", get(page))
        .route("/delegation/{id}", get(info).delete(remove))
        .route("/delegation/{id}/request", get(request))
        .route("/delegation/{id}/credential", put(credential).post(credential))
        .layer(Extension(Arc::new(Making::default())))
}

fn request_name(caller: &Caller) -> String {
    format!("delegation/{}", caller.owner())
}

/// The delegation id in a path must be the caller's own.
pub(crate) fn own<'a>(caller: &'a Caller, id: &str) -> Result<&'a Arc<Identity>, ApiError> {
    let identity = caller.certificate()?;
    if id != caller.cred_id {
        return Err(ApiError::forbidden(
            "The requested ID and the credentials ID do not match",
        ));
    }
    Ok(identity)
}

async fn kept(service: &Door, name: String) -> Result<Option<Kept>, ApiError> {
    let now = time::latest();
    let kept = service.read(move |store| store.kept(&name)).await?;
    Ok(kept.filter(|kept| kept.until > now))
}

async fn keep(service: &Door, kept: Kept) -> Result<(), ApiError> {
    Ok(service.read(move |store| store.keep(&kept, time::now())).await?)
}

/// `GET /delegation`: for people with a browser.
async fn page(caller: Caller) -> Answer {
    caller.certificate()?;
    let page = "<!DOCTYPE html><title>Delegation</title><h1>Delegation</h1>\
        <p>Delegate a proxy with <code>fts-rest-delegate</code>, or with any client of the FTS3 REST interface.</p>";
    Ok(text("text/html; charset=utf-8", StatusCode::OK, page))
}

/// `GET /delegation/{id}`: until when, and with which attributes. A token delegates itself: clients then leave it at that.
async fn info(service: State, caller: Caller, Path(id): Path<String>, headers: HeaderMap) -> Answer {
    if id != caller.cred_id {
        return Err(ApiError::forbidden(
            "The requested ID and the credentials ID do not match",
        ));
    }
    let proxy = match &caller.by {
        By::Certificate(_) | By::Elsewhere { .. } => kept(&service, proxy_name(&caller.owner())).await?,
        By::Token(_, until) => {
            return Ok(ok(&Delegated {
                termination_time: FtsTime(millis(*until)),
                voms_attrs: Vec::new(),
            }));
        }
    };
    Ok(ok(&match proxy {
        None => Delegation::Nothing((!is_old_client(&headers)).then_some([])),
        Some(proxy) => Delegation::Proxy(Delegated {
            termination_time: FtsTime(proxy.until),
            voms_attrs: attributes(&service, &proxy),
        }),
    }))
}

/// Command lines before 3.12 take `null` for "nothing delegated", later ones an empty list.
fn is_old_client(headers: &HeaderMap) -> bool {
    let agent = headers.get(header::USER_AGENT).and_then(|agent| agent.to_str().ok());
    let Some((client, version)) = agent.and_then(|agent| agent.split_once('/')) else {
        return false;
    };
    let mut numbers = version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    client.starts_with("fts-") && (numbers.next(), numbers.next()) < (Some(3), Some(12))
}

/// FQANs of a proxy that was taken earlier; none if it is not good any more.
pub(crate) fn attributes(service: &Door, proxy: &Kept) -> Vec<String> {
    let certificates = CertificateDer::pem_slice_iter(proxy.secret.expose().as_bytes());
    let callers = service.callers.get();
    let (Ok(read), Some(certificates)) = (certificates.collect::<Result<Vec<_>, _>>(), &callers.certificates) else {
        return Vec::new();
    };
    match certificates.clients.verify(&read, time::system()) {
        Ok(identity) => identity.fqans().map(str::to_owned).collect(),
        Err(error) => {
            tracing::info!(
                error = weir_auth::error_chain(&error),
                "a delegated proxy is not good any more"
            );
            Vec::new()
        }
    }
}

/// `DELETE /delegation/{id}`.
async fn remove(service: State, caller: Caller, Path(id): Path<String>) -> Answer {
    own(&caller, &id)?;
    let removed = service
        .read(move |store| {
            store.discard(&request_name(&caller))?;
            store.discard(&proxy_name(&caller.owner()))
        })
        .await?;
    if removed {
        Ok(text("text/plain", StatusCode::NO_CONTENT, ""))
    } else {
        Err(ApiError::not_found("Delegation ID not found"))
    }
}

/// `GET /delegation/{id}/request`: the request that the client signs.
async fn request(
    service: State,
    caller: Caller,
    Extension(making): Extension<Arc<Making>>,
    Path(id): Path<String>,
) -> Answer {
    own(&caller, &id)?;
    let _one = making.0.lock().await;
    let fresh = time::now() + REQUEST_LIFE - REQUEST_SHARED;
    let known = kept(&service, request_name(&caller)).await?;
    let shared = known.filter(|known| known.until > fresh);
    let pem = if let Some(known) = shared {
        split(known.secret.expose()).0.to_owned()
    } else {
        let made = tokio::task::spawn_blocking(delegation::Request::new).await;
        let made = made.map_err(|_| ApiError::unavailable("The service is stopping"))?;
        let made = made.map_err(|error| {
            tracing::error!(
                error = weir_auth::error_chain(&error),
                "could not make a request for delegation"
            );
            ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "The request could not be made")
        })?;
        let secret = format!("{}{}", made.csr_pem, made.key_pem.expose());
        let kept = Kept {
            name: request_name(&caller),
            secret: Secret::new(secret),
            until: time::now() + REQUEST_LIFE,
        };
        // Another node may have made one meanwhile: the first stands.
        let first = service
            .read(move |store| store.keep_first(&kept, time::now(), fresh))
            .await?;
        split(first.secret.expose()).0.to_owned()
    };
    let pem = format!("{}\n", pem.trim_end());
    let mut answer = text("text/plain; charset=utf-8", StatusCode::OK, pem);
    if let Ok(id) = HeaderValue::from_str(&id) {
        answer
            .headers_mut()
            .insert(HeaderName::from_static("x-delegation-id"), id);
    }
    Ok(answer)
}

/// Request and key, which are kept as one text.
fn split(kept: &str) -> (&str, &str) {
    const END: &str = "-----END CERTIFICATE REQUEST-----";
    let end = kept.find(END).map_or(0, |place| place + END.len());
    let (request, key) = kept.split_at(end);
    (request, key.trim_start())
}

/// `PUT` or `POST /delegation/{id}/credential`: the signed proxy.
async fn credential(service: State, caller: Caller, Path(id): Path<String>, body: bytes::Bytes) -> Answer {
    let identity = own(&caller, &id)?;
    let wrong = |why: &str| ApiError::bad_request(format!("Could not process the proxy: {why}"));
    let chain_pem = std::str::from_utf8(&body).map_err(|_| wrong("it is no text"))?;
    let Some(known) = kept(&service, request_name(&caller)).await? else {
        return Err(ApiError::bad_request("No credential cache found"));
    };
    let callers = service.callers.get();
    let certificates = callers.certificates.as_ref();
    let certificates = certificates.ok_or_else(|| ApiError::not_found("Certificates are not taken here"))?;
    let key = Secret::new(split(known.secret.expose()).1);
    let accepted = delegation::accept(&key, chain_pem, identity, &certificates.clients, time::system());
    let accepted = accepted.map_err(|error| wrong(&weir_auth::error_chain(&error)))?;
    let proxy = Kept {
        name: proxy_name(&caller.owner()),
        secret: accepted.pem,
        until: millis(accepted.identity.not_after),
    };
    keep(&service, proxy).await?;
    tracing::info!(user = caller.user_dn, id, "a proxy was delegated");
    Ok(text("text/plain", StatusCode::CREATED, ""))
}

pub(crate) fn millis(at: SystemTime) -> Millis {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    Millis::try_from(since.as_millis()).unwrap_or(Millis::MAX)
}

/// Checks the delegated proxy for a submission without tokens.
///
/// # Errors
/// 419, in FTS3's words.
pub(crate) async fn require(service: &Door, caller: &Caller) -> Result<(), ApiError> {
    let now = time::latest();
    let name = proxy_name(&caller.owner());
    let left = match service.read(move |store| store.kept(&name)).await? {
        None => {
            return Err(ApiError::delegate(format!(
                "No delegation found for \"{}\"",
                caller.user_dn
            )));
        }
        Some(proxy) => proxy.until - now,
    };
    match left {
        ..=0 => Err(ApiError::delegate("The delegated credentials expired; delegate again")),
        1..LEFT_MIN => Err(ApiError::delegate(
            "The delegated credentials has less than one hour left; delegate again",
        )),
        _ => Ok(()),
    }
}

/// The delegated proxy of a user, for immediate use.
///
/// # Errors
/// 419, in FTS3's words.
pub(crate) async fn proxy(service: &Door, caller: &Caller) -> Result<Kept, ApiError> {
    let name = proxy_name(&caller.owner());
    match service.read(move |store| store.kept(&name)).await? {
        None => Err(ApiError::delegate("No delegated proxy available")),
        Some(proxy) if proxy.until <= time::latest() => {
            let id = &caller.cred_id;
            Err(ApiError::delegate(format!("Delegated proxy expired ({id})")))
        }
        Some(proxy) => Ok(proxy),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test may panic")]
    use super::*;

    #[test]
    fn old_clients_are_told_by_null() {
        let check = |agent: &str, expected: bool| {
            let mut headers = HeaderMap::new();
            headers.insert(header::USER_AGENT, agent.parse().unwrap());
            assert_eq!(is_old_client(&headers), expected, "{agent}");
        };
        check("fts-rest-cli/3.11.2", true);
        check("fts-python-bindings/3.2", true);
        check("fts-rest-cli/3.12.0", false);
        check("fts-python-bindings/3.14.2", false);
        check("curl/7.88", false);
    }

    #[test]
    fn request_and_key_are_told_apart() {
        let made = delegation::Request::new().unwrap();
        let kept = format!("{}{}", made.csr_pem, made.key_pem.expose());
        let (request, key) = split(&kept);
        assert_eq!(request.trim(), made.csr_pem.trim());
        assert_eq!(key.trim(), made.key_pem.expose().trim());
    }
}
