//! Requests about the service: its identity, its caller, and its health.

use std::{borrow::Cow, time::SystemTime};

use axum::{Extension, response::Response};
use http::{HeaderMap, StatusCode};
use serde_json::json;
use weir_auth::x509::roles;
use weir_fts_api::{Health, SchemaVersion, ServiceDocument, Version, WhoAmI};
use weir_http::ConnectionInfo;
use weir_service::health::{Readiness, ask_issuers};

use crate::jobs::submission::BASE_ID;
use crate::state::State;
use crate::{
    access::caller::{By, Caller},
    messages::answer::{Answer, ApiError, json_answer, ok, text},
};
use weir_transfer::config::Level;

/// `GET /`: every client asks this first, and reads `api` as numbers.
pub(crate) async fn service_document() -> Response {
    let version = |major, minor| Version { major, minor, patch: 0 };
    ok(&ServiceDocument {
        delegation: version(1, 0),
        api: version(3, 14),
        core: None,
        schema: SchemaVersion {
            version: version(0, 0),
            message: "Weir keeps its own schema".into(),
        },
        weir: json!({ "version": env!("CARGO_PKG_VERSION") }),
        links: json!({
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
        }),
    })
}

fn texts(texts: Vec<&str>) -> Vec<Cow<'_, str>> {
    texts.into_iter().map(Cow::from).collect()
}

/// `GET /whoami`.
pub(crate) async fn whoami(caller: Caller) -> Response {
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
    ok(&WhoAmI {
        user_dn: caller.user_dn.as_str().into(),
        dn: vec![caller.user_dn.as_str().into()],
        base_id: Some(BASE_ID),
        vos_id: ids.collect(),
        roles: texts(roles(fqans.iter().copied())),
        voms_cred: texts(fqans),
        vos: texts(vos),
        level: json!({ "transfer": caller.reach, "datamanagement": Level::All, "config": config }),
        delegation_id: caller.cred_id.as_str().into(),
        method: method.into(),
        is_root: caller.is_admin(),
    })
}

/// `GET /whoami/certificate`: the user's own, without proxies.
pub(crate) async fn certificate(caller: Caller) -> Answer {
    let identity = caller.certificate()?;
    let pem = weir_auth::ca::to_pem(&identity.certificate);
    Ok(text("application/x-pem-file", StatusCode::OK, pem))
}

/// `GET /api-docs/schema/submit`.
pub(crate) async fn submit_schema() -> Response {
    ok(&weir_fts_api::submission_schema())
}

/// `GET /.well-known/weir/health`: 200 if the service does its work, else 503 with the reason.
pub(crate) async fn health(service: State) -> Response {
    match service.driver.trouble() {
        None => {
            if let Some(reason) = service.watchdog.trouble() {
                return trouble(
                    &reason,
                    "see whether the log names the store or the sink of events; if not, restart the service (nothing is lost) and report this",
                );
            }
            ok(&Health {
                status: "ok".into(),
                unreadable: service.driver.unreadable(),
                set_aside: service.driver.set_aside(),
                ..Health::default()
            })
        }
        Some(reason) => trouble(&reason, weir_transfer::store::remedy(&reason)),
    }
}

/// `GET /.well-known/weir/ready`: 200 if this node can serve requests, else 503. The reason is only for callers that
/// may read metrics.
pub(crate) async fn ready(
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
        &Health {
            status: "trouble".into(),
            reason: Some(reason.into()),
            remedy: Some(remedy.into()),
            ..Health::default()
        },
    )
}

/// `GET /.well-known/weir/nodes`: the nodes that serve the same queue.
pub(crate) async fn nodes(service: State, _: Caller) -> Answer {
    match &service.membership {
        Some(membership) => Ok(ok(&weir_transfer::nodes::list(membership).await?)),
        None => Err(ApiError::not_found(
            "This service is one process with a store of its own",
        )),
    }
}
