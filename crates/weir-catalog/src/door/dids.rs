//! Files, datasets, containers.

use std::collections::HashMap;

use axum::extract::{Path, Query};
use serde_json::{Value, json};
use weir_database::Session;
use weir_model::catalog::{AccountName, Did, DidType};
use weir_service::time::{self, Millis};
use weir_store::StoreError;

use super::{
    State,
    answer::{Answer, Failure, created, date, done, json_answer, lines},
    body::{List, Object},
    caller::Caller,
    data::{self, Told, did, did_of, may_change, new_replica},
    listing::listed,
};
use crate::{
    dids::{self, Known, NewDid, content},
    permissions::Operation,
    refusal::{Class, Refusal},
    rules::RuleTerms,
};

/// A new collection from a body.
fn new_collection(did: Did, body: &Object, account: &AccountName, now: Millis) -> Result<NewDid, Failure> {
    let kind = body.needed("type")?.parse::<DidType>();
    let kind = kind.map_err(|error| Failure::value(error.to_string()))?;
    if kind == DidType::File {
        let message = "Only collection (dataset/container) can be registered; files come with their replicas";
        return Err(Refusal::new(Class::UnsupportedOperation, message).into());
    }
    let lifetime = body.number("lifetime")?;
    Ok(NewDid {
        did,
        kind,
        account: account.clone(),
        bytes: None,
        adler32: None,
        md5: None,
        monotonic: body.object("statuses")?.flag("monotonic")?.unwrap_or_default(),
        meta: body.value("meta").map_or_else(|| "{}".to_owned(), Value::to_string),
        expires: lifetime.map(|seconds| now.saturating_add(seconds.saturating_mul(1000))),
    })
}

/// `POST /dids/{scope}/{name}`.
pub(crate) async fn add(
    door: State,
    caller: Caller,
    Path((scope, name)): Path<(String, String)>,
    body: Object,
) -> Answer {
    let (new, children) = (did(&scope, &name)?, attachments(&body)?);
    adding(&door, caller, vec![(new, body, children)]).await
}

/// `POST /dids`: several at once.
pub(crate) async fn add_many(door: State, caller: Caller, body: List) -> Answer {
    let read = |one: Object| Ok::<_, Failure>((did_of(&one)?, attachments(&one)?, one));
    let all = body
        .0
        .into_iter()
        .map(read)
        .map(|read| read.map(|(did, children, one)| (did, one, children)));
    adding(&door, caller, all.collect::<Result<_, _>>()?).await
}

type Added = (Did, Object, Attached);

/// The rules that a new DID comes with.
fn rules_of(body: &Object, caller: &Caller, now: Millis) -> Result<Vec<RuleTerms>, Failure> {
    match body.value("rules") {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(_) => body
            .list("rules")?
            .iter()
            .map(|rule| super::rules::wish(rule, caller, now))
            .collect(),
    }
}

async fn adding(door: &State, caller: Caller, all: Vec<Added>) -> Answer {
    let now = time::now();
    let news = all
        .iter()
        .map(|(did, body, _)| new_collection(did.clone(), body, caller.account(), now));
    let news = news.collect::<Result<Vec<_>, _>>()?;
    let rules = all.iter().map(|(_, body, _)| rules_of(body, &caller, now));
    let rules = rules.collect::<Result<Vec<_>, _>>()?;
    let write = move |session: &mut dyn Session| {
        for new in &news {
            may_change(session, &caller, Operation::ChangeDids, &new.did.scope)?;
        }
        dids::add(session, &news, now)?;
        let mut all = all.iter().filter(|(.., children)| !children.dids.is_empty());
        all.try_for_each(|(did, _, children)| attaching(session, &caller, did, children, now))?;
        for (new, rules) in news.iter().zip(&rules) {
            for wish in rules {
                super::rules::adding(session, &caller, (&new.did, wish), false, now)?;
            }
        }
        Ok(())
    };
    door.database.write(write).await?;
    door.tasks.evaluator.notify_one();
    Ok(created())
}

/// DIDs to attach; files may bring replicas at an RSE.
#[derive(Debug, Clone, Default)]
struct Attached {
    dids: Vec<Did>,
    at: Option<weir_model::RseName>,
    files: Vec<Told>,
}

fn attachments(body: &Object) -> Result<Attached, Failure> {
    let all = body.list("dids")?;
    let at = body.text("rse")?.map(super::rses::name).transpose()?;
    let files = match at {
        Some(_) => all.iter().map(new_replica).collect::<Result<_, _>>()?,
        None => Vec::new(),
    };
    Ok(Attached {
        dids: all.iter().map(did_of).collect::<Result<_, _>>()?,
        at,
        files,
    })
}

fn attaching(
    session: &mut dyn Session,
    caller: &Caller,
    parent: &Did,
    children: &Attached,
    now: Millis,
) -> Result<(), StoreError> {
    if let Some(at) = &children.at {
        data::register(session, caller, (at, &children.files), now)?;
    }
    content::attach(session, parent, &children.dids, false, now)?;
    changed(session, parent, now)
}

/// Rules that hold a collection are evaluated again.
fn changed(session: &mut dyn Session, collection: &Did, now: Millis) -> Result<(), StoreError> {
    let id = dids::get(session, collection)?.id;
    crate::rules::evaluate::content_changed(session, id, now)
}

/// `POST /dids/{scope}/{name}/dids`.
pub(crate) async fn attach(
    door: State,
    caller: Caller,
    Path((scope, name)): Path<(String, String)>,
    body: Object,
) -> Answer {
    let (parent, children, now) = (did(&scope, &name)?, attachments(&body)?, time::now());
    let write = move |session: &mut dyn Session| {
        may_change(session, &caller, Operation::ChangeDids, &parent.scope)?;
        attaching(session, &caller, &parent, &children, now)
    };
    door.database.write(write).await?;
    Ok(created())
}

/// `DELETE /dids/{scope}/{name}/dids`.
pub(crate) async fn detach(
    door: State,
    caller: Caller,
    Path((scope, name)): Path<(String, String)>,
    body: Object,
) -> Answer {
    let (parent, now) = (did(&scope, &name)?, time::now());
    let children = body.list("dids")?.iter().map(did_of).collect::<Result<Vec<_>, _>>()?;
    let write = move |session: &mut dyn Session| {
        may_change(session, &caller, Operation::ChangeDids, &parent.scope)?;
        content::detach(session, &parent, &children, now)?;
        changed(session, &parent, now)
    };
    door.database.write(write).await?;
    Ok(done())
}

/// `PUT /dids/{scope}/{name}/status`.
pub(crate) async fn set_status(
    door: State,
    caller: Caller,
    Path((scope, name)): Path<(String, String)>,
    body: Object,
) -> Answer {
    let (did, now) = (did(&scope, &name)?, time::now());
    let open = body.flag("open")?.ok_or_else(|| super::body::missing("open"))?;
    let write = move |session: &mut dyn Session| {
        may_change(session, &caller, Operation::ChangeDids, &did.scope)?;
        dids::set_open(session, &did, open, now)
    };
    door.database.write(write).await?;
    Ok(done())
}

/// `GET /dids/{scope}/{name}`.
pub(crate) async fn get(
    door: State,
    _: Caller,
    Path((scope, name)): Path<(String, String)>,
    Query(query): Query<HashMap<String, String>>,
) -> Answer {
    let did = did(&scope, &name)?;
    let with_size = query
        .get("dynamic_depth")
        .is_some_and(|depth| depth.eq_ignore_ascii_case("file"));
    let read = move |session: &mut dyn Session| {
        let known = dids::get(session, &did)?;
        let size = if with_size && known.kind != DidType::File {
            Some(content::size(session, known.id)?)
        } else {
            None
        };
        Ok((known, size))
    };
    let (known, size) = door.database.read(read).await?;
    let (scope, name, kind) = (&known.did.scope, &known.did.name, known.kind);
    if kind == DidType::File {
        return Ok(json_answer(&json!({
            "scope": scope, "name": name, "type": kind, "account": known.account, "bytes": known.bytes, "length": 1,
            "md5": known.md5, "adler32": known.adler32,
        })));
    }
    Ok(json_answer(&json!({
        "scope": scope, "name": name, "type": kind, "account": known.account, "open": known.is_open, "monotonic": known.monotonic,
        "expired_at": known.expires.map(date),
        // Rucio's sums are no whole numbers.
        "length": size.map(|(files, _)| files), "bytes": size.map(|(_, bytes)| bytes as f64),
    })))
}

/// `GET /dids/{scope}/{name}/dids`.
pub(crate) async fn content(door: State, _: Caller, Path((scope, name)): Path<(String, String)>) -> Answer {
    let row = |one: &Known| {
        let row = json!({
            "scope": one.did.scope, "name": one.did.name, "type": one.kind, "bytes": one.bytes, "adler32": one.adler32, "md5": one.md5,
        });
        format!("{row}\n")
    };
    listed(door, did(&scope, &name)?, content::children, row).await
}

/// `GET /dids/{scope}/{name}/files`.
pub(crate) async fn files(
    door: State,
    _: Caller,
    Path((scope, name)): Path<(String, String)>,
    Query(query): Query<HashMap<String, String>>,
) -> Answer {
    let long = query
        .get("long")
        .is_some_and(|value| value == "1" || value.eq_ignore_ascii_case("true"));
    let row = if long { long_row } else { short_row };
    listed(door, did(&scope, &name)?, content::files, row).await
}

fn short_row(one: &Known) -> String {
    format!("{}\n", file_row(one))
}

/// With the number of its block of luminosity, which no file has here.
fn long_row(one: &Known) -> String {
    let mut row = file_row(one);
    row["lumiblocknr"] = Value::Null;
    format!("{row}\n")
}

fn file_row(one: &Known) -> Value {
    json!({
        "scope": one.did.scope, "name": one.did.name, "bytes": one.bytes, "adler32": one.adler32, "guid": null, "events": null,
    })
}

/// `GET /dids/{scope}/{name}/parents`.
pub(crate) async fn parents(door: State, _: Caller, Path((scope, name)): Path<(String, String)>) -> Answer {
    let did = did(&scope, &name)?;
    let read = move |session: &mut dyn Session| {
        let id = dids::get(session, &did)?.id;
        content::parents(session, id)
    };
    let found = door.database.read(read).await?;
    let row = |one: &Known| json!({ "scope": one.did.scope, "name": one.did.name, "type": one.kind });
    Ok(lines(found.iter().map(row)))
}
