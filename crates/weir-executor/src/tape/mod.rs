//! Tape: files brought online before their copy, copies watched until they are on tape, pins given back.
//!
//! An operation here is a task that sleeps: one poller asks the storage for thousands of them at once ([`stager`],
//! [`watcher`]). A storage's request id is durable before it is used, so that a restart continues to poll. Pins, and
//! requests without a waiting transfer, are released when their transfer has ended, whatever its outcome ([`pins`]).

mod client;
mod operations;
mod pin_state;
mod pins;
mod stager;
mod watcher;

#[cfg(any(test, fuzzing))]
pub(super) use client::fuzz;

use std::{collections::HashMap, hash::Hash, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::sync::mpsc;
use weir_http::Client;
use weir_world::{ErrorClass, Failure, Phase};

pub(crate) use client::Tape;
use client::TapeClient;
use pin_state::Pins;
use stager::{Ask, Stager};
use watcher::{Watch, Watcher};

use crate::requests::{failure::Scene, wire::Side};

use crate::job::TokenHash;
use client::path_of;
pub(crate) use client::tape_of;

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
        let mut places = self.tapes.places.lock();
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

    /// Registers a request for as long as the returned guard lives.
    fn stage(&self, counter: Counter, tape: Tape, ask: Ask) -> Asking<'_> {
        let path = client::plain(&ask.wanted.path);
        let place = (counter.endpoint.clone(), counter.vo.clone(), path);
        let (counter, tape) = {
            let mut places = self.places.lock();
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
    let mut tasks = tasks.lock();
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

fn counter_of(tape: &Tape, vo: &str) -> Counter {
    Counter {
        endpoint: tape.endpoint.clone(),
        token: tape.right.hash(),
        vo: vo.to_owned(),
    }
}
