//! PROPFIND: the properties of a path, or of a directory's entries (RFC 4918 section 9.1). Depth 0 and 1.

use std::{collections::VecDeque, sync::Arc, time::SystemTime};

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use weir_auth::{Operation, StoragePath};
use weir_http::{Body, body};

use super::status;
use crate::{
    admission::{Slot, Work},
    area::{self, Area},
    backend::{BackendError, Entry, Listing, Meta},
    config::Dav,
    data::blocking,
    dav::{self, Dead, Resource, Wanted},
    refusal::Refusal,
    service::{Call, check_kind},
};

/// The longest body that is read: davix sends 500 bytes.
pub(super) const BODY_LIMIT: usize = 64 << 10;

/// Listing a whole tree is not offered.
const FINITE_DEPTH: &str =
    "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<D:error xmlns:D=\"DAV:\"><D:propfind-finite-depth/></D:error>";

/// Entries looked at in one visit to the disk, some 150 kB of text, and where the text ends if names or wishes are long. The
/// memory that a listing takes, however long it is.
const ENTRIES_AT_ONCE: usize = 256;
const TEXT_AT_ONCE: usize = 256 << 10;

pub(super) async fn propfind(call: &mut Call) -> Result<Response<Body>, Refusal> {
    let deep = depth(call)?;
    let path = call.path.clone();
    let place = call.endpoint.names.find(&path)?;
    let area = match &place {
        area::PathTarget::Area(area, _) => Some(area.clone()),
        _ => None,
    };
    call.permit(Operation::Stat, &path, area.as_deref()).await?;
    let wanted = wanted(call).await?;
    let show = Show {
        path: path.clone(),
        wanted: Arc::new(wanted),
        area,
    };
    match place {
        area::PathTarget::Nowhere => Err(Refusal::not_found(&path)),
        area::PathTarget::Above(names) => {
            let mut text = show.opening(&made_up_directory());
            if deep {
                call.permit(Operation::List, &path, None).await?;
                show.inner_areas(&names, &mut text);
            }
            text.push_str(dav::CLOSE);
            Ok(multistatus(body::full(text)))
        }
        area::PathTarget::Area(area, inside) => in_area(call, show, area, inside, deep).await,
    }
}

async fn in_area(
    call: &mut Call,
    show: Show,
    area: Arc<Area>,
    inside: StoragePath,
    deep: bool,
) -> Result<Response<Body>, Refusal> {
    let (text, meta, show) = {
        let (area, inside) = (area.clone(), inside.clone());
        blocking(move || {
            let meta = area.backend.stat(&inside).map_err(BackendError::looking)?;
            check_kind(&show.path, &meta)?;
            let text = show.opening(&meta);
            Ok::<_, Refusal>((text, meta, show))
        })
        .await?
    };
    if !deep || !meta.directory {
        return Ok(multistatus(body::full(text + dav::CLOSE)));
    }
    let path = call.path.clone();
    call.permit(Operation::List, &path, Some(&area)).await?;
    // Areas whose prefixes lie right below appear as directories of this one.
    let mut text = text;
    show.inner_areas(&call.endpoint.names.children(&path), &mut text);
    let listed = area.clone();
    let (first, mut walk) = blocking(move || {
        let listing = listed.backend.list(&inside)?;
        let mut walk = Walk::new(listing, show);
        let first = walk.next()?;
        // Most directories are short: whether this one was is seen in the same visit.
        walk.fill()?;
        Ok::<_, BackendError>((first, walk))
    })
    .await?;
    text.push_str(first.as_deref().unwrap_or_default());
    if walk.is_over() {
        return Ok(multistatus(body::full(text + dav::CLOSE)));
    }
    walk.place = Some(call.place(Work::Listing, &area).await?);
    Ok(multistatus(listed_on(text, walk)))
}

/// Depth 0 or 1. RFC 4918 lets a server refuse `infinity`, which is also the default.
fn depth(call: &Call) -> Result<bool, Refusal> {
    match call.header("depth").map(str::trim) {
        Some("0") => Ok(false),
        Some("1") => Ok(true),
        Some(depth) if !depth.eq_ignore_ascii_case("infinity") => Err(Refusal::bad_request("Depth must be 0 or 1")),
        // RFC 4918 section 9.1: a body of XML, so that clients can tell this from a missing right.
        _ => {
            let reason = "listing a whole tree (Depth: infinity) is not offered: ask with Depth 0 or 1";
            Err(Refusal::new(StatusCode::FORBIDDEN, reason).with_document(FINITE_DEPTH))
        }
    }
}

async fn wanted(call: &mut Call) -> Result<Wanted, Refusal> {
    let bytes = call.read_body(BODY_LIMIT).await?;
    dav::parse(&bytes).map_err(|error| Refusal::bad_request(error.to_string()))
}

pub(super) fn multistatus(body: Body) -> Response<Body> {
    let mut response = status(StatusCode::MULTI_STATUS);
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/xml; charset=utf-8"),
    );
    *response.body_mut() = body;
    response
}

/// A directory of the name space that no file system holds.
fn made_up_directory() -> Meta {
    Meta {
        directory: true,
        size: 0,
        modified_ns: 0,
        created: Some(SystemTime::UNIX_EPOCH),
        identity: 0,
    }
}

/// How entries are shown.
struct Show {
    path: StoragePath,
    wanted: Arc<Wanted>,
    area: Option<Arc<Area>>,
}

impl Show {
    /// The beginning of the document, up to and with the path itself. On the blocking pool.
    fn opening(&self, meta: &Meta) -> String {
        let mut text = dav::OPEN.to_owned();
        let name = self.path.name().unwrap_or("/").to_owned();
        let quota = match &self.area {
            Some(area) if meta.directory => Some(area.room()),
            _ => None,
        };
        self.write(&self.path, name, meta, quota, &mut text);
        text
    }

    /// The names that lead on to other areas.
    fn inner_areas(&self, names: &[String], text: &mut String) {
        for name in names {
            self.child(name, &made_up_directory(), text);
        }
    }

    /// An entry; an entry whose name the door would refuse is left out.
    fn child(&self, name: &str, meta: &Meta, text: &mut String) {
        if let Ok(below) = StoragePath::from_plain(&format!("/{name}")) {
            self.write(&self.path.join(&below), name.to_owned(), meta, None, text);
        }
    }

    fn write(&self, path: &StoragePath, name: String, meta: &Meta, quota: Option<(u64, u64)>, text: &mut String) {
        let resource = Resource {
            href: dav::href(path.names(), meta.directory),
            name,
            collection: meta.directory,
            size: meta.size,
            modified: meta.modified(),
            created: meta.created,
            etag: meta.etag(),
            quota,
            checksums: if self.wanted.needs_checksums() && !meta.directory {
                self.checksums(path)
            } else {
                Vec::new()
            },
            dead: if self.wanted.needs_dead() {
                self.dead(path)
            } else {
                Vec::new()
            },
        };
        dav::write_resource(text, &resource, &self.wanted);
    }

    /// The stored checksums; none is computed for a listing.
    fn checksums(&self, path: &StoragePath) -> Vec<String> {
        let Some(area) = &self.area else { return Vec::new() };
        let Some(inside) = path.relative_to(&area.prefix) else {
            return Vec::new();
        };
        let Ok(reader) = area.backend.open(&inside) else {
            return Vec::new();
        };
        reader.checksums().iter().map(ToString::to_string).collect()
    }
}

impl Show {
    /// Clients' own properties, where they are stored.
    fn dead(&self, path: &StoragePath) -> Vec<Dead> {
        let Some(area) = self.area.as_ref().filter(|area| area.dav == Dav::Full) else {
            return Vec::new();
        };
        let Some(inside) = path.relative_to(&area.prefix) else {
            return Vec::new();
        };
        let text = area.backend.properties(&inside).ok().flatten();
        text.map(|text| dav::from_text(&text)).unwrap_or_default()
    }
}

/// A listing under way: one batch of entries at a time, so that memory stays the same for any number.
struct Walk {
    listing: Box<dyn Listing>,
    /// Read, and not yet shown.
    read: VecDeque<Entry>,
    /// Whether the directory has given its last entry.
    ended: bool,
    show: Show,
    /// Held by a listing of more than one disk access.
    place: Option<Slot>,
}

/// The beginning of a listing, and the rest as it is read.
fn listed_on(opening: String, walk: Walk) -> Body {
    let walk = Some(walk);
    let batches = futures_util::stream::unfold((Some(opening), walk), |(opening, walk)| async move {
        if let Some(opening) = opening {
            return Some((Ok(Bytes::from(opening)), (None, walk)));
        }
        let mut walk = walk?;
        let (outcome, walk) = blocking(move || (walk.next(), walk)).await;
        match outcome {
            Ok(Some(text)) => Some((Ok(Bytes::from(text)), (None, Some(walk)))),
            Ok(None) => Some((Ok(Bytes::from_static(dav::CLOSE.as_bytes())), (None, None))),
            // The document stays open: the client sees that it is not whole.
            Err(error) => Some((Err(error.into()), (None, None))),
        }
    });
    body::stream(batches)
}

impl Walk {
    fn new(listing: Box<dyn Listing>, show: Show) -> Self {
        Self {
            listing,
            read: VecDeque::new(),
            ended: false,
            show,
            place: None,
        }
    }

    /// Reads on, where all that was read is shown.
    fn fill(&mut self) -> Result<(), BackendError> {
        if self.read.is_empty() && !self.ended {
            self.read = self.listing.next(ENTRIES_AT_ONCE)?.into();
            self.ended = self.read.is_empty();
        }
        Ok(())
    }

    /// Whether all that the directory has was shown.
    fn is_over(&self) -> bool {
        self.ended && self.read.is_empty()
    }

    /// The next piece of the document; none when there are no more entries.
    fn next(&mut self) -> Result<Option<String>, BackendError> {
        self.fill()?;
        if self.read.is_empty() {
            return Ok(None);
        }
        let mut text = String::with_capacity(self.read.len() * 600);
        while text.len() < TEXT_AT_ONCE
            && let Some(entry) = self.read.pop_front()
        {
            self.show.child(&entry.name, &entry.meta, &mut text);
        }
        Ok(Some(text))
    }
}
