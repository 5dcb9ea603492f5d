//! `/config`, `/config/audit`, `/config/authorize`: the service itself.

use axum::response::Response;
use serde_json::json;

use super::super::{
    State,
    answer::{Answer, ok},
    caller::Caller,
};
use crate::time;

/// Changes that are shown, as in FTS3.
const SHOWN: usize = 100;

/// `GET /config`: the hosts of this service.
pub(super) async fn hosts(service: State, caller: Caller) -> Answer {
    caller.require_admin()?;
    Ok(ok(&json!([{
        "hostname": service.host,
        "service_name": "weir_transfer",
        "beat": time::format(time::now()),
        "drain": false,
    }])))
}

/// `GET /config/audit`: who changed what, the newest first.
pub(super) async fn audit(service: State, caller: Caller) -> Answer {
    caller.require_admin()?;
    Ok(ok(&service.settings.audit.newest(SHOWN)))
}

/// `GET /config/authorize`: who may change the configuration. Grants come from the configuration file alone.
pub(super) async fn administrators(service: State, caller: Caller) -> Answer<Response> {
    caller.require_admin()?;
    let admins = service.admins.iter().filter_map(|admin| admin.subject.as_ref());
    let grants = admins.map(|subject| json!({ "dn": subject, "operation": "config" }));
    Ok(ok(&grants.collect::<Vec<_>>()))
}
