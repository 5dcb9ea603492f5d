//! Settings, changed while the service runs: durable, at once in effect, on record. For administrators.

mod global;
mod groups;
mod links;
mod machine;
mod routes;
mod shares;
mod storages;

use std::sync::Arc;

use http::StatusCode;
use serde_json::Value;

use crate::access::caller::Caller;
use crate::messages::answer::{Answer, ApiError, json_answer, ok};
use weir_service::time;
use weir_transfer::{
    driver::Request,
    settings::{Invalid, Kind, Object, RowKey, Settings},
};

use crate::state::Door;
pub(crate) use routes::routes;

/// Rows as a change leaves them; `None` removes one.
type Changed = Vec<(RowKey, Option<Object>)>;

impl From<Invalid> for ApiError {
    fn from(invalid: Invalid) -> Self {
        Self::bad_request(invalid.to_string())
    }
}

fn object(body: Value) -> Answer<Object> {
    match body {
        Value::Object(object) => Ok(object),
        _ => Err(ApiError::bad_request("The body is not an object")),
    }
}

/// Makes a change: `rows` returns the new values of rows; other changes wait meanwhile. It continues if the client
/// leaves.
pub(crate) async fn change(
    service: &Arc<Door>,
    caller: &Caller,
    action: &'static str,
    config: String,
    rows: impl FnOnce(&Settings) -> Answer<Changed> + Send + 'static,
) -> Answer<()> {
    caller.require_admin()?;
    let (service, who) = (service.clone(), caller.user_dn.clone());
    let changed = tokio::spawn(async move {
        let _alone = service.settings.changing.lock().await;
        let mut draft = service.settings.draft(rows(&service.settings)?)?;
        let (entry, written) = service.settings.audit.draft(time::now(), &who, action, config);
        let settings = std::mem::take(&mut draft.settings);
        let changes = std::mem::take(&mut draft.changes);
        let changes = changes.into_iter().chain(written).collect();
        service
            .driver
            .ask(|reply| Request::Settings {
                settings,
                changes,
                reply,
            })
            .await?;
        tracing::info!(who, action, entry.config, "a setting was changed");
        service.settings.note(draft);
        service.settings.audit.note(entry);
        Ok(())
    });
    changed
        .await
        .map_err(|_| ApiError::unavailable("The service is stopping"))?
}

/// A change that removes one row, which must be there if `missing` says so.
async fn remove(
    service: &Arc<Door>,
    caller: &Caller,
    action: &'static str,
    key: RowKey,
    missing: Option<ApiError>,
) -> Answer<()> {
    let name = key.1.clone();
    change(service, caller, action, name, move |settings| {
        match (settings.get(key.0, &key.1), missing) {
            (None, Some(error)) => Err(error),
            _ => Ok(vec![(key, None)]),
        }
    })
    .await
}

/// `GET` of a collection: every row of the kind.
fn listed(service: &Door, caller: &Caller, kind: Kind) -> Answer {
    caller.require_admin()?;
    let rows = service.settings.all(kind).into_iter();
    Ok(ok(&rows.map(|(_, row)| row).collect::<Vec<_>>()))
}

/// `DELETE` of an existing row; `what` is its name for people.
async fn forgotten(service: &Arc<Door>, caller: &Caller, action: &'static str, key: RowKey, what: &str) -> Answer {
    let missing = ApiError::not_found(format!("{what} {} does not exist", key.1));
    remove(service, caller, action, key, Some(missing)).await?;
    Ok(json_answer(StatusCode::NO_CONTENT, &Value::Null))
}

/// One row.
fn row(service: &Door, caller: &Caller, kind: Kind, name: &str, missing: &str) -> Answer<Object> {
    caller.require_admin()?;
    let row = service.settings.get(kind, name);
    row.ok_or_else(|| ApiError::not_found(missing))
}
