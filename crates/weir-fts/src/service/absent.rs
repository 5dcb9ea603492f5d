//! Features of FTS3 that this service lacks by design: answered in words, so that clients give up at once.

use std::sync::Arc;

use axum::{
    Router,
    response::{IntoResponse as _, Response},
    routing::{any, get},
};
use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::state::Door;
use crate::{
    access::caller::Caller,
    messages::answer::{Answer, ApiError, ok},
};

pub(crate) fn routes() -> Router<Arc<Door>> {
    Router::new()
        .route("/config/cloud_storage", get(cloud_storages).post(cloud_storage))
        .route("/config/cloud_storage/{name}", any(cloud_storage))
        .route("/config/cloud_storage/{name}/{id}", any(cloud_storage))
        .route("/cs/{*rest}", any(no_cloud_storage))
}

/// An unsupported method of a path. `OPTIONS` is answered with the supported ones, which the router writes into
/// `Allow`.
pub(crate) async fn other_method(method: Method) -> Response {
    if method == Method::OPTIONS {
        return StatusCode::OK.into_response();
    }
    let text = "The method is not allowed for the requested URL.";
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, text).into_response()
}

/// There are none.
async fn cloud_storages(caller: Caller) -> Answer {
    caller.require_admin()?;
    Ok(ok(&json!([])))
}

async fn cloud_storage(caller: Caller) -> Answer {
    caller.require_admin()?;
    Err(ApiError::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "Credentials of cloud storages are not kept by this service; give the storage's tokens with the job",
    ))
}

async fn no_cloud_storage(_caller: Caller) -> Answer<axum::Json<Value>> {
    Err(ApiError::not_found("No cloud storage is registered"))
}
