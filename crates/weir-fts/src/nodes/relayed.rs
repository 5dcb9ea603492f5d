//! Answers requests that another node has passed on.

use std::sync::{Arc, Weak};

use axum::{
    body::{Body, to_bytes},
    extract::Request,
    response::IntoResponse as _,
};
use futures_util::future::BoxFuture;
use http::{HeaderName, HeaderValue, header};
use tower::ServiceExt as _;
use weir_transfer::nodes::Asked;

use crate::nodes::relay::{Envelope, Heading, PATIENCE};
use crate::state::Door;
use crate::{
    access::caller::{By, Caller, Relayed},
    messages::answer::ApiError,
    router,
};

/// The scheduler's answer to another node: heading and body.
pub(crate) fn answer_node(door: Weak<Door>, asked: Asked) -> BoxFuture<'static, (String, Vec<u8>)> {
    Box::pin(async move {
        match door.upgrade() {
            Some(door) => answer(door, asked).await,
            // As if no scheduler ran here.
            None => (String::new(), Vec::new()),
        }
    })
}

async fn answer(service: Arc<Door>, asked: Asked) -> (String, Vec<u8>) {
    let request = serde_json::from_str::<Envelope>(&asked.request)
        .ok()
        .and_then(|envelope| rebuild(envelope, asked.body));
    let response = match request {
        Some(request) => {
            let answer = router(service.clone()).oneshot(request);
            // The caller has stopped waiting by then.
            match tokio::time::timeout(PATIENCE, answer).await {
                Ok(response) => response.unwrap_or_else(|never| match never {}),
                Err(_) => ApiError::unavailable("The scheduler did not answer in time; a begun change goes on")
                    .into_response(),
            }
        }
        None => ApiError::bad_request("The scheduler does not understand what another node passed on").into_response(),
    };
    let (parts, body) = response.into_parts();
    let told = |(name, value): (&HeaderName, &HeaderValue)| Some((name.to_string(), value.to_str().ok()?.to_owned()));
    let heading = Heading {
        status: parts.status.as_u16(),
        headers: parts
            .headers
            .iter()
            .filter(|(name, _)| **name != header::CONTENT_LENGTH)
            .filter_map(told)
            .collect(),
    };
    let body = to_bytes(body, usize::MAX).await.unwrap_or_default();
    (serde_json::to_string(&heading).unwrap_or_default(), body.into())
}

fn rebuild(envelope: Envelope, body: Vec<u8>) -> Option<Request> {
    let mut request = Request::new(Body::from(body));
    *request.method_mut() = envelope.method.parse().ok()?;
    *request.uri_mut() = envelope.uri.parse().ok()?;
    if let Some(content_type) = envelope.content_type {
        request
            .headers_mut()
            .insert(header::CONTENT_TYPE, content_type.parse().ok()?);
    }
    let caller = envelope.caller.map(|identity| Caller {
        user_dn: identity.user_dn,
        cred_id: identity.cred_id,
        vo: identity.vo,
        level: identity.level,
        reach: identity.reach,
        by: By::Elsewhere {
            certificate: identity.certificate,
        },
    });
    request.extensions_mut().insert(Relayed(caller));
    Some(request)
}
