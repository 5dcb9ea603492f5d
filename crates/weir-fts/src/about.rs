//! Requests about the service: its identity, its caller, and its health.

use std::time::SystemTime;

use axum::{Extension, response::Response};
use http::{HeaderMap, StatusCode};
use serde_json::json;
use weir_auth::x509::roles;
use weir_http::ConnectionInfo;
use weir_service::health::{Readiness, ask_issuers};

use super::{
    answer::{Answer, ApiError, json_answer, ok, text},
    caller::{By, Caller},
};
use crate::state::State;
use crate::submission::{self, BASE_ID};
use weir_transfer::config::Level;

/// `GET /`: every client asks this first, and reads `api` as numbers.
pub(super) async fn service_document() -> Response {
    ok(&json!({
        "delegation": { "major": 1, "minor": 0, "patch": 0 },
        "api": { "major": 3, "minor": 14, "patch": 0 },
        "core": null,
        "schema": { "major": 0, "minor": 0, "patch": 0, "message": "Weir keeps its own schema" },
        "weir": { "version": env!("CARGO_PKG_VERSION") },
        "_links": {
            "curies": [{ "name": "fts", "href": "https://gitlab.cern.ch/fts/fts3" }],
            "fts:whoami": { "href": "/whoami", "title": "Check user certificate" },
            "fts:joblist": {
                "href": "/jobs{?vo_name,user_dn,dlg_id,state_in}",
                "title": "List of active jobs",
                "templated": true
            },
            "fts:job": {
                "href": "/jobs/{id}",
                "title": "Job information",
                "templated": true,
                "hints": { "allow": ["GET", "DELETE", "POST"] }
            },
            "fts:submitschema": { "href": "/api-docs/schema/submit", "title": "JSON schema of messages" },
            "fts:jobsubmit": {
                "href": "/jobs",
                "hints": { "allow": ["POST", "PUT"], "representations": ["fts:submitschema"] }
            },
            "fts:config": { "href": "/config/se", "title": "Server configuration" }
        }
    }))
}

/// `GET /whoami`.
pub(super) async fn whoami(caller: Caller) -> Response {
    let (mut vos, mut fqans, mut method) = (vec![caller.vo.as_str()], Vec::new(), "oauth2");
    if let By::Certificate(identity) = &caller.by {
        method = "certificate";
        fqans = identity.fqans().collect();
        for attributes in &identity.voms {
            if !vos.contains(&attributes.vo.as_str()) {
                vos.push(&attributes.vo);
            }
        }
    }
    let ids = vos.iter().map(|vo| uuid::Uuid::new_v5(&BASE_ID, vo.as_bytes()));
    let config = caller.is_admin().then_some(caller.level);
    ok(&json!({
        "user_dn": caller.user_dn,
        "dn": [caller.user_dn],
        "base_id": BASE_ID,
        "voms_cred": fqans,
        "vos": vos,
        "vos_id": ids.collect::<Vec<_>>(),
        "roles": roles(fqans.iter().copied()),
        "level": { "transfer": caller.reach, "datamanagement": Level::All, "config": config },
        "delegation_id": caller.cred_id,
        "method": method,
        "is_root": caller.is_admin(),
    }))
}

/// `GET /whoami/certificate`: the user's own, without proxies.
pub(super) async fn certificate(caller: Caller) -> Answer {
    let identity = caller.certificate()?;
    let pem = weir_auth::ca::to_pem(&identity.certificate);
    Ok(text("application/x-pem-file", StatusCode::OK, pem))
}

/// `GET /api-docs/schema/submit`.
pub(super) async fn submit_schema() -> Response {
    ok(&submission::submit_schema())
}

/// `GET /.well-known/weir/health`: 200 if the service does its work, else 503 with the reason.
pub(super) async fn health(service: State) -> Response {
    match service.driver.trouble() {
        None => {
            if let Some(reason) = service.watchdog.trouble() {
                return trouble(
                    &reason,
                    "see whether the log names the store or the sink of events; if not, restart the service (nothing is lost) and report this",
                );
            }
            let mut answer = json!({ "status": "ok" });
            let (rows, aside) = (service.driver.unreadable(), service.driver.set_aside());
            if !rows.is_empty() {
                answer["unreadable"] = json!(rows);
            }
            if aside > 0 {
                answer["set_aside"] = json!(aside);
            }
            ok(&answer)
        }
        Some(reason) => trouble(&reason, weir_transfer::store::remedy(&reason)),
    }
}

/// `GET /.well-known/weir/ready`: 200 if this node can serve requests, else 503. The reason is only for callers that
/// may read metrics.
pub(super) async fn ready(
    service: State,
    Extension(connection): Extension<ConnectionInfo>,
    headers: HeaderMap,
) -> Response {
    let (callers, now) = (service.callers.get(), SystemTime::now());
    let asked = ask_issuers(&callers.verifier, now);
    let mut found = Readiness::default();
    let (trouble, stalled) = (service.driver.trouble(), service.watchdog.trouble());
    found.troubles.extend(trouble.or(stalled));
    let (rows, aside) = (service.driver.unreadable().len(), service.driver.set_aside());
    if rows > 0 {
        let text = format!("{rows} rows of the store were passed over, see health");
        found.warnings.push(text);
    }
    if aside > 0 {
        let text = format!("{aside} changes were set aside, see the log");
        found.warnings.push(text);
    }
    found.certificate(service.reloads.certificate_end(), now);
    found.issuers(&callers.verifier, callers.vos.len(), now, asked).await;
    let reasons = weir_http::comes_from(&callers.metrics_allow, connection.peer.ip(), &headers);
    let (status, answer) = found.answer(reasons);
    json_answer(status, &answer)
}

fn trouble(reason: &str, remedy: &str) -> Response {
    json_answer(
        StatusCode::SERVICE_UNAVAILABLE,
        &json!({ "status": "trouble", "reason": reason, "remedy": remedy }),
    )
}

/// `GET /.well-known/weir/nodes`: the nodes that serve the same queue.
pub(super) async fn nodes(service: State, _: Caller) -> Answer {
    match &service.membership {
        Some(membership) => Ok(ok(&weir_transfer::nodes::list(membership).await?)),
        None => Err(ApiError::not_found(
            "This service is one process with a store of its own",
        )),
    }
}
