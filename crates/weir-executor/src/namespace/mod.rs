//! Operations on a storage's namespace that FTS3 offers to its users: list, stat, make, remove and rename, by WebDAV.
//!
//! Requests follow the rules of copies. They go only to hosts that `[copy] allow` permits, with the user's token or the
//! delegated proxy, and without the token after a redirect to another host. Each operation is a few requests, one after
//! the other, with a timeout. Unwanted effects of WebDAV are excluded first: DELETE removes a whole tree, so `unlink`
//! checks that the path is a file and `rmdir` that the directory is empty. MOVE replaces an existing target, so
//! `rename` checks that there is none.

mod bounded;
#[cfg(any(test, fuzzing))]
mod fuzzing;
mod listing;
mod multistatus;
mod refused;

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use weir_auth::Secret;
use weir_http::{Client, body};
use weir_world::{Failure, Party, Phase};

use self::{
    listing::{Unlisted, listing, own},
    multistatus::{ENTRIES_MAX, Entry, Unread},
    refused::conflict,
};
pub use self::{
    multistatus::Attributes,
    refused::{Obstacle, Refused},
};
use crate::{
    orders::Kept,
    places::{Place, Places},
    surl::Surl,
};
use crate::{
    requests::{
        client_pool::ClientPool,
        wire::{Answer, Forward, Side, UnansweredRequest, send, send_watched, text_of},
    },
    steps::stat::{self, Patience},
    tokens::Right,
};

/// How long an operation may take, as in FTS3.
const LIMIT: Duration = Duration::from_secs(30);

/// Slots: each operation holds a connection. A user whose storage does not answer takes half of them at most.
const PLACES: usize = 16;

/// Places of a listing: it keeps up to some 80 MiB, until the client has it.
const LISTING: usize = 4;

/// Entries that tell whether a directory is empty: a third would only be another that is in it.
const LOOKED_AT: usize = 2;

const PHASE: Phase = Phase::Preparation;

/// The properties requested for each path.
const WANTED: &str = "<?xml version=\"1.0\" encoding=\"utf-8\"?>\
    <D:propfind xmlns:D=\"DAV:\" xmlns:L=\"LCGDM:\"><D:prop><D:resourcetype/><D:getcontentlength/>\
    <D:getlastmodified/><D:creationdate/><L:mode/></D:prop></D:propfind>";

/// Operations on namespaces. Clones share everything.
#[derive(Clone)]
pub struct Namespace {
    clients: Arc<ClientPool>,
    places: Places,
}

impl std::fmt::Debug for Namespace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Namespace").finish_non_exhaustive()
    }
}

/// By which right a storage is asked.
#[derive(Debug, Clone)]
pub enum Credential {
    /// The token that the user came with.
    Token(Secret),
    /// The proxy that the user delegated.
    Proxy(Kept),
    /// The certificate that the client shows, if it shows one.
    Client,
}

/// A change of the namespace.
#[derive(Debug)]
pub enum Change {
    /// Makes a directory in an existing one.
    MakeDirectory,
    /// A file goes, not a directory.
    Unlink,
    /// A directory goes that has nothing in it.
    RemoveDirectory,
    /// A file or a directory gets this name on the same storage, if it is free.
    Rename(Surl),
}

impl std::fmt::Display for Change {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::MakeDirectory => f.write_str("mkdir"),
            Self::Unlink => f.write_str("unlink"),
            Self::RemoveDirectory => f.write_str("rmdir"),
            Self::Rename(new) => write!(f, "rename to {new}"),
        }
    }
}

impl Namespace {
    /// Makes one with the client for users' requests.
    pub fn new(client: Client) -> Self {
        Self {
            clients: Arc::new(ClientPool::new(client)),
            places: Places::new(PLACES, PLACES / 2),
        }
    }

    /// Room for one listing of this user. `None`: all is taken.
    pub fn enter_to_list(&self, user: &str) -> Option<Place> {
        self.places.enter(user, LISTING)
    }

    /// Room for one other operation.
    pub fn enter(&self, user: &str) -> Option<Place> {
        self.places.enter(user, 1)
    }

    /// A visit to a storage.
    ///
    /// # Errors
    /// If the proxy cannot be used.
    pub fn visit(&self, surl: Surl, credential: Credential) -> Result<Visit, Refused> {
        let (client, token) = match credential {
            Credential::Token(token) => (self.clients.token_client(), Some(token)),
            Credential::Client => (self.clients.token_client(), None),
            Credential::Proxy(proxy) => {
                let client = self.clients.client_with_proxy(&proxy);
                let unusable = |failure: Failure| Refused::new(Obstacle::Proxy, failure.message);
                (client.map_err(unusable)?, None)
            }
        };
        let side = Side {
            party: Party::Destination,
            surl,
            right: Right::as_is(token.clone()),
            token,
        };
        Ok(Visit {
            client,
            side,
            ordered: AtomicBool::new(false),
        })
    }
}

/// One operation on one path.
#[derive(Debug)]
pub struct Visit {
    client: Arc<Client>,
    side: Side,
    /// Whether a change is on its way.
    ordered: AtomicBool,
}

fn method(name: &'static str) -> Method {
    Method::from_bytes(name.as_bytes()).expect("a name of WebDAV is a token")
}

impl Visit {
    /// The entries of a directory, by name.
    pub async fn list(&self) -> Result<BTreeMap<String, Attributes>, Refused> {
        self.in_time(self.listed()).await
    }

    /// The attributes of a path.
    pub async fn stat(&self) -> Result<Attributes, Refused> {
        self.in_time(self.seen()).await
    }

    /// Changes something, or nothing.
    pub async fn change(&self, change: &Change) -> Result<(), Refused> {
        match change {
            Change::MakeDirectory => self.in_time(self.made()).await,
            Change::Unlink => self.in_time(self.unlinked()).await,
            Change::RemoveDirectory => self.in_time(self.directory_removed()).await,
            Change::Rename(new) => {
                let renamed = self.in_time(self.renamed(new)).await;
                renamed.map_err(|refused| refused.hiding(new))
            }
        }
    }

    async fn in_time<T>(&self, work: impl Future<Output = Result<T, Refused>>) -> Result<T, Refused> {
        let done = tokio::time::timeout(LIMIT, work).await.unwrap_or_else(|_| {
            let (surl, limit) = (&self.side.surl, LIMIT.as_secs());
            Err(if self.ordered.load(Ordering::Relaxed) {
                let text = format!("{surl} did not answer within {limit} s: the change may have been made");
                Refused::new(Obstacle::Unknown, text)
            } else {
                Refused::new(Obstacle::Late, format!("{surl} did not answer within {limit} s"))
            })
        });
        done.map_err(|refused| refused.hiding(&self.side.surl))
    }

    async fn listed(&self) -> Result<BTreeMap<String, Attributes>, Refused> {
        let Some(entries) = self.propfind("1", ENTRIES_MAX + 1, Obstacle::TooLarge).await? else {
            return Err(self.failed("cannot list a directory"));
        };
        listing(entries, self.side.surl.name().as_deref()).map_err(|why| match why {
            Unlisted::Status(status) => Refused::status(&self.side.naming(&method("PROPFIND")), status, ""),
            Unlisted::NoDirectory => self.no_directory(),
            Unlisted::Nonsense => self.failed("does not tell of the directory that it was asked for"),
        })
    }

    async fn seen(&self) -> Result<Attributes, Refused> {
        match self.look().await? {
            Some(own) => Ok(own),
            // Without WebDAV, HEAD describes a file.
            None => self.head().await,
        }
    }

    async fn head(&self) -> Result<Attributes, Refused> {
        let patience = Patience {
            plain: LIMIT,
            digest: LIMIT,
        };
        let found = stat::stat(&self.client, &self.side, PHASE, None, patience).await;
        let Some(found) = found.map_err(|failure| Refused::of(&failure))? else {
            return Err(Refused::status(
                &self.side.naming(&Method::HEAD),
                StatusCode::NOT_FOUND,
                "",
            ));
        };
        Ok(Attributes {
            collection: Some(false),
            size: found.size,
            modified: found.modified.as_deref().and_then(multistatus::seconds),
            ..Attributes::default()
        })
    }

    async fn made(&self) -> Result<(), Refused> {
        let what = self.side.naming(&method("MKCOL"));
        let ordered = self.order("MKCOL", self.side.surl.as_directory(), HeaderMap::new());
        ordered.await?.map_err(|(status, text)| match status {
            // RFC 4918 section 9.3.1.
            StatusCode::METHOD_NOT_ALLOWED => {
                let text = format!("{what}: HTTP {status}: there is something already, or directories cannot be made");
                Refused::new(Obstacle::Taken, text)
            }
            _ => conflict(&what, status, &text, "a directory above it is missing"),
        })
    }

    async fn unlinked(&self) -> Result<(), Refused> {
        let own = match self.look().await? {
            Some(own) => own,
            // A storage without PROPFIND takes a name with a slash for a whole tree.
            None if self.side.surl == self.side.surl.as_directory() => return Err(self.directory()),
            None => self.head().await?,
        };
        match own.collection {
            Some(false) => {}
            Some(true) => return Err(self.directory()),
            None => return Err(self.failed("does not say whether this is a file or a directory")),
        }
        self.delete(self.side.surl.clone(), HeaderMap::new())
            .await?
            .map_err(|(status, text)| Refused::status(&self.side.naming(&Method::DELETE), status, &text))
    }

    /// Between the check and the DELETE another client may write into the directory, or it may hold entries that the
    /// storage does not list. RFC 4918 does not prevent that; a storage that supports `Depth: 0` here removes only an
    /// empty directory. If it refuses, the directory stays.
    async fn directory_removed(&self) -> Result<(), Refused> {
        self.check_empty().await?;
        let flat = HeaderMap::from_iter([(HeaderName::from_static("depth"), HeaderValue::from_static("0"))]);
        let deleted = self.delete(self.side.surl.as_directory(), flat).await?;
        deleted.map_err(|(status, text)| {
            let mut refused = Refused::status(&self.side.naming(&Method::DELETE), status, &text);
            match status {
                StatusCode::CONFLICT => refused.obstacle = Obstacle::Full,
                StatusCode::BAD_REQUEST => refused.obstacle = Obstacle::Failed,
                _ => {}
            }
            refused
        })
    }

    async fn check_empty(&self) -> Result<(), Refused> {
        let Some((own, own_depth, others)) = self.look_around("1", Obstacle::Full).await? else {
            return Err(self.failed("cannot list a directory, so it is unknown whether this one is empty"));
        };
        if own.collection != Some(true) {
            return Err(self.no_directory());
        }
        // A storage that leaves out the directory itself lists its content: here an entry of the same name.
        if others || own_depth > self.side.surl.depth() {
            return Err(Refused::new(Obstacle::Full, format!("{} is not empty", self.side.surl)));
        }
        Ok(())
    }

    /// XRootD 5.5 replaces an existing target, whatever `Overwrite` says.
    async fn renamed(&self, new: &Surl) -> Result<(), Refused> {
        match self.elsewhere(new).seen().await {
            Err(refused) if refused.obstacle == Obstacle::Missing => {}
            Err(refused) => return Err(refused),
            Ok(_) => return Err(Refused::new(Obstacle::Taken, format!("{new} is there already"))),
        }
        let mut headers = HeaderMap::new();
        let destination = HeaderValue::from_str(&new.http_url());
        let destination = destination.map_err(|_| self.failed("cannot be told the new name"))?;
        headers.insert("destination", destination);
        headers.insert("overwrite", HeaderValue::from_static("F"));
        let what = format!("{} to {new}", self.side.naming(&method("MOVE")));
        let ordered = self.order("MOVE", self.side.surl.clone(), headers).await?;
        ordered.map_err(|(status, text)| conflict(&what, status, &text, "a directory above the new name is missing"))
    }

    /// By the same right to another path of the same storage.
    fn elsewhere(&self, surl: &Surl) -> Self {
        let mut other = Self {
            client: self.client.clone(),
            side: self.side.clone(),
            ordered: AtomicBool::new(false),
        };
        other.side.surl = surl.clone();
        other
    }

    /// The attributes of the path itself. `None`: the storage does not support PROPFIND.
    async fn look(&self) -> Result<Option<Attributes>, Refused> {
        let told = self.look_around("0", Obstacle::Failed).await?;
        Ok(told.map(|(own, ..)| own))
    }

    /// The attributes of the path itself, its number of names, and whether it has any members.
    async fn look_around(
        &self,
        depth: &'static str,
        beyond: Obstacle,
    ) -> Result<Option<(Attributes, usize, bool)>, Refused> {
        let Some(entries) = self.propfind(depth, LOOKED_AT, beyond).await? else {
            return Ok(None);
        };
        let own = own(&entries, self.side.surl.name().as_deref());
        let own = own.ok_or_else(|| self.failed("does not tell of the path that it was asked for"))?;
        if let Some(status) = own.status {
            let status = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
            return Err(Refused::status(&self.side.naming(&method("PROPFIND")), status, ""));
        }
        Ok(Some((own.attributes, own.depth, entries.len() > 1)))
    }

    /// The attributes of so many paths at most; `beyond` counts the rest.
    async fn propfind(
        &self,
        depth: &'static str,
        entries_max: usize,
        beyond: Obstacle,
    ) -> Result<Option<Vec<Entry>>, Refused> {
        let mut headers = HeaderMap::new();
        headers.insert("depth", HeaderValue::from_static(depth));
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/xml; charset=utf-8"),
        );
        let request = (method("PROPFIND"), headers);
        let sent = send_watched(
            &self.client,
            &self.side,
            PHASE,
            request,
            Forward::Same,
            LIMIT,
            &|request| *request.body_mut() = body::full(WANTED),
        );
        let Answer { response, .. } = sent.await.map_err(|trouble| Refused::of(&trouble.failure))?;
        let what = self.side.naming(&method("PROPFIND"));
        match response.status() {
            StatusCode::MULTI_STATUS => {}
            StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED => return Ok(None),
            status => return Err(Refused::status(&what, status, &text_of(response).await)),
        }
        let read = multistatus::read(response.into_body(), entries_max).await;
        read.map(Some).map_err(|unread| {
            let obstacle = match unread {
                Unread::TooMany(_) => beyond,
                Unread::TooLarge | Unread::TooLong => Obstacle::TooLarge,
                Unread::Broken(_) | Unread::Garbage(_) => Obstacle::Failed,
            };
            Refused::new(obstacle, format!("{what}: {unread}"))
        })
    }

    async fn delete(&self, at: Surl, headers: HeaderMap) -> Result<Result<(), (StatusCode, String)>, Refused> {
        self.order("DELETE", at, headers).await
    }

    /// Sends a change. Returns the refusal, if there is one.
    async fn order(
        &self,
        name: &'static str,
        at: Surl,
        headers: HeaderMap,
    ) -> Result<Result<(), (StatusCode, String)>, Refused> {
        let side = Side {
            surl: at,
            ..self.side.clone()
        };
        self.ordered.store(true, Ordering::Relaxed);
        let request = (method(name), headers);
        let sent = send(&self.client, &side, PHASE, request, Forward::Same, LIMIT).await;
        let Answer { response, .. } = sent.map_err(|UnansweredRequest { failure, reached }| {
            if !reached {
                return Refused::of(&failure);
            }
            let text = format!("{}; the change may have been made", failure.message);
            Refused::new(Obstacle::Unknown, text)
        })?;
        self.ordered.store(false, Ordering::Relaxed);
        match response.status() {
            StatusCode::MULTI_STATUS => {
                let text = format!("{}: only a part of it was done", side.naming(&method(name)));
                Err(Refused::new(Obstacle::Unknown, text))
            }
            status if status.is_success() => Ok(Ok(())),
            status => Ok(Err((status, text_of(response).await))),
        }
    }

    fn failed(&self, why: &str) -> Refused {
        Refused::new(Obstacle::Failed, format!("the storage of {} {why}", self.side.surl))
    }

    fn directory(&self) -> Refused {
        Refused::new(Obstacle::Directory, format!("{} is a directory", self.side.surl))
    }

    fn no_directory(&self) -> Refused {
        Refused::new(Obstacle::NoDirectory, format!("{} is no directory", self.side.surl))
    }
}

#[cfg(any(test, fuzzing))]
pub(super) use fuzzing::fuzz;

#[cfg(test)]
mod tests;
