//! The reaper: deletes files that no rule holds. Each RSE has a worker of its own, so that a slow one delays no other, and none has two, so that
//! nothing is deleted twice.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use futures_util::{StreamExt as _, stream};
use tokio::{task::JoinSet, time::Instant};
use weir_database::{Database, Session};
use weir_executor::{
    Change, Credential, Namespace, Obstacle,
    surl::{Surl, SurlError},
};
use weir_rules::{
    deletion::Goal,
    ids::{DidId, RseId},
    retry,
};
use weir_service::time;
use weir_store::{StoreError, Term};
use weir_units::Bytes;

use crate::{
    config::DeletionConfig,
    credentials::Credentials,
    paths, pfn,
    replicas::deletion::{self, Marked},
    requests::slice::Site,
    rses::{self, Described, protocols, space},
};

/// How often work is looked for.
const EVERY: Duration = Duration::from_secs(1);

/// Replicas that are marked together.
const CHUNK: usize = 100;

/// A file that could not be deleted is tried again after this time, in milliseconds.
const AGAIN: i64 = 600_000;

/// An RSE where nothing may go for now is looked at again after this time.
const IDLE: Duration = Duration::from_secs(10);

/// Rights that a deletion needs: the path is looked at before, so that no folder is deleted for a file.
const RIGHTS: [&str; 2] = ["storage.modify", "storage.read"];

/// The reaper.
#[derive(Debug, Clone)]
pub struct Reaper {
    database: Database,
    storages: Arc<Storages>,
    config: DeletionConfig,
}

struct Storages {
    namespace: Namespace,
    credentials: Credentials,
}

impl std::fmt::Debug for Storages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Storages").finish_non_exhaustive()
    }
}

/// An RSE whose storage failed.
#[derive(Debug, Default)]
struct Pause {
    until: Option<Instant>,
    n_failures: u32,
}

/// The result of one worker's turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn {
    /// Files that are gone.
    pub n_deleted: usize,
    /// Files that are still there.
    pub n_failed: usize,
}

impl Reaper {
    /// A reaper that asks storages by this client.
    pub fn new(
        database: Database,
        client: weir_http::Client,
        credentials: Credentials,
        config: &DeletionConfig,
    ) -> Self {
        let namespace = Namespace::new(client);
        Self {
            database,
            storages: Arc::new(Storages { namespace, credentials }),
            config: config.clone(),
        }
    }

    /// Works until it is dropped, and begins nothing once the term is over.
    pub async fn run(self, term: Arc<Term>) {
        let mut workers = JoinSet::<(RseId, Result<Turn, StoreError>)>::new();
        let (mut busy, mut pauses) = (BTreeSet::new(), BTreeMap::<RseId, Pause>::new());
        loop {
            let due = self
                .database
                .read(|session: &mut dyn Session| deletion::rses(session, time::now()))
                .await;
            let due = due.unwrap_or_else(|error| {
                let error = weir_auth::error_chain(&error);
                tracing::warn!(error, "replicas that may be deleted cannot be read");
                BTreeSet::default()
            });
            let is_open = |rse: &RseId| pauses.get(rse).is_none_or(|pause| pause.until <= Some(Instant::now()));
            for rse in due.into_iter().filter(is_open) {
                if busy.insert(rse) {
                    let reaper = self.clone();
                    let term = term.clone();
                    workers.spawn(async move {
                        let mut turn = Err(StoreError::LeadershipLost);
                        term.within(async { turn = reaper.turn(rse).await }).await;
                        (rse, turn)
                    });
                }
            }
            let next = tokio::time::sleep(EVERY);
            tokio::select! {
                () = next => {}
                Some(ended) = workers.join_next(), if !workers.is_empty() => if let Ok((rse, turn)) = ended {
                    busy.remove(&rse);
                    let pause = pauses.entry(rse).or_default();
                    *pause = pause.after(&turn);
                },
            }
        }
    }

    /// Deletes a chunk of deletable replicas at one RSE.
    ///
    /// # Errors
    /// The database fails.
    pub async fn turn(&self, rse: RseId) -> Result<Turn, StoreError> {
        let greedy = self.config.greedy;
        let mark = move |session: &mut dyn Session| {
            let now = time::now();
            let Some(site) = site(session, rse)? else {
                return Ok(None);
            };
            let left = deletion::marked(session, rse, now, CHUNK)?;
            if !left.is_empty() {
                return Ok(Some((site, left)));
            }
            let goal = goal(session, &site.described, greedy)?;
            deletion::mark(session, rse, goal, now, CHUNK)?;
            Ok(Some((site, deletion::marked(session, rse, now, CHUNK)?)))
        };
        let Some((site, marked)) = self.database.write(mark).await? else {
            return Ok(Turn {
                n_deleted: 0,
                n_failed: 0,
            });
        };
        let (mut gone, mut left) = (Vec::new(), Vec::new());
        let deletions = marked.into_iter().map(|one| {
            let (storages, site) = (self.storages.clone(), &site);
            async move {
                let deleted = match &one.holder {
                    Some(holder) => {
                        let (rse, did) = (&site.described.rse.name, &one.did);
                        tracing::warn!(%rse, %did, %holder, "the replica goes and its file stays: another one has the same path");
                        Ok(())
                    }
                    None => storages.delete(site, &one).await,
                };
                (one.file, deleted)
            }
        });
        let mut deletions = stream::iter(deletions).buffer_unordered(self.config.parallel);
        while let Some((file, deleted)) = deletions.next().await {
            match deleted {
                Ok(()) => gone.push(file),
                Err(reason) => {
                    tracing::warn!(rse = %site.described.rse.name, file = file.0, reason, "a file cannot be deleted");
                    left.push(file);
                }
            }
        }
        drop(deletions);
        let turn = Turn {
            n_deleted: gone.len(),
            n_failed: left.len(),
        };
        self.note(rse, gone, left).await?;
        Ok(turn)
    }

    async fn note(&self, rse: RseId, gone: Vec<DidId>, left: Vec<DidId>) -> Result<(), StoreError> {
        let note = move |session: &mut dyn Session| {
            let now = time::now();
            deletion::deleted(session, rse, &gone, now)?;
            deletion::put_off(session, rse, &left, now + AGAIN)
        };
        self.database.write(note).await
    }
}

impl Pause {
    /// A storage of which everything failed is left alone for longer each time.
    fn after(&self, turn: &Result<Turn, StoreError>) -> Self {
        let (n_failures, pause) = match turn {
            Ok(Turn { n_deleted: 1.., .. }) => (0, Duration::ZERO),
            Ok(Turn { n_failed: 0, .. }) => (0, IDLE),
            Ok(_) | Err(_) => {
                let n_failures = self.n_failures + 1;
                (n_failures, retry::after_refusal(n_failures, None))
            }
        };
        Self {
            until: Some(Instant::now() + pause),
            n_failures,
        }
    }
}

fn site(session: &mut dyn Session, rse: RseId) -> Result<Option<Site>, StoreError> {
    let Some(described) = rses::by_number(session, rse)? else {
        return Ok(None);
    };
    let protocols = protocols::of(session, rse)?;
    Ok(described.rse.traits.can_delete.then_some(Site {
        described,
        protocols,
        room: None,
    }))
}

/// How much is deleted at an RSE: all that may go, or as much as its limit `MinFreeSpace` asks for.
fn goal(session: &mut dyn Session, rse: &Described, greedy: bool) -> Result<Goal, StoreError> {
    let own = rse
        .attributes
        .get("greedyDeletion")
        .map(|value| value.eq_ignore_ascii_case("true"));
    if own.unwrap_or(greedy) {
        return Ok(Goal::Greedy);
    }
    let limits = space::limits(session, rse.rse.id)?;
    let wanted = limits
        .iter()
        .find(|(name, _)| name == "MinFreeSpace")
        .map(|(_, bytes)| *bytes);
    let usage = space::usage(session, rse.rse.id)?;
    let free = usage
        .iter()
        .find(|usage| usage.source == "storage")
        .and_then(|usage| usage.free);
    Ok(match (wanted.and_then(|bytes| u64::try_from(bytes).ok()), free) {
        (Some(wanted), Some(free)) => Goal::Free {
            free: Bytes(free),
            wanted: Bytes(wanted),
        },
        _ => Goal::ObsoleteOnly,
    })
}

impl Storages {
    /// Deletes a file. One that is not there is deleted.
    async fn delete(&self, site: &Site, marked: &Marked) -> Result<(), String> {
        let protocols = site
            .protocols
            .iter()
            .filter_map(|one| Some((one.priorities.wan_delete?, one)));
        let mut named = String::from("the RSE has no protocol for deletion");
        let hashed = paths::hashed(&marked.did);
        let path = marked.path.as_deref().unwrap_or(&hashed);
        // Earlier versions took any text for a path: a path out of the folder is left to an administrator.
        if path != hashed
            && let Err(error) = pfn::normal(path)
        {
            return Err(format!("its path {path:?} {error}; see weir catalog check"));
        }
        for (_, protocol) in sorted(protocols) {
            let surl = match Surl::parse(&paths::on_the_wire(protocol, path)) {
                Ok(surl) => surl,
                Err(SurlError::UnsupportedScheme(_)) => {
                    named = format!(
                        "the catalogue deletes by https and davs, not by {}",
                        protocol.endpoint.scheme
                    );
                    continue;
                }
                Err(error) => return Err(error.to_string()),
            };
            let token = self.credentials.to_storage(site, protocol, &RIGHTS).await;
            let token = token.map_err(|error| format!("there is no token: {}", weir_auth::error_chain(&error)))?;
            let credential = token.map_or(Credential::Client, Credential::Token);
            let visit = self.namespace.visit(surl, credential).map_err(|refused| refused.text)?;
            return match visit.change(&Change::Unlink).await {
                Err(refused) if refused.obstacle != Obstacle::Missing => Err(refused.text),
                _ => Ok(()),
            };
        }
        Err(named)
    }
}

fn sorted<'a, T: 'a>(all: impl Iterator<Item = (u32, &'a T)>) -> Vec<(u32, &'a T)> {
    let mut all = all.collect::<Vec<_>>();
    all.sort_by_key(|(priority, _)| *priority);
    all
}

#[cfg(test)]
mod tests;
