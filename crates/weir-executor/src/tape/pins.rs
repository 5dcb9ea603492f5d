//! Pins: a file brought online is released when its transfer has ended, after success and after failure.
//!
//! The store records the files with a pin ([`Store::pins`](crate::orders::Orders::pins)); a restart continues from
//! there. Two transfers of one file share its pin: the last one releases it, in all of their requests. An unfinished
//! request is cancelled as well. An unreachable endpoint is retried with growing pauses; a pin that could not be
//! released ends with its lifetime.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{sync::mpsc, time::Instant};
use weir_world::{ErrorClass, Party, Retry};

use super::{client::Tape, path_of, tape_of};
use crate::{
    Executor,
    job::{FileState, TokenHash},
    orders::{Journal, Note, Order, Pin},
};

/// For so long an end waits for company.
const WINDOW: Duration = Duration::from_secs(1);
/// Paths of one request, at most.
const REQUEST_MAX: usize = 1000;
/// Pauses between two tries, the first and the longest, and how many there are.
const PAUSE: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(3600));
const TRIES: u32 = 12;

/// The key of one request.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Group {
    endpoint: String,
    token: Option<TokenHash>,
    request: String,
    /// Whether its files had come online.
    staged: bool,
}

#[derive(Debug, Default)]
struct Given {
    tape: Option<Tape>,
    files: Vec<u64>,
    paths: BTreeSet<String>,
    tries: u32,
}

/// An endpoint at which pins are given back.
struct PinQueue {
    give: mpsc::UnboundedSender<(Group, Given)>,
    /// Groups that were handed over and are not done.
    open: Arc<AtomicUsize>,
}

impl Executor {
    pub(super) async fn give_back_pins(self, journal: Arc<dyn Journal>) {
        let pins = &self.shared.tapes.pins;
        // No limit of its own. Its bound: each file with a pin tells its end once, and limits.staging bounds these files.
        let (ended, mut endings) = mpsc::unbounded_channel();
        pins.tell(ended);
        pins.recalled(&self.pins_left().await);
        // A queue for each endpoint: an endpoint that does not answer delays only its own queue.
        let mut endpoints: HashMap<String, PinQueue> = HashMap::new();
        let mut tasks = tokio::task::JoinSet::new();
        while let Some(first) = endings.recv().await {
            tokio::time::sleep(WINDOW).await;
            let mut files = vec![first];
            while let Ok(file) = endings.try_recv() {
                files.push(file);
            }
            // Users name the endpoints: one with nothing to give back is forgotten, and its task ends.
            endpoints.retain(|_, endpoint| endpoint.open.load(Ordering::Acquire) > 0);
            while tasks.try_join_next().is_some() {}
            for (group, given) in self.groups(files, &*journal).await {
                let endpoint = endpoints.entry(group.endpoint.clone()).or_insert_with(|| {
                    // No limit of its own. Its bound: each file with a pin is in one group, and limits.staging bounds these files.
                    let (give, given) = mpsc::unbounded_channel();
                    let open = Arc::new(AtomicUsize::new(0));
                    let work = self.clone().give_back_at_one(given, open.clone(), journal.clone());
                    tasks.spawn(work);
                    PinQueue { give, open }
                });
                endpoint.open.fetch_add(1, Ordering::Release);
                let _ = endpoint.give.send((group, given));
            }
        }
    }

    /// Releases the pins that it receives, all at one endpoint, until the channel is closed.
    async fn give_back_at_one(
        self,
        mut groups: mpsc::UnboundedReceiver<(Group, Given)>,
        open: Arc<AtomicUsize>,
        journal: Arc<dyn Journal>,
    ) {
        let mut later: BTreeMap<(Instant, u64), (Group, Given)> = BTreeMap::new();
        let mut number = 0;
        loop {
            let next = later.keys().next().map(|(at, _)| *at);
            let due = tokio::select! {
                one = groups.recv() => match one {
                    Some(one) => Some(one),
                    None => return,
                },
                () = async { match next { Some(at) => tokio::time::sleep_until(at).await, None => std::future::pending().await } } => {
                    later.pop_first().map(|(_, one)| one)
                }
            };
            let Some((group, mut given)) = due else { continue };
            if self.give_back(&group, &given).await || given.tries >= TRIES {
                journal.note(Note::Unpinned { files: given.files });
                open.fetch_sub(1, Ordering::Release);
                continue;
            }
            let pause = PAUSE.0.saturating_mul(1 << given.tries).min(PAUSE.1);
            (given.tries, number) = (given.tries + 1, number + 1);
            later.insert((Instant::now() + pause, number), (group, given));
        }
    }

    /// The pins of an earlier life.
    async fn pins_left(&self) -> Vec<Pin> {
        loop {
            let store = self.shared.store.clone();
            let error = match tokio::task::spawn_blocking(move || store.pins()).await {
                Ok(Ok(left)) => return left,
                Ok(Err(error)) => weir_auth::error_chain(&error),
                Err(error) => weir_auth::error_chain(&error),
            };
            tracing::warn!(error, "could not read what pins are to be given back; trying again");
            tokio::time::sleep(PAUSE.0).await;
        }
    }

    /// The release requests for these files, by storage.
    async fn groups(&self, files: Vec<u64>, journal: &dyn Journal) -> Vec<(Group, Given)> {
        let store = self.shared.store.clone();
        let files = files.into_iter().flat_map(|file| self.shared.tapes.pins.leave(file));
        let files = files.collect::<Vec<_>>();
        let read = move || {
            files
                .into_iter()
                .map(|file| (file, store.order(file)))
                .collect::<Vec<_>>()
        };
        let orders = tokio::task::spawn_blocking(read).await.unwrap_or_default();
        let mut unread = Vec::new();
        let mut groups: BTreeMap<Group, Given> = BTreeMap::new();
        let (mut done, mut seen_to) = (Vec::new(), BTreeSet::new());
        for (file, order) in orders {
            let order = match order {
                Ok(order) => order,
                Err(error) => {
                    tracing::warn!(
                        file,
                        error = weir_auth::error_chain(&error),
                        "could not read the pins to release; trying again"
                    );
                    unread.push(file);
                    continue;
                }
            };
            let is_kept = order.as_ref().is_some_and(is_kept);
            let asked = order.and_then(|order| self.asked(&order));
            if is_kept && let Some((group, _, path)) = &asked {
                seen_to.insert((group.endpoint.clone(), group.request.clone(), path.clone()));
            }
            let asked = asked.filter(|_| !is_kept);
            let Some((group, tape, path)) = asked else {
                done.push(file);
                continue;
            };
            let given = groups.entry(group).or_default();
            given.tape.get_or_insert(tape);
            given.files.push(file);
            given.paths.insert(path);
        }
        if !done.is_empty() {
            journal.note(Note::Unpinned { files: done });
        }
        if !unread.is_empty() {
            let this = self.clone();
            tokio::spawn(async move {
                tokio::time::sleep(PAUSE.0).await;
                unread
                    .into_iter()
                    .for_each(|file| this.shared.tapes.pins.once_more(file));
            });
        }
        // A path of a request is released once for all its transfers; as a staged file, if it was staged for any of
        // them.
        let mut groups = groups.into_iter().collect::<Vec<_>>();
        groups.sort_by_key(|(group, _)| !group.staged);
        for (group, given) in &mut groups {
            let place = |path: &str| (group.endpoint.clone(), group.request.clone(), path.to_owned());
            given.paths.retain(|path| seen_to.insert(place(path)));
        }
        groups
    }

    async fn give_back(&self, group: &Group, given: &Given) -> bool {
        let Some(tape) = &given.tape else { return true };
        let client = &self.shared.tapes.client;
        let paths = given.paths.iter().cloned().collect::<Vec<_>>();
        for paths in paths.chunks(REQUEST_MAX) {
            if let Err(failure) = client.give_back(tape, &group.request, paths, group.staged).await {
                if failure.class == ErrorClass::Token && failure.retry == Retry::Never {
                    tracing::warn!(endpoint = group.endpoint, %failure, "pins cannot be given back; they go with their lifetime");
                    return true;
                }
                tracing::warn!(endpoint = group.endpoint, request = group.request, %failure, "pins could not be given back");
                return false;
            }
        }
        true
    }

    fn asked(&self, order: &Order) -> Option<(Group, Tape, String)> {
        let source = self.side(Party::Source, order);
        let tape = tape_of(&source);
        let group = Group {
            endpoint: tape.endpoint.clone(),
            token: tape.right.hash(),
            request: order.file.tape.request.clone()?,
            staged: order.file.tape.staging_finished.is_some(),
        };
        Some((group, tape, path_of(&source.surl)))
    }
}

/// A job that only brings a file online wants it to stay there for its lifetime.
fn is_kept(order: &Order) -> bool {
    order.file.state == FileState::Finished && order.file.spec.source == order.file.spec.destination
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test may panic")]

    use super::super::pin_state::Pins;
    use super::*;
    use crate::surl::Surl;

    fn pin(file: u64, over: bool) -> Pin {
        Pin {
            file,
            over,
            source: Surl::parse(&format!("https://tape.example/{file}")).unwrap(),
        }
    }

    /// Its pin would stay for days: the store said that it goes on, and its end came before anybody knew that it has one.
    #[test]
    fn a_transfer_that_ends_while_pins_are_read_gives_its_own_back() {
        let (ended, mut told) = mpsc::unbounded_channel();
        let pins = Pins::default();
        pins.tell(ended);
        pins.settled(1);
        pins.settled(9);
        pins.recalled(&[pin(1, false), pin(2, false), pin(3, true)]);
        pins.settled(2);
        let told = std::iter::from_fn(|| told.try_recv().ok()).collect::<Vec<_>>();
        assert_eq!(told, [1, 3, 2]);
    }

    /// Its file would count as needed for ever, and no pin of it be released.
    #[test]
    fn a_transfer_that_let_go_while_pins_are_read_holds_nothing() {
        let (ended, mut told) = mpsc::unbounded_channel();
        let pins = Pins::default();
        pins.tell(ended);
        pins.took(1, "https://tape.example".to_owned(), "/1".to_owned());
        pins.settled(1);
        assert_eq!(pins.leave(told.try_recv().unwrap()), [1]);
        pins.recalled(&[pin(1, false)]);
        assert_eq!(pins.leave(told.try_recv().unwrap()), [1]);
        assert!(pins.lock().places.is_empty());
    }
}
