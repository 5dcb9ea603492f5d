//! `POST /delegation/{id}/voms`: users who delegated a plain proxy let the service fetch their VO's attributes for it.
//!
//! As in FTS3, the delegation id remains that of the user's certificate, and so does the VO of jobs; files move with
//! the proxy that carries the attributes.

use std::sync::Arc;

use axum::{Router, extract::Path, routing::post};
use http::StatusCode;
use weir_auth::x509::{AttributeRequest, short_fqan};

use crate::state::Door;
use crate::state::State;
use crate::{
    access::{
        caller::Caller,
        delegation::{attributes, millis, own},
    },
    messages::{
        answer::{Answer, ApiError, text},
        body::JsonBody,
    },
};
use weir_executor::orders::{Kept, proxy_name};
use weir_service::time::{self, Millis};

use crate::access::certificates::voms::VomsFailure;

pub(crate) fn routes() -> Router<Arc<Door>> {
    Router::new().route("/delegation/{id}/voms", post(voms))
}

/// Attributes as `voms-proxy-init -voms` takes them. The delegated proxy is replaced by one below it that carries them.
async fn voms(service: State, caller: Caller, Path(id): Path<String>, JsonBody(wanted): JsonBody) -> Answer {
    own(&caller, &id)?;
    let wanted = serde_json::from_value::<Vec<String>>(wanted);
    let wanted = wanted.map_err(|_| ApiError::bad_request("Expecting a list of strings"))?;
    let requests = AttributeRequest::read(&wanted).map_err(|error| ApiError::bad_request(error.to_string()))?;
    let name = proxy_name(&caller.owner());
    let delegated = service.read(move |store| store.kept(&name)).await?;
    let delegated = delegated.ok_or_else(|| ApiError::not_found("Delegation ID not found"))?;
    if delegated.until <= time::latest() {
        return Err(ApiError::forbidden("Delegated proxy already expired"));
    }
    if requests.is_empty() {
        return Ok(lasts(delegated.until));
    }
    let callers = service.callers.get();
    let voms = callers.certificates.as_ref().and_then(|read| read.voms.as_ref());
    let Some(voms) = voms else {
        return confirmed(&service, &delegated, &requests);
    };
    let made = voms.endow(&caller.user_dn, &delegated.secret, &requests).await;
    let made = made.map_err(|error| match error {
        VomsFailure::Busy => ApiError::unavailable(error.to_string()),
        error => failed(format!(
            "Failed to generate a proxy: {}",
            weir_auth::error_chain(&error)
        )),
    })?;
    let endowed = Kept {
        name: delegated.name.clone(),
        secret: made.pem,
        until: millis(made.identity.not_after),
    };
    let until = endowed.until;
    if !service.read(move |store| store.replace(&delegated, &endowed)).await? {
        return Err(ApiError::new(
            StatusCode::CONFLICT,
            "The delegation was renewed or deleted meanwhile",
        ));
    }
    let fqans = made.identity.fqans().collect::<Vec<_>>().join(" ");
    tracing::info!(user = caller.user_dn, id, fqans, "VOMS attributes were fetched");
    Ok(lasts(until))
}

/// Without VOMS servers, the attributes that the delegated proxy has already are confirmed.
fn confirmed(service: &Arc<Door>, delegated: &Kept, requests: &[AttributeRequest]) -> Answer {
    let has = attributes(service, delegated);
    let lacks = |fqan: &str| !has.iter().any(|has| short_fqan(has) == fqan);
    let missing = requests.iter().find_map(|request| match request.fqans.as_slice() {
        [] => Some(format!("/{}", request.vo)).filter(|root| lacks(root)),
        fqans => fqans.iter().find(|fqan| lacks(fqan)).cloned(),
    });
    match missing {
        None => Ok(lasts(delegated.until)),
        Some(missing) => Err(failed(format!(
            "The delegated proxy has no {missing}, and this service asks no VOMS server: delegate a proxy that has it, or have the \
             operator set vomses in [x509]"
        ))),
    }
}

fn failed(message: String) -> ApiError {
    ApiError::new(StatusCode::FAILED_DEPENDENCY, message)
}

/// 203, and until when.
fn lasts(until: Millis) -> axum::response::Response {
    let until = time::format(until);
    text(
        "text/plain; charset=utf-8",
        StatusCode::NON_AUTHORITATIVE_INFORMATION,
        until,
    )
}
