//! Tape: files brought online before their copy, copies watched until they are on tape, pins given back.
//!
//! An operation here is a task that sleeps: one poller asks the storage for thousands of them at once ([`stager`],
//! [`watcher`]). A storage's request id is durable before it is used, so that a restart continues to poll. Pins, and
//! requests without a waiting transfer, are released when their transfer has ended, whatever its outcome ([`pins`]).

mod client;
mod pins;
mod stager;
mod watcher;

#[cfg(any(test, fuzzing))]
pub(super) use client::fuzz;

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::sync::{mpsc, oneshot};
use weir_http::Client;
use weir_world::{ErrorClass, Failure, OpId, Outcome, Party, Phase, Retry, WorldEvent};

pub(crate) use client::Tape;
use client::{TapeClient, Wanted};
use pins::Pins;
use stager::{Ask, News, Stager};
use watcher::{Watch, Watcher};

use super::{Executor, failure::Scene, wire::Side};
use weir_service::time::{self, Millis};

use crate::{
    job::TokenHash,
    orders::{Journal, Note, Order},
    surl::Surl,
};

/// Timeout of a last look at a request whose time is over: it may have been fulfilled meanwhile.
const LAST_LOOK: Duration = Duration::from_secs(5);

/// The storage to ask, with the credential and the VO.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Counter {
    endpoint: String,
    token: Option<TokenHash>,
    vo: String,
}

/// Everything about tape.
#[derive(Debug)]
pub(crate) struct Tapes {
    client: Arc<TapeClient>,
    stagers: Mutex<HashMap<Counter, mpsc::UnboundedSender<Ask>>>,
    watchers: Mutex<HashMap<Counter, mpsc::UnboundedSender<Watch>>>,
    /// Endpoint and number of waiters of each stage request; equal requests are merged, whatever their tokens.
    places: Mutex<HashMap<StagePlace, (Counter, Tape, usize)>>,
    pins: Pins,
}

/// Endpoint, VO, path.
type StagePlace = (String, String, String);

/// A registered request for a file.
struct Asking<'a> {
    tapes: &'a Tapes,
    place: StagePlace,
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        let mut places = self.tapes.lock_places();
        if let Some((.., asking)) = places.get_mut(&self.place) {
            *asking -= 1;
            if *asking == 0 {
                places.remove(&self.place);
            }
        }
    }
}

impl Tapes {
    pub(crate) fn new(client: Client, limit: Duration) -> Self {
        Self {
            client: Arc::new(TapeClient::new(client, limit)),
            stagers: Mutex::default(),
            watchers: Mutex::default(),
            places: Mutex::default(),
            pins: Pins::default(),
        }
    }

    /// Where a file is, in the words of the API.
    pub(super) async fn locality(&self, side: &Side) -> Result<String, Failure> {
        let path = path_of(&side.surl);
        let tape = Tape {
            right: side.right.with(side.token.clone()),
            ..tape_of(side)
        };
        let told = self.client.localities(&tape, std::slice::from_ref(&path)).await?;
        let said = told.get(&client::plain(&path)).cloned();
        said.unwrap_or_else(|| Err("the storage does not say where it is".to_owned()))
            .map_err(|text| {
                Scene::new(side.party, Phase::Preparation).fail(ErrorClass::Protocol, format!("{}: {text}", side.surl))
            })
    }

    fn lock_places(&self) -> std::sync::MutexGuard<'_, HashMap<StagePlace, (Counter, Tape, usize)>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a request for as long as the returned guard lives.
    fn stage(&self, counter: Counter, tape: Tape, ask: Ask) -> Asking<'_> {
        let path = client::plain(&ask.wanted.path);
        let place = (counter.endpoint.clone(), counter.vo.clone(), path);
        let (counter, tape) = {
            let mut places = self.lock_places();
            let entry = places.entry(place.clone()).or_insert((counter, tape, 0));
            entry.2 += 1;
            (entry.0.clone(), entry.1.clone())
        };
        self.stage_at(counter, tape, ask);
        Asking { tapes: self, place }
    }

    fn stage_at(&self, counter: Counter, tape: Tape, ask: Ask) {
        hand_over(&self.stagers, counter, ask, |asks| {
            tokio::spawn(Stager::new(self.client.clone(), tape).run(asks));
        });
    }

    fn watch(&self, counter: Counter, tape: Tape, watch: Watch) {
        hand_over(&self.watchers, counter, watch, |watches| {
            tokio::spawn(Watcher::new(self.client.clone(), tape).run(watches));
        });
    }
}

/// Hands over to the task of a counter, which is begun if there is none.
fn hand_over<K: Hash + Eq, T>(
    tasks: &Mutex<HashMap<K, mpsc::UnboundedSender<T>>>,
    counter: K,
    message: T,
    begin: impl FnOnce(mpsc::UnboundedReceiver<T>),
) {
    let mut tasks = tasks.lock().unwrap_or_else(PoisonError::into_inner);
    let message = match tasks.get(&counter) {
        Some(task) => match task.send(message) {
            Ok(()) => return,
            Err(mpsc::error::SendError(message)) => message,
        },
        None => message,
    };
    tasks.retain(|_, task| !task.is_closed());
    // No limit of its own. Its bound: one message for each operation, and limits.staging bounds the operations.
    let (sender, receiver) = mpsc::unbounded_channel();
    // The receiver is at hand.
    let _ = sender.send(message);
    begin(receiver);
    tasks.insert(counter, sender);
}

/// The path of a URL, as tape endpoints are asked for it.
fn path_of(surl: &Surl) -> String {
    let url = surl.http_url();
    let start = url.find("://").map_or(0, |at| at + 3);
    let path = url[start..].find('/').map_or("/", |at| &url[start + at..]);
    path.split('?').next().unwrap_or_default().to_owned()
}

/// The tape of a side.
pub(crate) fn tape_of(side: &Side) -> Tape {
    Tape {
        endpoint: side.surl.endpoint(),
        party: side.party,
        right: side.right.clone(),
    }
}

fn counter_of(tape: &Tape, vo: &str) -> Counter {
    Counter {
        endpoint: tape.endpoint.clone(),
        token: tape.right.hash(),
        vo: vo.to_owned(),
    }
}

/// How long is left of so many seconds, counted from then.
fn left(since: Option<Millis>, seconds: u32) -> Duration {
    let over = since
        .unwrap_or_else(time::now)
        .saturating_add(i64::from(seconds).saturating_mul(1000));
    let left = u64::try_from(over.saturating_sub(time::now())).unwrap_or_default();
    Duration::from_millis(left)
        .min(Duration::from_secs(seconds.into()))
        .max(LAST_LOOK)
}

impl Executor {
    /// Has a file brought online.
    pub(super) async fn stage(&self, id: OpId, journal: &dyn Journal) -> WorldEvent {
        ended(self.staged(id, journal).await)
    }

    async fn staged(&self, id: OpId, journal: &dyn Journal) -> Result<(), Failure> {
        // No limit of its own. Its bound: the names of a file's two requests at most, and its end.
        let (tell, mut news) = mpsc::unbounded_channel();
        let heard = Arc::new(AtomicBool::new(false));
        // Boxed, and dropped: each of very many waiting operations keeps only the data that it needs.
        let (tape, path, vo, since, seconds, ask) = Box::pin(async {
            let order = self.order(id).await?;
            let source = self.side(Party::Source, &order);
            source.right.now(source.scene(Phase::Preparation)).await?;
            let (params, path) = (&order.job.params, path_of(&source.surl));
            heard.store(order.file.tape.request.is_some(), Ordering::Release);
            let ask = Ask {
                wanted: Wanted {
                    path: path.clone(),
                    lifetime: params.copy_pin_lifetime,
                    metadata: metadata(&order),
                },
                request: order.file.tape.request.clone(),
                forgotten: false,
                heard: heard.clone(),
                tell,
            };
            let seconds = params.bring_online.unwrap_or(u32::MAX);
            let since = order.file.tape.staging_start;
            Ok::<_, Failure>((tape_of(&source), path, order.job.vo.clone(), since, seconds, ask))
        })
        .await?;
        let (tapes, endpoint) = (&self.shared.tapes, tape.endpoint.clone());
        let _asking = tapes.stage(counter_of(&tape, &vo), tape, ask);
        let wait = async {
            while let Some(news) = news.recv().await {
                match news {
                    News::Requested(request) => {
                        tapes.pins.took(id.transfer.0, endpoint.clone(), path.clone());
                        heard.store(true, Ordering::Release);
                        let files = vec![id.transfer.0];
                        journal.make_durable(Note::Requested { files, request }).await;
                    }
                    News::Ended(end) => return end.map_err(|failure| *failure),
                }
            }
            Err(super::internal("the stager has stopped"))
        };
        let over = tokio::time::timeout(left(since, seconds), wait).await;
        over.unwrap_or_else(|_| {
            let text = format!("the file was not online within {seconds} s");
            Err(too_late(
                Party::Source,
                &text,
                "allow more time with 'bring_online', or look after the tape system",
            ))
        })
    }

    /// Watches a copy until it is on tape.
    pub(super) async fn archive(&self, id: OpId) -> WorldEvent {
        ended(self.archived(id).await)
    }

    async fn archived(&self, id: OpId) -> Result<(), Failure> {
        let (tell, end) = oneshot::channel();
        let (tape, vo, since, seconds, watch) = Box::pin(async {
            let order = self.order(id).await?;
            let destination = self.side(Party::Destination, &order);
            destination.right.now(destination.scene(Phase::Finalization)).await?;
            let path = path_of(&destination.surl);
            let seconds = order.job.params.archive_timeout.filter(|seconds| *seconds > 0);
            let (vo, since) = (order.job.vo.clone(), order.file.tape.archive_start);
            Ok::<_, Failure>((tape_of(&destination), vo, since, seconds, Watch { path, tell }))
        })
        .await?;
        self.shared.tapes.watch(counter_of(&tape, &vo), tape, watch);
        let gone = || Err(super::internal("the watcher of copies has stopped"));
        let Some(seconds) = seconds else {
            return end.await.unwrap_or_else(|_| gone());
        };
        let end = tokio::time::timeout(left(since, seconds), end).await;
        let Ok(end) = end else {
            let text = format!("the copy was not on tape within {seconds} s");
            let remedy = "allow more time with 'archive_timeout', or look after the tape system";
            return Err(too_late(Party::Destination, &text, remedy));
        };
        end.unwrap_or_else(|_| gone())
    }

    /// Starts the release of pins: those of an earlier life, and those of transfers that end.
    pub async fn keep_pins(self, journal: Arc<dyn Journal>) {
        self.give_back_pins(journal).await;
    }

    /// A transfer has come to its end, durably.
    pub fn settled(&self, file: u64) {
        self.shared.tapes.pins.settled(file);
    }
}

fn metadata(order: &Order) -> Option<serde_json::Value> {
    serde_json::from_str(order.file.spec.staging_metadata.as_ref()?.get()).ok()
}

fn ended(end: Result<(), Failure>) -> WorldEvent {
    WorldEvent::Ended(match end {
        Ok(()) => Outcome::Ready,
        Err(failure) => Outcome::Failed(failure),
    })
}

fn too_late(party: Party, text: &str, remedy: &str) -> Failure {
    let phase = match party {
        Party::Destination => Phase::Finalization,
        _ => Phase::Preparation,
    };
    let mut failure = Scene::new(party, phase).fail(ErrorClass::Timeout, text);
    remedy.clone_into(&mut failure.remedy);
    failure.retry = Retry::Never;
    failure
}
