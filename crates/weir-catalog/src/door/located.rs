//! `POST /replicas/list`: where files are, for downloads.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use futures_util::stream;
use http::{HeaderMap, header};
use serde::{Serialize, Serializer, ser::SerializeMap as _};
use serde_json::Value;
use weir_database::Session;
use weir_model::catalog::{Did, DidType, ReplicaState, RseType};
use weir_rules::ids::{DidId, RseId};
use weir_service::time::{self, Millis};
use weir_store::StoreError;

use super::{
    Door, State,
    answer::{Answer, Failure, streamed},
    body::Object,
    caller::Caller,
    data::did_of,
    order::{Near, Order},
    pages::{PackedIds, PageSize, Place},
};
use crate::{
    dids::{self, Known, content},
    paths,
    refusal::{Class, Refusal},
    replicas::{self, Replica},
    rses::{list, protocols, protocols::Protocol},
};

/// Files of one answer, at most: beyond that a client asks for parts.
const FILES_MAX: usize = 100_000;

/// More files than this come in the order in which they were made, which packs their numbers into a byte or two each.
const IN_ORDER_ASKED: usize = 20_000;

/// The filters of a listing.
#[derive(Debug, Clone)]
struct ReplicaQuery {
    schemes: Vec<String>,
    expression: Option<String>,
    all_states: bool,
    ignore_availability: bool,
    parents: bool,
    domain: Option<Domain>,
    order: Order,
    /// Replicas that changed since this time.
    updated_after: Option<Millis>,
}

/// From where a client reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Domain {
    Lan,
    Wan,
}

impl Domain {
    fn name(self) -> &'static str {
        match self {
            Self::Lan => "lan",
            Self::Wan => "wan",
        }
    }
}

fn wish(body: &Object) -> Result<(Vec<Did>, ReplicaQuery), Failure> {
    let texts = |key: &str| {
        let all = body.value(key).and_then(Value::as_array).into_iter().flatten();
        all.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let dids = body.list("dids")?.iter().map(did_of).collect::<Result<_, _>>()?;
    let wish = ReplicaQuery {
        schemes: texts("schemes"),
        expression: body.text("rse_expression")?.map(str::to_owned),
        all_states: body.flag("all_states")?.unwrap_or_default(),
        ignore_availability: body.flag("ignore_availability")?.unwrap_or_default(),
        parents: body.flag("resolve_parents")?.unwrap_or_default(),
        domain: match body.text("domain")? {
            None => None,
            Some("lan") => Some(Domain::Lan),
            Some("wan") => Some(Domain::Wan),
            Some(other) => return Err(Failure::value(format!("a domain is lan or wan, not {other:?}"))),
        },
        order: Order::read(body)?,
        updated_after: body.value("updated_after").map(since).transpose()?,
    };
    Ok((dids, wish))
}

/// Seconds since the epoch, or a date and time of UTC.
fn since(value: &Value) -> Result<Millis, Failure> {
    let unreadable = || {
        Failure::value(format!(
            "'updated_after' is neither seconds since the epoch nor a time: {value}"
        ))
    };
    match value {
        Value::Number(seconds) => seconds
            .as_f64()
            .map(|seconds| (seconds * 1e3) as Millis)
            .ok_or_else(unreadable),
        Value::String(text) => time::parse(text).ok_or_else(unreadable),
        _ => Err(unreadable()),
    }
}

/// The form of an answer.
#[derive(Debug, Clone, Copy)]
enum Form {
    Lines,
    /// Files as a metalink (RFC 5854), as Rucio's client reads it for downloads.
    Metalink,
}

impl Form {
    fn asked(headers: &HeaderMap) -> Self {
        let accepted = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
        match accepted {
            Some(kinds) if kinds.contains("metalink4") => Self::Metalink,
            _ => Self::Lines,
        }
    }

    fn kind(self) -> &'static str {
        match self {
            Self::Lines => "application/x-json-stream",
            Self::Metalink => "application/metalink4+xml",
        }
    }

    fn head(self) -> &'static str {
        match self {
            Self::Lines => "",
            Self::Metalink => {
                "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<metalink xmlns=\"urn:ietf:params:xml:ns:metalink\">\n"
            }
        }
    }

    fn tail(self) -> &'static str {
        match self {
            Self::Lines => "",
            Self::Metalink => "</metalink>\n",
        }
    }
}

/// A listing that goes on.
#[derive(Debug)]
struct ReplicaListing {
    wish: ReplicaQuery,
    form: Form,
    rses: RsesById,
    near: Near,
    files: PackedIds,
}

/// State of a listing's stream: the place of the next page, if there is one, and its size.
type RemainingFiles = (Arc<Door>, Arc<ReplicaListing>, Option<Place>, PageSize);

/// `POST /replicas/list`. The files are those of the moment of the question, a page of them is read in one transaction.
pub(crate) async fn list_replicas(door: State, _: Caller, headers: HeaderMap, body: Object) -> Answer {
    let ((dids, wish), form) = (wish(&body)?, Form::asked(&headers));
    drop(body);
    let begin = move |session: &mut dyn Session| {
        let listing = ReplicaListing {
            wish: wish.clone(),
            form,
            rses: readable(session, &wish)?,
            near: Near::read(session, &wish.order)?,
            files: PackedIds::of(&files(session, &dids)?),
        };
        let (page, place) = listing.files.read(Place::default(), PageSize::first().rows());
        let first = listing.page(session, &page)?;
        Ok((first, place, listing))
    };
    let (first, place, listing) = door.database.read(begin).await?;
    let size = PageSize::first().after(first.len());
    let begin = (Arc::clone(&door.0), Arc::new(listing), Some(place), size);
    let rest = stream::try_unfold(begin, |(door, listing, place, size): RemainingFiles| async move {
        let Some(place) = place else { return Ok(None) };
        let (page, place) = listing.files.read(place, size.rows());
        if page.is_empty() {
            return Ok(Some((listing.form.tail().to_owned(), (door, listing, None, size))));
        }
        let read = {
            let listing = Arc::clone(&listing);
            move |session: &mut dyn Session| listing.page(session, &page)
        };
        let text = door.database.read(read).await?;
        let size = size.after(text.len());
        Ok::<_, StoreError>(Some((text, (door, listing, Some(place), size))))
    });
    Ok(streamed(form.kind(), form.head().to_owned() + &first, rest))
}

/// The protocols of the RSEs of a listing.
type RsesById = BTreeMap<RseId, Vec<Protocol>>;

/// The priority with which a protocol is read from a domain; `None`: it is not.
fn priority(protocol: &Protocol, domain: Domain) -> Option<u32> {
    match domain {
        Domain::Lan => protocol.priorities.lan_read,
        Domain::Wan => protocol.priorities.wan_read,
    }
}

fn readable(session: &mut dyn Session, wish: &ReplicaQuery) -> Result<RsesById, StoreError> {
    let all = match &wish.expression {
        Some(expression) => crate::rses::matching(session, expression)?,
        None => list(session)?,
    };
    let wanted = all
        .into_iter()
        .filter(|one| wish.ignore_availability || one.rse.traits.can_read);
    let mut rses = RsesById::new();
    for one in wanted {
        let mut protocols = protocols::of(session, one.rse.id)?;
        protocols.retain(|one| wish.schemes.is_empty() || wish.schemes.contains(&one.endpoint.scheme));
        rses.insert(one.rse.id, protocols);
    }
    Ok(rses)
}

/// The files of the DIDs, each once; those that are not known are left out, as in Rucio.
fn files(session: &mut dyn Session, dids: &[Did]) -> Result<Vec<DidId>, StoreError> {
    let (mut files, mut seen) = (Vec::new(), BTreeSet::new());
    for did in dids {
        let known = match dids::get(session, did) {
            Ok(known) => known,
            Err(error) if error.refusal::<Refusal>().is_some() => continue,
            Err(error) => return Err(error),
        };
        let all = match known.kind {
            DidType::File => vec![known.id],
            _ => content::files(session, &known, DidId(0), FILES_MAX + 1)?,
        };
        files.extend(all.into_iter().filter(|file| dids.len() == 1 || seen.insert(*file)));
        if files.len() > FILES_MAX {
            let message = format!("these DIDs have more than {FILES_MAX} files; ask for parts of them");
            return Err(Refusal::new(Class::TooManyFiles, message).into());
        }
    }
    if files.len() > IN_ORDER_ASKED {
        files.sort_unstable();
    }
    Ok(files)
}

impl ReplicaListing {
    fn page(&self, session: &mut dyn Session, part: &[DidId]) -> Result<String, StoreError> {
        let files = dids::in_order(session, part)?;
        let ids = files.iter().map(|file| file.id).collect::<Vec<_>>();
        let mut parents = if self.wish.parents {
            content::ancestors(session, &ids)?
        } else {
            HashMap::new()
        };
        let mut by_file = HashMap::<_, Vec<Replica>>::new();
        for replica in replicas::of(session, &ids)? {
            let is_new = self.wish.updated_after.is_none_or(|after| replica.updated >= after);
            if is_new && (self.wish.all_states || replica.state == ReplicaState::Available) {
                by_file.entry(replica.file).or_default().push(replica);
            }
        }
        let mut text = String::new();
        for file in files {
            let located = Located {
                places: self.places(&file, by_file.remove(&file.id).unwrap_or_default()),
                parents: (self.wish.parents).then(|| parents.remove(&file.id).unwrap_or_default()),
                file,
            };
            match self.form {
                Form::Metalink => text.push_str(&located.as_metalink()),
                Form::Lines => {
                    let line = serde_json::to_string(&located);
                    text.push_str(&line.map_err(|error| StoreError::Broken(error.into()))?);
                    text.push('\n');
                }
            }
        }
        Ok(text)
    }

    fn places(&self, file: &Known, mut replicas: Vec<Replica>) -> Vec<Source> {
        replicas.retain(|one| self.rses.contains_key(&one.rse));
        self.wish.order.put(&self.near, &mut replicas);
        let mut hashed = None;
        let place = |replica: Replica| {
            let is_local = self.near.local.contains(&replica.rse);
            let domain = self
                .wish
                .domain
                .unwrap_or(if is_local { Domain::Lan } else { Domain::Wan });
            let path = match &replica.path {
                Some(path) => path,
                None => &*hashed.get_or_insert_with(|| paths::hashed(&file.did)),
            };
            let protocols = self.rses.get(&replica.rse).into_iter().flatten();
            let read = protocols.filter_map(|one| Some((priority(one, domain)?, one)));
            let mut read = read.collect::<Vec<_>>();
            read.sort_by_key(|(priority, _)| *priority);
            let urls = read.iter().map(|(_, protocol)| paths::url(protocol, path)).collect();
            Source { replica, domain, urls }
        };
        replicas.into_iter().map(place).collect()
    }
}

/// A file with its replicas, and their URLs.
#[derive(Debug)]
struct Located {
    file: Known,
    places: Vec<Source>,
    /// The collections that it is in, if they are asked for.
    parents: Option<Vec<Did>>,
}

/// A replica, as the client reaches it.
#[derive(Debug)]
struct Source {
    replica: Replica,
    domain: Domain,
    urls: Vec<String>,
}

impl Located {
    /// Priorities count up over all URLs of a file.
    fn numbered(&self) -> impl Iterator<Item = (&Source, &str, usize)> {
        let urls = self
            .places
            .iter()
            .flat_map(|one| one.urls.iter().map(move |url| (one, url.as_str())));
        urls.enumerate().map(|(at, (one, url))| (one, url, at + 1))
    }
}

/// The description of a URL in an answer.
#[derive(Serialize)]
struct Url<'a> {
    rse: &'a str,
    rse_id: &'a str,
    r#type: RseType,
    volatile: bool,
    domain: Domain,
    priority: usize,
    client_extract: bool,
}

/// An object whose fields come one by one.
struct Fields<T>(T);

impl<K: Serialize, V: Serialize, T: Iterator<Item = (K, V)> + Clone> Serialize for Fields<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.clone())
    }
}

impl Serialize for Located {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let url = |(place, url, priority)| {
            let Source {
                replica: one, domain, ..
            }: &Source = place;
            let about = Url {
                rse: one.rse_name.as_str(),
                rse_id: &one.rse_uid,
                r#type: one.rse_type,
                volatile: one.is_volatile,
                domain: *domain,
                priority,
                client_extract: false,
            };
            (url, about)
        };
        let urls = self.numbered().map(url).collect::<Vec<(&str, Url<'_>)>>();
        let name = |one: &Source| one.replica.rse_name.to_string();
        let rses = self.places.iter().map(|one| (name(one), &one.urls));
        let states = self.places.iter().map(|one| (name(one), one.replica.state));
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("scope", &self.file.did.scope)?;
        map.serialize_entry("name", &self.file.did.name)?;
        map.serialize_entry("bytes", &self.file.bytes)?;
        map.serialize_entry("md5", &self.file.md5)?;
        map.serialize_entry("adler32", &self.file.adler32)?;
        map.serialize_entry("pfns", &Fields(urls.iter().map(|(url, about)| (url, about))))?;
        map.serialize_entry("rses", &Fields(rses))?;
        map.serialize_entry("states", &Fields(states))?;
        if let Some(parents) = &self.parents {
            map.serialize_entry("parents", &parents.iter().map(Did::to_string).collect::<Vec<_>>())?;
        }
        map.end()
    }
}

/// Text of XML.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

impl Located {
    fn as_metalink(&self) -> String {
        let file = &self.file;
        let (did, name) = (escaped(&file.did.to_string()), escaped(file.did.name.as_str()));
        let sum = |(kind, sum): (&str, &Option<String>)| {
            let sum = sum.as_ref()?;
            Some(format!("  <hash type=\"{kind}\">{}</hash>\n", escaped(sum)))
        };
        let sums = [("adler32", &file.adler32), ("md5", &file.md5)]
            .into_iter()
            .filter_map(sum);
        let url = |(one, url, priority): (&Source, &str, usize)| {
            let (rse, domain) = (&one.replica.rse_name, one.domain.name());
            let url = escaped(url);
            format!(
                "  <url location=\"{rse}\" domain=\"{domain}\" priority=\"{priority}\" client_extract=\"false\">{url}</url>\n"
            )
        };
        let parents = match self.parents.as_deref().unwrap_or_default() {
            [] => String::new(),
            all => {
                let all = all
                    .iter()
                    .map(|one| format!("   <did>{}</did>\n", escaped(&one.to_string())));
                format!("  <parents>\n{}  </parents>\n", all.collect::<String>())
            }
        };
        let (sums, urls) = (sums.collect::<String>(), self.numbered().map(url).collect::<String>());
        let bytes = file.bytes.unwrap_or_default();
        format!(
            " <file name=\"{name}\">\n{parents}  <identity>{did}</identity>\n{sums}  <size>{bytes}</size>\n  \
             <glfn name=\"/generic/rucio/{did}\"></glfn>\n{urls} </file>\n"
        )
    }
}

#[cfg(test)]
mod tests;
