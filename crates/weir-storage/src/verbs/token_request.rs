//! POST: requests for tokens of the endpoint's own, in the form of macaroons or of OAuth 2.0.
//!
//! A token grants no more than its caller may do at that moment, at one path and below, and expires no later than the
//! caller's own credential.

use std::{
    collections::BTreeSet,
    time::{Duration, SystemTime},
};

use http::{Response, StatusCode, header};
use serde_json::json;
use weir_auth::{Scope, StorageAction, StoragePath, mint::Minted};
use weir_http::Body;

use super::ALLOW;
use crate::{
    access::{Caller, Mintage},
    refusal::Refusal,
    service::Call,
    token_request::{FormError, RequestedRight, TokenRequest, parse_form, parse_macaroon},
    well_known::json_answer,
};

/// Where forms are posted.
const ENDPOINT: &str = "/.well-known/weir/token";
/// RFC 8414 section 3, and where clients look that know OpenID Connect only.
const METADATA: [&str; 2] = [
    "/.well-known/oauth-authorization-server",
    "/.well-known/openid-configuration",
];
/// Largest body: paths of 32 requested rights.
const BODY_MAX: usize = 64 << 10;
/// How long a token lives if the client does not say.
const LIFETIME: Duration = Duration::from_secs(3600);

/// The answer to a request at one of the endpoint's well-known token paths; `None` for other paths.
pub(crate) async fn at_well_known(call: &mut Call, path: &str) -> Option<Result<Response<Body>, Refusal>> {
    call.endpoint.mintage.as_ref()?;
    match call.method.as_str() {
        "GET" if METADATA.contains(&path) => Some(Ok(metadata(call))),
        "POST" if path == ENDPOINT => Some(form(call).await),
        _ => None,
    }
}

fn metadata(call: &Call) -> Response<Body> {
    let url = &call.endpoint.url;
    json_answer(
        StatusCode::OK,
        &json!({
            "issuer": url,
            "token_endpoint": format!("{url}{ENDPOINT}"),
            "grant_types_supported": ["client_credentials"],
            "token_endpoint_auth_methods_supported": ["tls_client_auth"],
            "response_types_supported": [],
        }),
    )
}

/// POST of `application/macaroon-request` on the path that the token is for.
pub(super) async fn macaroon(call: &mut Call) -> Result<Response<Body>, Refusal> {
    if call.endpoint.mintage.is_none() || !is_of(call, "application/macaroon-request") {
        // A client that gets a file instead of a refusal reads it to its end.
        return Err(Refusal::method_not_allowed("POST is not offered", ALLOW));
    }
    let caller = call.known_caller().await?;
    let body = call.read_body(BODY_MAX).await?;
    let request = parse_macaroon(&body, &call.path).map_err(Refusal::bad_request)?;
    let made = make(call, &caller, &request)?;
    Ok(json_answer(
        StatusCode::OK,
        &json!({ "macaroon": made.minted.token.expose(), "expires_in": made.seconds }),
    ))
}

async fn form(call: &mut Call) -> Result<Response<Body>, Refusal> {
    if !is_of(call, "application/x-www-form-urlencoded") {
        let text = "a request for a token is a form";
        return Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, text));
    }
    let caller = call.known_caller().await?;
    let body = call.read_body(BODY_MAX).await?;
    let request = match parse_form(&body) {
        Ok(request) => request,
        Err(error) => return Ok(form_refused(call, &error)),
    };
    let made = match make(call, &caller, &request) {
        Ok(made) => made,
        Err(refusal) => {
            let (code, text) = ("invalid_scope", refusal.reason);
            return Ok(form_refused(call, &FormError { code, text }));
        }
    };
    Ok(json_answer(
        StatusCode::OK,
        &json!({
            "access_token": made.minted.token.expose(),
            "token_type": "Bearer",
            "expires_in": made.seconds,
            "scope": made.scope,
        }),
    ))
}

/// RFC 6749 section 5.2.
fn form_refused(call: &Call, error: &FormError) -> Response<Body> {
    call.exchange().failed(&*error.text);
    let text = weir_auth::redact(&error.text);
    json_answer(
        StatusCode::BAD_REQUEST,
        &json!({ "error": error.code, "error_description": text }),
    )
}

struct Made {
    minted: Minted,
    scope: String,
    /// How long it lives.
    seconds: u64,
}

fn make(call: &Call, caller: &Caller, request: &TokenRequest) -> Result<Made, Refusal> {
    let now = SystemTime::now();
    let mintage = call.endpoint.mintage.as_ref().expect("it was asked for before");
    let mut scopes = Vec::new();
    for wish in &request.rights {
        // Reserved names are refused as everywhere.
        call.endpoint.names.find(&wish.path)?;
        scopes.extend(granted(caller, wish)?);
    }
    if scopes.is_empty() {
        return Err(nothing(&request.rights[0].path));
    }
    let end = end(mintage, caller, request, now);
    let seconds = end.duration_since(now).unwrap_or_default().as_secs();
    if seconds == 0 {
        return Err(Refusal::bad_request("the token would be over before it begins"));
    }
    let minted = mintage.mint.mint(caller.subject(), caller.vo(), &scopes, now, end);
    let scope = scopes.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    tracing::info!(id = minted.id, subject = caller.subject(), scope, seconds, "token made");
    Ok(Made { minted, scope, seconds })
}

/// The requested rights that the caller has.
fn granted(caller: &Caller, wish: &RequestedRight) -> Result<Vec<Scope>, Refusal> {
    caller.check_hand_on(&wish.path)?;
    let all = || StorageAction::ALL.into_iter().collect::<BTreeSet<_>>();
    let mut actions = wish.actions.clone().unwrap_or_else(all);
    actions.retain(|action| caller.has(*action, &wish.path));
    if actions.contains(&StorageAction::Modify) {
        actions.remove(&StorageAction::Create);
    }
    let scope = |action| Scope::Storage {
        action,
        path: wish.path.clone(),
    };
    Ok(actions.into_iter().map(scope).collect())
}

fn nothing(path: &StoragePath) -> Refusal {
    Refusal::new(
        StatusCode::FORBIDDEN,
        format!("a token for {path} cannot be made: you have none of the requested rights on {path}"),
    )
}

/// The first of all ends.
fn end(mintage: &Mintage, caller: &Caller, request: &TokenRequest, now: SystemTime) -> SystemTime {
    let lifetime = request.lifetime.unwrap_or(LIFETIME).min(mintage.lifetime);
    [caller.until(), request.before]
        .into_iter()
        .flatten()
        .fold(now + lifetime, SystemTime::min)
}

/// Whether the request's body is of this type; parameters are passed over.
fn is_of(call: &Call, wanted: &str) -> bool {
    let named = call.header(header::CONTENT_TYPE.as_str()).unwrap_or_default();
    let named = named.split(';').next().unwrap_or_default();
    named.trim().eq_ignore_ascii_case(wanted)
}
