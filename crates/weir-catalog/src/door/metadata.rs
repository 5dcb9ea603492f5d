//! Metadata of DIDs.

use std::collections::HashMap;

use axum::extract::{Path, Query};
use serde_json::{Map, Value};
use weir_database::Session;
use weir_model::catalog::Did;
use weir_service::time;

use super::{
    State,
    answer::{Answer, Failure, created, date, done, json_answer, lines},
    body::Object,
    caller::Caller,
    data::{did, did_of, may_change},
};
use crate::{
    dids::{self, Known, metadata},
    permissions::Operation,
    refusal::{Class, Refusal},
};

/// The keys that are asked for, with Rucio's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Plugin {
    /// Rucio's columns.
    Columns,
    /// All other keys.
    Own,
    All,
}

fn plugin(name: Option<&str>) -> Result<Plugin, Failure> {
    match name.unwrap_or("DID_COLUMN") {
        "DID_COLUMN" => Ok(Plugin::Columns),
        "JSON" => Ok(Plugin::Own),
        "ALL" => Ok(Plugin::All),
        other => Err(Failure::not_built(&format!(
            "the metadata plugin {other} is not built here; there is DID_COLUMN, JSON, ALL"
        ))),
    }
}

fn shown(known: &Known, plugin: Plugin) -> Result<Map<String, Value>, Failure> {
    let mut shown = match plugin {
        Plugin::Own => Map::new(),
        _ => metadata::columns(known, date)?,
    };
    if plugin != Plugin::Columns {
        let own = metadata::given(known)?.into_iter();
        shown.extend(own.filter(|(key, _)| !metadata::COLUMNS.contains(&key.as_str())));
    }
    Ok(shown)
}

/// `GET /dids/{scope}/{name}/meta`.
pub(crate) async fn get(
    door: State,
    _: Caller,
    Path((scope, name)): Path<(String, String)>,
    Query(query): Query<HashMap<String, String>>,
) -> Answer {
    let (did, plugin) = (did(&scope, &name)?, plugin(query.get("plugin").map(String::as_str))?);
    let read = move |session: &mut dyn Session| dids::get(session, &did);
    let known = door.database.read(read).await?;
    Ok(json_answer(&shown(&known, plugin)?))
}

/// `POST /dids/bulkmeta`: unknown DIDs are left out.
pub(crate) async fn of_many(door: State, _: Caller, body: Object) -> Answer {
    let plugin = plugin(body.text("plugin")?)?;
    if body.flag("inherit")?.unwrap_or_default() {
        return Err(Failure::not_built("inherited metadata is not built here yet"));
    }
    let dids = body.list("dids")?.iter().map(did_of).collect::<Result<Vec<Did>, _>>()?;
    let read = move |session: &mut dyn Session| {
        let mut all = Vec::new();
        for did in &dids {
            match dids::get(session, did) {
                Ok(known) => all.push(known),
                Err(error)
                    if error
                        .refusal::<Refusal>()
                        .is_some_and(|refusal| refusal.class == Class::DidNotFound) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(all)
    };
    let found = door.database.read(read).await?;
    let rows = found
        .iter()
        .map(|known| shown(known, plugin))
        .collect::<Result<Vec<_>, _>>()?;
    Ok(lines(rows))
}

async fn setting(door: &State, caller: Caller, did: Did, keys: Map<String, Value>, recursive: bool) -> Answer {
    if recursive {
        return Err(Failure::not_built(
            "metadata for all content of a collection is not built here yet",
        ));
    }
    let now = time::now();
    let write = move |session: &mut dyn Session| {
        may_change(session, &caller, Operation::ChangeDids, &did.scope)?;
        metadata::set(session, &did, &keys, now)
    };
    door.database.write(write).await?;
    Ok(created())
}

/// `POST /dids/{scope}/{name}/meta/{key}`.
pub(crate) async fn set(
    door: State,
    caller: Caller,
    Path((scope, name, key)): Path<(String, String, String)>,
    body: Object,
) -> Answer {
    let value = body.value("value").cloned().unwrap_or(Value::Null);
    let recursive = body.flag("recursive")?.unwrap_or_default();
    setting(
        &door,
        caller,
        did(&scope, &name)?,
        Map::from_iter([(key, value)]),
        recursive,
    )
    .await
}

/// `POST /dids/{scope}/{name}/meta`: several keys.
pub(crate) async fn set_many(
    door: State,
    caller: Caller,
    Path((scope, name)): Path<(String, String)>,
    body: Object,
) -> Answer {
    let keys = body.value("meta").and_then(Value::as_object).cloned();
    let keys = keys.ok_or_else(|| super::body::missing("meta"))?;
    let recursive = body.flag("recursive")?.unwrap_or_default();
    setting(&door, caller, did(&scope, &name)?, keys, recursive).await
}

/// `DELETE /dids/{scope}/{name}/meta?key=…`.
pub(crate) async fn remove(
    door: State,
    caller: Caller,
    Path((scope, name)): Path<(String, String)>,
    Query(query): Query<HashMap<String, String>>,
) -> Answer {
    let (did, now) = (did(&scope, &name)?, time::now());
    let key = query.get("key").cloned().ok_or_else(|| super::body::missing("key"))?;
    let write = move |session: &mut dyn Session| {
        may_change(session, &caller, Operation::ChangeDids, &did.scope)?;
        metadata::remove(session, &did, &key, now)
    };
    door.database.write(write).await?;
    Ok(done())
}
