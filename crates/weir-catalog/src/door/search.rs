//! Searches for DIDs in a scope.

use std::{collections::HashMap, sync::Arc};

use axum::extract::{Path, Query};
use futures_util::stream;
use serde_json::json;
use weir_database::Session;
use weir_model::catalog::{Did, DidName, Scope};
use weir_store::StoreError;

use super::{
    Door, State,
    answer::{Answer, Failure, streamed},
    caller::Caller,
    pages::PageSize,
};
use crate::{
    accounts::scopes,
    dids::{self, Known, metadata},
    filters::{Filter, Kinds},
    refusal::{Class, Refusal},
};

/// A search.
#[derive(Debug, Clone)]
struct Search {
    scope: Scope,
    kinds: Kinds,
    filter: Filter,
    long: bool,
}

/// State of a search's stream: the name before the next page, and the size of that page.
type RemainingRows = (Arc<Door>, Arc<Search>, Option<DidName>, PageSize);

/// `GET /dids/{scope}/dids/search`: names, or rows with `long`. Streamed page by page.
pub(crate) async fn search(
    door: State,
    _: Caller,
    Path(scope): Path<String>,
    Query(query): Query<HashMap<String, String>>,
) -> Answer {
    let search = Arc::new(search_of(&scope, &query)?);
    let known = search.scope.clone();
    door.database
        .read(move |session: &mut dyn Session| scopes::owner(session, &known))
        .await?;
    let begin = Some((Arc::clone(&door.0), search, None, PageSize::first()));
    let pages = stream::try_unfold(begin, |state: Option<RemainingRows>| async move {
        let Some((door, search, after, size)) = state else {
            return Ok(None);
        };
        let asked = search.clone();
        let read = move |session: &mut dyn Session| page(session, &asked, after.as_ref(), size.rows());
        let (text, next) = door.database.read(read).await?;
        let size = size.after(text.len());
        Ok::<_, StoreError>(Some((text, next.map(|next| (door, search, Some(next), size)))))
    });
    Ok(streamed("application/x-json-stream", String::new(), pages))
}

/// Keys of a search that are no filters.
const KEYS: [&str; 4] = ["type", "filters", "long", "recursive"];

fn search_of(scope: &str, query: &HashMap<String, String>) -> Result<Search, Failure> {
    let is = |key: &str| {
        query
            .get(key)
            .is_some_and(|value| value == "1" || value.eq_ignore_ascii_case("true"))
    };
    if is("recursive") {
        return Err(Failure::not_built("recursive searches are not built here yet"));
    }
    let invalid = |message: String| Failure::from(Refusal::new(Class::FilterSyntax, message));
    let scope = scope.parse::<Scope>().map_err(|error| invalid(error.to_string()))?;
    let kinds = query.get("type").map_or("collection", String::as_str).parse::<Kinds>();
    let filter = query
        .get("filters")
        .map_or(Ok(Filter::default()), |text| Filter::read(text));
    let mut filter = filter.map_err(invalid)?;
    // The older form of filters: a key for each column.
    let others = query.iter().filter(|(key, _)| !KEYS.contains(&key.as_str()));
    let others = others.map(|(key, value)| (key.clone(), json!(value))).collect();
    filter.and(&others).map_err(invalid)?;
    Ok(Search {
        scope,
        kinds: filter.kinds.map_or(kinds.map_err(Failure::value), Ok)?,
        filter,
        long: is("long"),
    })
}

/// The rows of a page as text, and the name after which the next one begins.
fn page(
    session: &mut dyn Session,
    search: &Search,
    after: Option<&DidName>,
    limit: usize,
) -> Result<(String, Option<DidName>), StoreError> {
    let rows = dids::with_prefix(session, &search.scope, &search.filter.prefix(), after, limit)?;
    let mut text = String::new();
    for known in rows.iter().filter(|known| search.kinds.has(known.kind)) {
        // Times as filters write them: their order is that of their characters.
        let mut columns = metadata::columns(known, weir_service::time::format)?;
        columns.extend(metadata::given(known)?);
        if search.filter.matches(&columns) {
            text.push_str(&shown(known, search.long));
            text.push('\n');
        }
    }
    let is_last = rows.len() < limit;
    let next = rows.last().filter(|_| !is_last).map(
        |Known {
             did: Did { name, .. }, ..
         }| name.clone(),
    );
    Ok((text, next))
}

fn shown(known: &Known, long: bool) -> String {
    let (scope, name) = (&known.did.scope, &known.did.name);
    if !long {
        return json!(name).to_string();
    }
    json!({ "scope": scope, "name": name, "did_type": known.kind, "bytes": known.bytes, "length": null }).to_string()
}
