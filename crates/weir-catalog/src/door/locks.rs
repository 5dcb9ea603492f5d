//! Locks on datasets.

use std::{collections::HashMap, sync::Arc};

use axum::extract::{Path, Query};
use futures_util::stream;
use serde_json::json;
use weir_database::Session;
use weir_model::catalog::DidType;
use weir_rules::ids::DidId;
use weir_store::StoreError;

use super::{
    Door, State,
    answer::{Answer, Failure, streamed},
    body::Object,
    caller::Caller,
    data::{did, did_of},
    pages::{PackedIds, PageSize, Place},
    rses,
};
use crate::{
    dids,
    refusal::Refusal,
    rules::datasets::{self, DatasetLock},
};

fn line(lock: &DatasetLock) -> String {
    let row = json!({
        "scope": lock.did.scope, "name": lock.did.name, "rse": lock.rse, "rse_id": lock.rse_uid, "rule_id": lock.rule,
        "account": lock.account, "state": lock.state, "length": lock.size.0, "bytes": lock.size.1, "accessed_at": null,
    });
    format!("{row}\n")
}

/// There are no locks on other DIDs than datasets here.
fn of_datasets(query: &HashMap<String, String>) -> Result<(), Failure> {
    if query.get("did_type").is_some_and(|kind| kind == "dataset") {
        return Ok(());
    }
    Err(Failure::value("did_type has to be 'dataset'"))
}

fn text(session: &mut dyn Session, datasets: &[DidId]) -> Result<String, StoreError> {
    let mut text = String::new();
    for dataset in datasets {
        text.extend(datasets::of(session, *dataset)?.iter().map(line));
    }
    Ok(text)
}

/// `GET /locks/{scope}/{name}`.
pub(crate) async fn of(
    door: State,
    _: Caller,
    Path((scope, name)): Path<(String, String)>,
    Query(query): Query<HashMap<String, String>>,
) -> Answer {
    of_datasets(&query)?;
    let did = did(&scope, &name)?;
    let read = move |session: &mut dyn Session| match dids::get(session, &did) {
        Ok(known) if known.kind == DidType::Dataset => text(session, &[known.id]),
        Ok(_) => Ok(String::new()),
        Err(error) if error.refusal::<Refusal>().is_some() => Ok(String::new()),
        Err(error) => Err(error),
    };
    let text = door.database.read(read).await?;
    Ok(streamed("application/x-json-stream", text, stream::empty()))
}

/// `POST /locks/bulk_locks_for_dids`: of datasets, and of those in containers, page by page. DIDs that are not known are left out, as in Rucio.
pub(crate) async fn of_many(door: State, _: Caller, body: Object) -> Answer {
    let dids = body.list("dids")?.iter().map(did_of).collect::<Result<Vec<_>, _>>()?;
    let find = move |session: &mut dyn Session| {
        let mut found = Vec::new();
        for did in &dids {
            match dids::get(session, did) {
                Ok(known) => found.extend(datasets::datasets(session, known.id)?),
                Err(error) if error.refusal::<Refusal>().is_some() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(PackedIds::of(&found))
    };
    let found = Arc::new(door.database.read(find).await?);
    let begin = (Arc::clone(&door.0), Place::default(), PageSize::first());
    let pages = stream::try_unfold(begin, move |(door, place, size): (Arc<Door>, Place, PageSize)| {
        let found = Arc::clone(&found);
        async move {
            let (page, place) = found.read(place, size.rows());
            if page.is_empty() {
                return Ok(None);
            }
            let text = door
                .database
                .read(move |session: &mut dyn Session| text(session, &page))
                .await?;
            let size = size.after(text.len());
            Ok::<_, StoreError>(Some((text, (door, place, size))))
        }
    });
    Ok(streamed("application/x-json-stream", String::new(), pages))
}

/// `GET /locks/{rse}`, page by page.
pub(crate) async fn at(
    door: State,
    _: Caller,
    Path(rse): Path<String>,
    Query(query): Query<HashMap<String, String>>,
) -> Answer {
    of_datasets(&query)?;
    let name = rses::name(&rse)?;
    let find = move |session: &mut dyn Session| Ok((crate::rses::get(session, &name)?.id, name.clone()));
    let (rse, name) = door.database.read(find).await?;
    let begin = (Arc::clone(&door.0), Some(DidId(0)), PageSize::first());
    let pages = stream::try_unfold(
        begin,
        move |(door, after, size): (Arc<Door>, Option<DidId>, PageSize)| {
            let name = name.clone();
            async move {
                let Some(after) = after else { return Ok(None) };
                let read = move |session: &mut dyn Session| {
                    let page = datasets::at(session, rse, after, size.rows())?;
                    let mut text = String::new();
                    for dataset in &page {
                        let locks = datasets::of(session, *dataset)?;
                        text.extend(locks.iter().filter(|lock| lock.rse == name).map(line));
                    }
                    Ok((text, page.last().copied().filter(|_| page.len() == size.rows())))
                };
                let (text, next) = door.database.read(read).await?;
                let size = size.after(text.len());
                Ok::<_, StoreError>(Some((text, (door, next, size))))
            }
        },
    );
    Ok(streamed("application/x-json-stream", String::new(), pages))
}
