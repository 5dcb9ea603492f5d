//! Replicas.

use std::collections::{BTreeMap, BTreeSet};

use axum::extract::{Path, Query};
use serde_json::{Map, Value, json};
use weir_database::Session;
use weir_model::catalog::{Did, ReplicaState};
use weir_service::time;

use super::{
    State,
    answer::{Answer, Failure, created, date, done, json_answer, lines},
    body::Object,
    caller::Caller,
    data::{self, did_of, may_change, new_replica},
    rses,
};
use crate::{
    dids::{self, content},
    paths,
    permissions::Operation,
    refusal::{Class, Refusal},
    replicas::{self, datasets, datasets::Held},
    rses::{protocols, protocols::Protocol},
};

/// `POST /replicas`.
pub(crate) async fn add(door: State, caller: Caller, body: Object) -> Answer {
    let (rse, now) = (rses::name(body.needed("rse")?)?, time::now());
    let files = body
        .list("files")?
        .iter()
        .map(new_replica)
        .collect::<Result<Vec<_>, _>>()?;
    let write = move |session: &mut dyn Session| data::register(session, &caller, (&rse, &files), now);
    door.database.write(write).await?;
    Ok(created())
}

/// `PUT /replicas`: states that clients tell.
pub(crate) async fn set_states(door: State, caller: Caller, body: Object) -> Answer {
    let (rse, now) = (rses::name(body.needed("rse")?)?, time::now());
    let one = |file: &Object| {
        let state = file.needed("state")?;
        let known = ReplicaState::ALL
            .iter()
            .find(|one| one.letter().to_string() == state || one.as_str() == state);
        let known = known.ok_or_else(|| Failure::value(format!("{state:?} is no state of a replica")))?;
        Ok::<_, Failure>((did_of(file)?, *known))
    };
    let files = body.list("files")?.iter().map(one).collect::<Result<Vec<_>, _>>()?;
    let write = move |session: &mut dyn Session| {
        for scope in files.iter().map(|(did, _)| &did.scope).collect::<BTreeSet<_>>() {
            may_change(session, &caller, Operation::AddReplicas, scope)?;
        }
        let rse = crate::rses::get(session, &rse)?.id;
        let mut states = BTreeMap::new();
        for (did, state) in &files {
            states.insert(dids::get(session, did)?.id, *state);
        }
        replicas::set_states(session, rse, &states, now)
    };
    door.database.write(write).await?;
    Ok(done())
}

/// `GET /replicas/{scope}/{name}/datasets`: how much of a collection each RSE holds. It is counted anew, so that `deep` changes nothing.
pub(crate) async fn of_dataset(door: State, _: Caller, Path((scope, name)): Path<(String, String)>) -> Answer {
    let did = data::did(&scope, &name)?;
    let of = did.clone();
    let read = move |session: &mut dyn Session| {
        let id = dids::get(session, &of)?.id;
        Ok((content::size(session, id)?, datasets::of(session, id)?))
    };
    let ((n_files, bytes), held) = door.database.read(read).await?;
    let row = |one: &Held| {
        let state = if one.n_files == n_files {
            ReplicaState::Available
        } else {
            ReplicaState::Unavailable
        };
        json!({
            "scope": did.scope, "name": did.name, "rse": one.rse, "rse_id": one.rse_uid, "bytes": bytes, "length": n_files,
            "available_bytes": one.bytes, "available_length": one.n_files, "state": state, "created_at": date(one.times.0),
            "updated_at": date(one.times.1), "accessed_at": null,
        })
    };
    Ok(lines(held.iter().map(row)))
}

/// `GET /rses/{rse}/lfns2pfns`.
pub(crate) async fn paths_of(
    door: State,
    _: Caller,
    Path(rse): Path<String>,
    Query(query): Query<Vec<(String, String)>>,
) -> Answer {
    let rse = rses::name(&rse)?;
    let asked = |key: &str| {
        query
            .iter()
            .find(|(name, _)| name == key)
            .map(|(_, value)| value.clone())
    };
    let (scheme, operation) = (asked("scheme"), asked("operation").unwrap_or_else(|| "write".into()));
    let dids = query.iter().filter(|(key, _)| key == "lfn").map(|(_, text)| {
        let parsed = text.parse::<Did>();
        parsed.map_err(|error| Failure::from(Refusal::new(Class::InvalidObject, error.to_string())))
    });
    let dids = dids.collect::<Result<Vec<_>, _>>()?;
    let read = move |session: &mut dyn Session| {
        let found = crate::rses::get(session, &rse)?;
        protocols::of(session, found.id)
    };
    let priority = |one: &Protocol| match operation.as_str() {
        "read" => one.priorities.wan_read,
        "delete" => one.priorities.wan_delete,
        "third_party_copy_read" => one.priorities.tpc_read,
        "third_party_copy_write" => one.priorities.tpc_write,
        _ => one.priorities.wan_write,
    };
    let all = door.database.read(read).await?;
    let fits = |one: &&Protocol| {
        let is_scheme = scheme
            .as_ref()
            .is_none_or(|scheme| scheme.split(',').any(|one_of| one_of == one.endpoint.scheme));
        is_scheme && priority(one).is_some()
    };
    let best = all.iter().filter(fits).min_by_key(|one| priority(one));
    let missing = || {
        let message = format!("The RSE has no protocol for {operation}");
        Failure::from(Refusal::new(Class::RseProtocolNotSupported, message))
    };
    let best = best.ok_or_else(missing)?;
    let urls = dids
        .iter()
        .map(|did| (did.to_string(), Value::from(paths::url(best, &paths::hashed(did)))));
    Ok(json_answer(&urls.collect::<Map<_, _>>()))
}
