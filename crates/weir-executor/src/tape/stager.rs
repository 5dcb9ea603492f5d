//! Files that are brought online: combined into few requests, each polled for all of its files.
//!
//! One task runs for each endpoint and credential. It combines requests that arrive within [`WINDOW`] into one of at
//! most [`REQUEST_MAX`] files, merges duplicates, and polls with growing pauses (1, 2, 4, … s, as `gfal2` does).

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until},
};
use weir_units::Bytes;
use weir_world::{ErrorClass, Failure, Party, Phase, Retry};

use super::client::{Staged, Tape, TapeClient, Wanted};
use crate::requests::failure::{Scene, advice};

/// For so long a request waits for company.
const WINDOW: Duration = Duration::from_millis(500);
/// Files of one request, at most.
pub(super) const REQUEST_MAX: usize = 5000;
/// Pauses between two polls of a request, the first and the longest.
const PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// After so long without anything to do, a task ends: credentials come and go.
const IDLE: Duration = Duration::from_secs(120);

/// Pause between two tries to cancel an unwanted request; after so many of them it ends with its lifetime.
const AGAIN: Duration = Duration::from_secs(30);
const TRIES: usize = 20;

/// A message to a waiting file.
#[derive(Debug)]
pub(crate) enum News {
    /// The storage's name for the request that it is part of: to be made durable.
    Requested(String),
    /// It is online, or not. Each of very many channels has room for 32 news from the first on: they are small.
    Ended(Result<(), Box<Failure>>),
}

/// A file to be brought online. Dropping the other end of `tell` withdraws it.
#[derive(Debug)]
pub(crate) struct Ask {
    pub(crate) wanted: Wanted,
    /// The request that was made for it already.
    pub(crate) request: Option<String>,
    /// The storage has forgotten a request for it already.
    pub(crate) forgotten: bool,
    /// The waiter knows the name of its request, and cancels it itself.
    pub(crate) heard: Arc<AtomicBool>,
    pub(crate) tell: mpsc::UnboundedSender<News>,
}

/// A request, with the waiters for each of its files.
#[derive(Debug)]
struct Request {
    files: HashMap<String, Vec<Ask>>,
    due: Instant,
    pause: Duration,
}

pub(super) struct Stager {
    client: Arc<TapeClient>,
    tape: Tape,
    gathered: BTreeMap<String, Vec<Ask>>,
    posts: Option<Instant>,
    requests: HashMap<String, Request>,
}

impl Stager {
    pub(super) fn new(client: Arc<TapeClient>, tape: Tape) -> Self {
        Self {
            client,
            tape,
            gathered: BTreeMap::new(),
            posts: None,
            requests: HashMap::new(),
        }
    }

    /// Works as long as anybody may ask.
    pub(super) async fn run(mut self, mut asks: mpsc::UnboundedReceiver<Ask>) {
        loop {
            let work = self
                .requests
                .values()
                .map(|request| request.due)
                .chain(self.posts)
                .min();
            let next = work.unwrap_or_else(|| Instant::now() + IDLE);
            tokio::select! {
                ask = asks.recv(), if !asks.is_closed() || !asks.is_empty() => {
                    if let Some(ask) = ask {
                        self.take(ask);
                    }
                }
                () = sleep_until(next) => {
                    if work.is_none() {
                        // Later callers find the channel closed, and start another task.
                        asks.close();
                        if asks.is_empty() {
                            return;
                        }
                    }
                }
            }
            while let Ok(ask) = asks.try_recv() {
                self.take(ask);
            }
            let now = Instant::now();
            if self.posts.is_some_and(|at| at <= now) || self.gathered.len() >= REQUEST_MAX {
                self.post().await;
            }
            let due = self
                .requests
                .iter()
                .filter(|(_, request)| request.due <= Instant::now());
            for name in due.map(|(name, _)| name.clone()).collect::<Vec<_>>() {
                self.poll(&name).await;
            }
        }
    }

    fn take(&mut self, ask: Ask) {
        let path = super::client::plain(&ask.wanted.path);
        if let Some(name) = &ask.request {
            let request = self.requests.entry(name.clone()).or_insert_with(|| Request {
                files: HashMap::new(),
                due: Instant::now() + WINDOW,
                pause: PAUSE.0,
            });
            request.files.entry(path).or_default().push(ask);
            return;
        }
        // Some storages stumble over a second request for the same file.
        let asked = self
            .requests
            .iter_mut()
            .find(|(_, request)| request.files.contains_key(&path));
        if let Some((name, request)) = asked {
            let _ = ask.tell.send(News::Requested(name.clone()));
            request.files.entry(path).or_default().push(ask);
            return;
        }
        self.gathered.entry(path).or_default().push(ask);
        self.posts.get_or_insert(Instant::now() + WINDOW);
    }

    /// Sends requests for the combined files.
    async fn post(&mut self) {
        self.posts = None;
        let mut gathered = std::mem::take(&mut self.gathered);
        gathered.retain(|_, asks| prune(asks));
        while !gathered.is_empty() {
            let rest = gathered.keys().nth(REQUEST_MAX).cloned();
            let rest = rest.map(|from| gathered.split_off(&from)).unwrap_or_default();
            let files = std::mem::replace(&mut gathered, rest);
            let wanted = files.values().filter_map(|asks| Some(asks.first()?.wanted.clone()));
            let wanted = wanted.collect::<Vec<_>>();
            match self.client.stage(&self.tape, &wanted).await {
                Ok(name) => {
                    for ask in files.values().flatten() {
                        let _ = ask.tell.send(News::Requested(name.clone()));
                    }
                    let request = Request {
                        files: files.into_iter().collect(),
                        due: Instant::now() + PAUSE.0,
                        pause: PAUSE.0,
                    };
                    self.requests.insert(name, request);
                }
                Err(failure) => fail(files.into_values().flatten(), &failure),
            }
        }
    }

    /// The storage forgot a request, as it may after a restart: its files are requested once more.
    fn ask_anew(&mut self, name: &str, request: Request) {
        for mut ask in request.files.into_values().flatten() {
            if ask.forgotten {
                let _ = ask.tell.send(News::Ended(Err(Box::new(forgets(name)))));
                continue;
            }
            (ask.request, ask.forgotten) = (None, true);
            self.take(ask);
        }
    }

    async fn poll(&mut self, name: &str) {
        let Some(mut request) = self.requests.remove(name) else {
            return;
        };
        let unknown = request.files.iter().filter(|(_, asks)| is_unknown(asks));
        let unknown = unknown.map(|(path, _)| path.clone()).collect::<Vec<_>>();
        if !unknown.is_empty() {
            tokio::spawn(give_back(
                self.client.clone(),
                self.tape.clone(),
                name.to_owned(),
                unknown,
            ));
        }
        request.files.retain(|_, asks| prune(asks));
        if request.files.is_empty() {
            return;
        }
        match self.client.poll(&self.tape, name).await {
            Ok(Some(told)) => {
                request.files = request
                    .files
                    .into_iter()
                    .filter_map(|(path, asks)| {
                        let end = match told.get(&path) {
                            None | Some(Staged::Pending) => return Some((path, asks)),
                            Some(Staged::Online) => Ok(()),
                            Some(Staged::Failed(text)) => Err(Box::new(failed(&path, text))),
                        };
                        for ask in asks {
                            let _ = ask.tell.send(News::Ended(end.clone()));
                        }
                        None
                    })
                    .collect();
            }
            Ok(None) => return self.ask_anew(name, request),
            Err(failure) if failure.retry == Retry::Never => {
                return fail(request.files.into_values().flatten(), &failure);
            }
            // The request stands, whatever the result of this poll: each waiter has a limit of its own.
            Err(failure) => {
                tracing::warn!(endpoint = self.tape.endpoint, request = name, %failure, "a stage request could not be polled; it is asked again");
            }
        }
        if !request.files.is_empty() {
            request.due = Instant::now() + request.pause;
            request.pause = (request.pause * 2).min(PAUSE.1);
            self.requests.insert(name.to_owned(), request);
        }
    }
}

/// A storage that forgets again and again is asked after a pause, as after any other failure.
fn forgets(name: &str) -> Failure {
    let scene = Scene::new(Party::Source, Phase::Preparation);
    let text = format!("the storage does not know its stage request {name} any more, nor did it know the one before");
    let mut failure = scene.fail(ErrorClass::Protocol, text);
    failure.retry = Retry::Later;
    failure
}

/// Whether all waiters left before they knew the name of their request: then this task has to cancel it.
fn is_unknown(asks: &[Ask]) -> bool {
    let unknown = |ask: &Ask| ask.tell.is_closed() && !ask.heard.load(Ordering::Acquire);
    asks.iter().all(unknown)
}

/// Cancels the files that no transfer waits for any more.
async fn give_back(client: Arc<TapeClient>, tape: Tape, request: String, paths: Vec<String>) {
    for _ in 0..TRIES {
        let Err(failure) = client.give_back(&tape, &request, &paths, false).await else {
            return;
        };
        tracing::warn!(endpoint = tape.endpoint, request, %failure, "files without a waiting transfer could not be released");
        if failure.retry == Retry::Never {
            return;
        }
        tokio::time::sleep(AGAIN).await;
    }
}

/// Removes waiters that left; returns whether any remains.
fn prune(asks: &mut Vec<Ask>) -> bool {
    asks.retain(|ask| !ask.tell.is_closed());
    !asks.is_empty()
}

fn fail(asks: impl Iterator<Item = Ask>, failure: &Failure) {
    for ask in asks {
        let _ = ask.tell.send(News::Ended(Err(Box::new(failure.clone()))));
    }
}

/// The tape system's error for one file.
pub(super) fn failed(path: &str, text: &str) -> Failure {
    let scene = Scene::new(Party::Source, Phase::Preparation);
    let class = ErrorClass::of_text(text).unwrap_or(ErrorClass::Protocol);
    let mut failure = scene.fail(class, format!("{path} could not be brought online: {text}"));
    failure.retry = match class {
        ErrorClass::NotFound | ErrorClass::Permission => advice(class, Party::Source).1,
        _ => Retry::Later,
    };
    failure.bytes_moved = Bytes(0);
    failure
}
