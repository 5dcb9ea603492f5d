//! `/config`, `/config/audit`, `/config/authorize`: the service itself.

use axum::response::Response;
use serde_json::{Value, json};

use super::change;
use crate::{
    access::caller::Caller,
    messages::{
        answer::{Answer, ApiError, ok},
        body::JsonBody,
    },
    state::State,
};
use weir_fts_api::{FtsTime, Host};
use weir_service::time;
use weir_transfer::settings::{Kind, Object};

/// The name of the one row of this kind: hosts come and go under other names, the scheduler stays.
const SCHEDULER: &str = "scheduler";

/// Changes that are shown, as in FTS3.
const SHOWN: usize = 100;

/// `GET /config`: the hosts of this service.
pub(super) async fn hosts(service: State, caller: Caller) -> Answer {
    caller.require_admin()?;
    Ok(ok(&[Host {
        hostname: service.host.as_str().into(),
        service_name: "weir_transfer".into(),
        beat: FtsTime(time::now()),
        drain: service.settings.get(Kind::Drain, SCHEDULER).is_some(),
    }]))
}

/// `POST /config/drain`, `{"hostname", "drain"}`: a draining host starts nothing; running transfers come to their end,
/// and new ones are queued.
pub(super) async fn drain(service: State, caller: Caller, JsonBody(body): JsonBody) -> Answer {
    caller.require_admin()?;
    let (host, drain) = match (body.get("hostname"), body.get("drain").unwrap_or(&json!(true))) {
        (Some(Value::String(host)), Value::Bool(drain)) => (host, *drain),
        _ => return Err(ApiError::bad_request("Invalid drain request")),
    };
    if *host != service.host {
        return Err(ApiError::bad_request("Host not found"));
    }
    let row = drain.then(Object::new);
    change(&service, &caller, "drain", body.to_string(), move |_| {
        Ok(vec![((Kind::Drain, SCHEDULER.to_owned()), row)])
    })
    .await?;
    Ok(ok(&Value::Null))
}

/// `GET /config/audit`: the audit log, the newest first.
pub(super) async fn audit(service: State, caller: Caller) -> Answer {
    caller.require_admin()?;
    Ok(ok(&service.settings.audit.newest(SHOWN)))
}

/// `GET /config/authorize`: the administrators. Grants come from the configuration file alone.
pub(super) async fn administrators(service: State, caller: Caller) -> Answer<Response> {
    caller.require_admin()?;
    let callers = service.callers.get();
    let admins = callers.admins.iter();
    let names = admins.filter_map(|admin| admin.dn.as_ref().or(admin.subject.as_ref()));
    let grants = names.map(|name| json!({ "dn": name, "operation": "config" }));
    Ok(ok(&grants.collect::<Vec<_>>()))
}
