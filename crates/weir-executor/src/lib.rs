//! Carries transfers out: third-party copies in three modes, tape, the namespaces of storages, and the tokens that
//! transfers need. All of it over HTTP, with other people's storages.
//!
//! The scheduler decides which operation runs, and when. An [`Executor`] reads its order from [`orders::Orders`],
//! writes lasting state to an [`orders::Journal`], and reports events of `weir-world`. Deliberately absent: the choice
//! of transfers, their times, and the storage of jobs.
//!
//! An attempt checks the source (size, checksum), and whether the destination is free or holds the whole file of an
//! earlier attempt. It has the bytes copied (pull, else push, else through this service), and checks the destination
//! again (size, checksum). Every error becomes a [`Failure`] that names party, phase, cause and remedy.
//!
//! # Permitted deletions
//!
//! **A transfer deletes at its destination only what this very transfer has provably written.** A file at another
//! storage cannot be signed, so the proof rests on observations. Either of these is one:
//!
//! 1. *A part.* The destination was seen free (404) just before an order went out, and that was made durable before it
//!    went (a [`Claim`]). The order was handed to a connection and not refused. The storage has not said that the
//!    destination was taken. The existing file is smaller than the source. Its `Last-Modified`, by the storage's own
//!    clock, lies between that look and the end of the order (after a crash: the last time this service was known to
//!    live).
//! 2. *A wrong copy.* The storage has said `success`, the file then found at the destination differs from the one
//!    before, it failed the comparison, and it is unchanged since.
//!
//! For both, two looks must agree (size, `ETag`, `Last-Modified`), PROPFIND must not find a collection, and the DELETE
//! carries `If-Match`. A claim ends with the first look after its order that finds nothing, or an unproven file: a file
//! that appears later belongs to another client. Without a time, a size, or a claim nothing is proven.
//!
//! An unproven file stays. A later attempt adopts it if it is whole (size and checksum equal the source's); else,
//! without `overwrite`, the transfer fails as `exists`. One risk remains: another client writes a smaller file to the
//! same path during our order, and the storage neither refuses nor reports that. This file is removed as a part of
//! ours.

pub mod clock;
pub mod config;
mod copying;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
pub mod job;
#[cfg(test)]
mod memory;
mod namespace;
pub mod orders;
pub mod places;
mod requests;
mod settings;
mod steps;
pub mod surl;
mod tape;
pub mod timeline;
mod tokens;

use std::{any::Any, collections::HashSet, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::FutureExt as _;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use weir_http::Client;
use weir_sched::Op;
use weir_units::Bytes;
use weir_world::{ErrorClass, Failure, OpId, Outcome, Party, Phase, Wait, WorldEvent};

pub use copying::modes::Modes;
pub use namespace::{Attributes, Change, Credential, Namespace, Obstacle, Refused, Visit};
pub use tokens::{Rules, TokenRefresher};
use weir_service::time::{self, Millis};

use crate::{
    clock::AttemptClock,
    job::{Claim, TIMEOUT_MAX},
    orders::{Journal, Order, Orders, Told},
    requests::failure::Scene,
    surl::Surl,
    timeline::Timeline,
};
use requests::client_pool::{ClientPool, Proxies};
use requests::failure::{internal, unreadable};
use requests::wire::Side;
pub use settings::ExecutorSettings;
use steps::attempt::Attempt;
use steps::trace::State;
use steps::verify::Expected;
use tokens::Right;

/// Carries out operations. Clones share everything.
#[derive(Clone)]
pub struct Executor {
    shared: Arc<Shared>,
    life: Life,
}

/// Of the scheduler that orders.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Life {
    /// When it began.
    began: Millis,
    /// When the one before it ended, as far as that is known.
    last_ended: Option<Millis>,
}

struct Shared {
    clients: Arc<ClientPool>,
    proxies: Arc<Proxies>,
    store: Arc<dyn Orders>,
    settings: ExecutorSettings,
    told: Arc<dyn Told>,
    modes: Arc<Modes>,
    places: Semaphore,
    relays: Semaphore,
    tapes: tape::Tapes,
    refresher: Arc<TokenRefresher>,
    /// Destinations being written, by [`Surl::identity`]: two writers would corrupt each other's files. At the
    /// scheduler's node this includes those of other nodes.
    targets: Mutex<HashSet<String>>,
}

impl std::fmt::Debug for Executor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Executor")
            .field("settings", &self.shared.settings)
            .finish_non_exhaustive()
    }
}

impl Executor {
    /// An executor that reads its orders from this store.
    pub fn new(
        client: Client,
        store: Arc<dyn Orders>,
        (settings, modes): (ExecutorSettings, Arc<Modes>),
        told: Arc<dyn Told>,
        refresher: Arc<TokenRefresher>,
        last_life_ended: Option<Millis>,
    ) -> Self {
        let places = Semaphore::new(settings.concurrency);
        let relays = Semaphore::new(settings.relays);
        let targets = Mutex::default();
        let tapes = tape::Tapes::new(client.clone(), settings.response_timeout);
        let clients = Arc::new(ClientPool::new(client));
        Self {
            shared: Arc::new(Shared {
                proxies: Arc::new(Proxies::new(clients.clone(), store.clone())),
                clients,
                store,
                settings,
                told,
                modes,
                places,
                relays,
                tapes,
                refresher,
                targets,
            }),
            life: Life {
                began: time::now(),
                last_ended: last_life_ended,
            },
        }
    }

    /// The life it works in.
    pub fn life(&self) -> Life {
        self.life
    }

    /// The same for another scheduler.
    #[must_use]
    pub fn in_life(&self, life: Life) -> Self {
        Self {
            shared: self.shared.clone(),
            life,
        }
    }

    /// Carries out one operation, reports its events, and returns after its final event. The clock tells what it waits for.
    pub async fn run(
        &self,
        (id, op): (OpId, Op),
        stop: CancellationToken,
        (journal, clock): (&dyn Journal, &AttemptClock),
        tell: impl Fn(WorldEvent) + Send + Sync,
    ) {
        // An operation that waits for tape holds no slot: there are very many, and each does no work itself.
        if let Op::Stage { .. } | Op::Archive { .. } = op {
            clock.enter(match op {
                Op::Stage { .. } => Wait::Staging,
                _ => Wait::Archiving,
            });
            tell(WorldEvent::Started);
            let last = tokio::select! {
                biased;
                () = stop.cancelled() => WorldEvent::Ended(Outcome::Stopped { bytes_moved: Bytes(0) }),
                last = async {
                    match op {
                        Op::Stage { .. } => self.stage(id, journal).await,
                        _ => self.archive(id).await,
                    }
                } => last,
            };
            return tell(last);
        }
        let last = tokio::select! {
            biased;
            () = stop.cancelled() => WorldEvent::Ended(Outcome::Stopped { bytes_moved: Bytes(0) }),
            place = self.shared.places.acquire() => {
                let _place = place;
                clock.enter(Wait::Store);
                tell(WorldEvent::Started);
                // One operation's defect must not end the others. Boxed: an operation that waits for tape, or a slot,
                // would be as large as the largest of its later states.
                let work = AssertUnwindSafe(Box::pin(self.work((id, op), &stop, (journal, clock), &tell)));
                work.catch_unwind().await.unwrap_or_else(|panic| defect(id, panic.as_ref()))
            }
        };
        tell(last);
    }

    async fn work(
        &self,
        (id, op): (OpId, Op),
        stop: &CancellationToken,
        (journal, clock): (&dyn Journal, &AttemptClock),
        tell: &(impl Fn(WorldEvent) + Send + Sync),
    ) -> WorldEvent {
        // Boxed: the memory of a waiting attempt is needed a thousand times over.
        let order = match Box::pin(self.order(id)).await {
            Ok(order) => Box::new(order),
            Err(failure) => return WorldEvent::Ended(Outcome::Failed(failure)),
        };
        clock.enter(Wait::Token);
        let (source, destination) = match Box::pin(self.sides(&order)).await {
            Ok(sides) => sides,
            Err(failure) => return WorldEvent::Ended(Outcome::Failed(failure)),
        };
        let client = match self.shared.clients.for_order(&order) {
            Ok(client) => client.watched(clock.watch()),
            Err(failure) => return WorldEvent::Ended(Outcome::Failed(failure)),
        };
        let _target = match self.enter(destination.surl.identity()) {
            Ok(target) => target,
            Err(failure) => return WorldEvent::Ended(Outcome::Failed(failure)),
        };
        let (resume, failures, cleanup) = match op {
            Op::Copy { resume, failures, .. } => (resume, failures, false),
            Op::Cleanup { .. } => (true, 0, true),
            _ => return WorldEvent::Ended(Outcome::Failed(internal("this operation is not known to the executor"))),
        };
        let progress = |bytes| tell(WorldEvent::Progress(Bytes(bytes)));
        let settings = &self.shared.settings;
        let earlier = order.file.claim.map(|claim| self.ended(claim));
        let wall = wall(settings, &order);
        let times = Timeline {
            began: time::now(),
            timeout: wall.as_secs(),
            ..Timeline::default()
        };
        if !cleanup {
            self.shared.told.began(id, &order, times);
        }
        let attempt = Attempt {
            client: &client,
            settings,
            modes: &self.shared.modes,
            relays: &self.shared.relays,
            tapes: &self.shared.tapes,
            source: &source,
            destination: &destination,
            job: &order.job,
            file: &order.file,
            expected: Expected::of(&order.file, &order.job.params),
            op: id,
            resume,
            failures,
            wall,
            stop,
            journal,
            progress: &progress,
            clock,
            state: State::new(earlier, order.file.spec.user_filesize, times),
        };
        if cleanup {
            return requests::hide::hide(&order.file.spec, Box::pin(attempt.clean_up()).await);
        }
        let last = attempt.run().await;
        self.shared.told.over(id, attempt.timeline());
        requests::hide::hide(&order.file.spec, last)
    }

    /// A claim of an earlier life ended with that life at the latest.
    fn ended(&self, claim: Claim) -> Claim {
        let Life { began, last_ended } = self.life;
        let cut = (claim.since < began).then(|| last_ended.unwrap_or(began));
        Claim {
            until: claim.until.or(cut),
            ..claim
        }
    }

    async fn order(&self, id: OpId) -> Result<Order, Failure> {
        let (store, file) = (self.shared.store.clone(), id.transfer.0);
        let read = tokio::task::spawn_blocking(move || store.order(file)).await;
        match read {
            Ok(Ok(Some(order))) => Ok(order),
            Ok(Ok(None)) => Err(internal(&format!("the store holds no file {file}"))),
            Ok(Err(error)) => Err(unreadable(&error)),
            Err(error) => Err(internal(&weir_auth::error_chain(&error))),
        }
    }

    /// The right to write to a destination, for an operation that another node carries out.
    pub fn enter_elsewhere(&self, destination: &Surl) -> Result<Target, Failure> {
        self.enter(destination.identity())
    }

    /// Both sides, with tokens that are good now.
    async fn sides(&self, order: &Order) -> Result<(Side, Side), Failure> {
        let mut sides = [Party::Source, Party::Destination].map(|party| self.side(party, order));
        for side in &mut sides {
            let scene = side.scene(Phase::Preparation);
            side.token = side.right.now(scene).await?;
        }
        Ok(sides.into())
    }

    /// The source or the destination of an order; its token is read later.
    fn side(&self, party: Party, order: &Order) -> Side {
        let (url, token) = match party {
            Party::Source => (order.file.spec.source_url(), &order.source_token),
            _ => (order.file.spec.destination_url(), &order.destination_token),
        };
        Side {
            party,
            surl: url.into_owned(),
            token: None,
            right: Right::of(order, token.as_ref(), (&self.shared.refresher, &self.shared.proxies)),
        }
    }

    fn enter(&self, destination: String) -> Result<Target, Failure> {
        let mut targets = self.shared.targets.lock();
        if targets.insert(destination.clone()) {
            let shared = self.shared.clone();
            return Ok(Target { shared, destination });
        }
        let scene = Scene::new(Party::TransferService, Phase::Preparation);
        Err(scene.fail(
            ErrorClass::Overload,
            "another transfer of this service writes to the same destination",
        ))
    }
}

/// The right to write to a destination.
pub struct Target {
    shared: Arc<Shared>,
    destination: String,
}

impl Drop for Target {
    fn drop(&mut self) {
        self.shared.targets.lock().remove(&self.destination);
    }
}

fn defect(id: OpId, panic: &(dyn Any + Send)) -> WorldEvent {
    let text = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no reason given");
    tracing::error!(op = %id, panic = text, "an operation panicked; it fails, the others go on");
    WorldEvent::Ended(Outcome::Failed(internal(&format!("a defect of this service: {text}"))))
}

/// The copy's wall time: the job's, or by size. Rows may hold any number; a clock cannot be asked for all of them.
fn wall(settings: &ExecutorSettings, order: &Order) -> Duration {
    let longest = Duration::from_secs(TIMEOUT_MAX);
    if let Some(seconds) = order.job.params.timeout {
        return Duration::from_secs(seconds).min(longest);
    }
    let size = order
        .file
        .spec
        .user_filesize
        .or(order.file.result.filesize)
        .unwrap_or(10 << 30);
    let mib = u32::try_from(size >> 20).unwrap_or(u32::MAX);
    settings
        .wall_base
        .saturating_add(settings.wall_per_mib.saturating_mul(mib))
        .min(longest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{Forgetful, Memory};

    /// 19,000 attempts run in one process, so each byte of their size is paid as often.
    #[tokio::test]
    async fn an_attempt_is_small() {
        let roots = weir_http::TrustRoots {
            files: Vec::new(),
            directories: Vec::new(),
        };
        let client = Client::new(weir_http::ClientConfig::new(roots)).expect("no roots are needed");
        let store: Arc<dyn Orders> = Arc::new(Memory::default());
        let refresher = TokenRefresher::idle(&client, store.clone());
        let executor = Executor::new(
            client,
            store,
            (ExecutorSettings::default(), Arc::default()),
            Arc::new(()),
            refresher,
            None,
        );
        let id = OpId {
            transfer: weir_world::TransferId(1),
            attempt: 1,
            epoch: 1,
        };
        let op = Op::Cleanup {
            link: weir_sched::Link::default(),
        };
        let clock = AttemptClock::start();
        let attempt = executor.run((id, op), CancellationToken::new(), (&Forgetful, &clock), |_| ());
        let size = size_of_val(&attempt);
        assert!(size <= 6 * 1024, "{size} bytes");
    }
}
