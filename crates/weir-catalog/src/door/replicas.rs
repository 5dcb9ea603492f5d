//! Replicas.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use axum::extract::{Path, Query};
use http::{HeaderMap, header};
use serde_json::{Map, Value, json};
use weir_model::catalog::{Did, DidType, ReplicaState};
use weir_rules::ids::RseId;
use weir_service::time;
use weir_store::StoreError;

use super::{
    State,
    answer::{Answer, Failure, created, date, done, json_answer, lines, metalink},
    body::Object,
    caller::Caller,
    data::{self, PAGE, did_of, may_change, new_replica},
    rses,
};
use crate::{
    database::Session,
    dids::{self, Known, content},
    paths,
    permissions::Operation,
    refusal::{Class, Refusal},
    replicas::{self, New, Replica, datasets, datasets::Held},
    rses::{Described, list, protocols, protocols::Protocol},
};

/// Files of one answer, at most: beyond that a client asks for parts.
const FILES_MAX: usize = 100_000;

/// `POST /replicas`.
pub(crate) async fn add(door: State, caller: Caller, body: Object) -> Answer {
    let (rse, now) = (rses::name(body.needed("rse")?)?, time::now());
    let files = body
        .list("files")?
        .iter()
        .map(new_replica)
        .collect::<Result<Vec<_>, _>>()?;
    let write = move |session: &mut dyn Session| {
        let mut scopes = files.iter().map(|file| &file.did.scope).collect::<Vec<_>>();
        scopes.sort_unstable();
        scopes.dedup();
        for scope in scopes {
            may_change(session, &caller, Operation::AddReplicas, scope)?;
        }
        let found = crate::rses::get(session, &rse)?;
        // The path follows from the DID where the RSE's paths do.
        let known = files.iter().cloned().map(|file| New {
            path: file.path.filter(|_| !found.traits.deterministic),
            ..file
        });
        replicas::add(session, found.id, &known.collect::<Vec<_>>(), caller.account(), now)
    };
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

/// A file with its replicas, and their URLs.
#[derive(Debug)]
struct Located {
    file: Known,
    replicas: Vec<(Replica, Vec<String>)>,
    /// The collections that it is in, if they are asked for.
    parents: Option<Vec<Did>>,
}

/// The filters of a listing.
#[derive(Debug, Clone)]
struct Wish {
    dids: Vec<Did>,
    schemes: Vec<String>,
    expression: Option<String>,
    all_states: bool,
    ignore_availability: bool,
    parents: bool,
}

fn wish(body: &Object) -> Result<Wish, Failure> {
    let texts = |key: &str| {
        let all = body.value(key).and_then(Value::as_array).into_iter().flatten();
        all.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    Ok(Wish {
        dids: body.list("dids")?.iter().map(did_of).collect::<Result<_, _>>()?,
        schemes: texts("schemes"),
        expression: body.text("rse_expression")?.map(str::to_owned),
        all_states: body.flag("all_states")?.unwrap_or_default(),
        ignore_availability: body.flag("ignore_availability")?.unwrap_or_default(),
        parents: body.flag("resolve_parents")?.unwrap_or_default(),
    })
}

/// `POST /replicas/list`.
pub(crate) async fn list_replicas(door: State, _: Caller, headers: HeaderMap, body: Object) -> Answer {
    let wish = wish(&body)?;
    let read = move |session: &mut dyn Session| located(session, &wish);
    let found = door.database.read(read).await?;
    let accepted = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    if accepted.is_some_and(|kinds| kinds.contains("metalink4")) {
        return Ok(metalink(&found.iter().map(as_metalink).collect::<String>()));
    }
    Ok(lines(found.iter().map(row)))
}

/// The RSEs of a listing, with their protocols for reading.
type Rses = BTreeMap<RseId, (Described, Vec<Protocol>)>;

fn readable(session: &mut dyn Session, wish: &Wish) -> Result<Rses, StoreError> {
    let all = match &wish.expression {
        Some(expression) => crate::rses::matching(session, expression)?,
        None => list(session)?,
    };
    let wanted = all
        .into_iter()
        .filter(|one| wish.ignore_availability || one.rse.traits.can_read);
    let mut rses = Rses::new();
    for one in wanted {
        let mut protocols = protocols::of(session, one.rse.id)?;
        protocols.retain(|one| {
            one.priorities.wan_read.is_some()
                && (wish.schemes.is_empty() || wish.schemes.contains(&one.endpoint.scheme))
        });
        protocols.sort_by_key(|one| one.priorities.wan_read);
        rses.insert(one.rse.id, (one, protocols));
    }
    Ok(rses)
}

/// The files of the DIDs; those that are not known are left out, as in Rucio.
fn files(session: &mut dyn Session, dids: &[Did]) -> Result<Vec<Known>, StoreError> {
    let mut files = Vec::new();
    for did in dids {
        let known = match dids::get(session, did) {
            Ok(known) => known,
            Err(error) if error.refusal::<Refusal>().is_some() => continue,
            Err(error) => return Err(error),
        };
        if known.kind == DidType::File {
            files.push(known);
            continue;
        }
        let mut after = None::<Did>;
        loop {
            let page = content::files(session, known.id, after.as_ref(), PAGE)?;
            let is_last = page.len() < PAGE;
            after = page.last().map(|file| file.did.clone());
            files.extend(page);
            if files.len() > FILES_MAX {
                let message = format!("these DIDs have more than {FILES_MAX} files; ask for parts of them");
                return Err(Refusal::new(Class::TooManyFiles, message).into());
            }
            if is_last {
                break;
            }
        }
    }
    Ok(files)
}

fn located(session: &mut dyn Session, wish: &Wish) -> Result<Vec<Located>, StoreError> {
    let rses = readable(session, wish)?;
    let files = files(session, &wish.dids)?;
    let ids = files.iter().map(|file| file.id).collect::<Vec<_>>();
    let mut parents = if wish.parents {
        content::ancestors(session, &ids)?
    } else {
        HashMap::new()
    };
    let mut by_file = HashMap::<_, Vec<Replica>>::new();
    for replica in replicas::of(session, &ids)? {
        by_file.entry(replica.file).or_default().push(replica);
    }
    let locate = |file: Known| {
        let found = by_file.remove(&file.id).unwrap_or_default().into_iter();
        let shown = found.filter(|one| wish.all_states || one.state == ReplicaState::Available);
        let with_urls = shown.filter_map(|one| {
            let (_, protocols) = rses.get(&one.rse)?;
            let path = one.path.clone().unwrap_or_else(|| paths::hashed(&file.did));
            let urls = protocols.iter().map(|protocol| paths::url(protocol, &path)).collect();
            Some((one, urls))
        });
        let replicas = with_urls.collect();
        let parents = wish.parents.then(|| parents.remove(&file.id).unwrap_or_default());
        Located {
            file,
            replicas,
            parents,
        }
    };
    Ok(files.into_iter().map(locate).collect())
}

/// Priorities count up over all URLs of a file.
fn numbered(located: &Located) -> impl Iterator<Item = (&Replica, &str, usize)> {
    let urls = located
        .replicas
        .iter()
        .flat_map(|(one, urls)| urls.iter().map(move |url| (one, url.as_str())));
    urls.enumerate().map(|(at, (one, url))| (one, url, at + 1))
}

fn row(located: &Located) -> Value {
    let file = &located.file;
    let mut pfns = Map::new();
    for (one, url, priority) in numbered(located) {
        let about = json!({
            "rse": one.rse_name, "rse_id": one.rse_uid, "type": one.rse_type, "volatile": one.is_volatile, "domain": "wan",
            "priority": priority, "client_extract": false,
        });
        pfns.insert(url.to_owned(), about);
    }
    let by_rse = |value: fn(&Replica, &[String]) -> Value| {
        let all = located
            .replicas
            .iter()
            .map(|(one, urls)| (one.rse_name.to_string(), value(one, urls)));
        all.collect::<Map<_, _>>()
    };
    let mut row = json!({
        "scope": file.did.scope, "name": file.did.name, "bytes": file.bytes, "md5": file.md5, "adler32": file.adler32, "pfns": pfns,
    });
    row["rses"] = by_rse(|_, urls| json!(urls)).into();
    row["states"] = by_rse(|one, _| json!(one.state)).into();
    if let Some(parents) = &located.parents {
        row["parents"] = parents.iter().map(Did::to_string).collect();
    }
    row
}

/// Text of XML.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

fn as_metalink(located: &Located) -> String {
    let file = &located.file;
    let (did, name) = (escaped(&file.did.to_string()), escaped(file.did.name.as_str()));
    let sum = |(kind, sum): (&str, &Option<String>)| {
        let sum = sum.as_ref()?;
        Some(format!("  <hash type=\"{kind}\">{}</hash>\n", escaped(sum)))
    };
    let sums = [("adler32", &file.adler32), ("md5", &file.md5)]
        .into_iter()
        .filter_map(sum);
    let url = |(one, url, priority): (&Replica, &str, usize)| {
        format!(
            "  <url location=\"{}\" domain=\"wan\" priority=\"{priority}\" client_extract=\"false\">{}</url>\n",
            one.rse_name,
            escaped(url)
        )
    };
    let parents = located.parents.as_deref().unwrap_or_default();
    let parents = match parents {
        [] => String::new(),
        all => {
            let all = all
                .iter()
                .map(|one| format!("   <did>{}</did>\n", escaped(&one.to_string())));
            format!("  <parents>\n{}  </parents>\n", all.collect::<String>())
        }
    };
    let (sums, urls) = (sums.collect::<String>(), numbered(located).map(url).collect::<String>());
    let bytes = file.bytes.unwrap_or_default();
    format!(
        " <file name=\"{name}\">\n{parents}  <identity>{did}</identity>\n{sums}  <size>{bytes}</size>\n  \
         <glfn name=\"/generic/rucio/{did}\"></glfn>\n{urls} </file>\n"
    )
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
