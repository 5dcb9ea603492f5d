//! Copies that are watched until they are on tape: asked of in bulk, each after growing pauses.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, sleep_until},
};
use weir_world::{ErrorClass, Failure, Party, Phase, Retry};

use super::client::{Locality, Tape, TapeClient, plain};
use crate::requests::failure::Scene;

/// For so long a look waits for company.
const WINDOW: Duration = Duration::from_millis(200);
/// Files of one look, at most.
const LOOK_MAX: usize = 1000;
/// Pauses between two looks at a file, the first and the longest.
const PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// After so long without anything to do, a task ends: credentials come and go.
const IDLE: Duration = Duration::from_secs(120);

/// A copy to be watched. Dropping the other end of `tell` withdraws it.
#[derive(Debug)]
pub(crate) struct Watch {
    pub(crate) path: String,
    pub(crate) tell: oneshot::Sender<Result<(), Failure>>,
}

#[derive(Debug)]
struct Watched {
    watch: Watch,
    pause: Duration,
}

pub(super) struct Watcher {
    client: Arc<TapeClient>,
    tape: Tape,
    /// By the time of the next look.
    due: BTreeMap<(Instant, u64), Watched>,
    last: u64,
}

impl Watcher {
    pub(super) fn new(client: Arc<TapeClient>, tape: Tape) -> Self {
        Self {
            client,
            tape,
            due: BTreeMap::new(),
            last: 0,
        }
    }

    /// Works as long as anybody may ask.
    pub(super) async fn run(mut self, mut watches: mpsc::UnboundedReceiver<Watch>) {
        loop {
            let work = self.due.keys().next().map(|(at, _)| *at + WINDOW);
            let next = work.unwrap_or_else(|| Instant::now() + IDLE);
            tokio::select! {
                watch = watches.recv(), if !watches.is_closed() || !watches.is_empty() => {
                    if let Some(watch) = watch {
                        self.put(Watched { watch, pause: PAUSE.0 }, Duration::ZERO);
                    }
                }
                () = sleep_until(next) => {
                    if work.is_some() {
                        self.look().await;
                    } else {
                        // Later callers find the channel closed, and start another task.
                        watches.close();
                        if watches.is_empty() {
                            return;
                        }
                    }
                }
            }
        }
    }

    fn put(&mut self, watched: Watched, pause: Duration) {
        self.last += 1;
        self.due.insert((Instant::now() + pause, self.last), watched);
    }

    async fn look(&mut self) {
        let now = Instant::now();
        let mut looks = Vec::new();
        while let Some(first) = self
            .due
            .first_entry()
            .filter(|first| first.key().0 <= now && looks.len() < LOOK_MAX)
        {
            let watched = first.remove();
            if !watched.watch.tell.is_closed() {
                looks.push(watched);
            }
        }
        if looks.is_empty() {
            return;
        }
        let paths = looks
            .iter()
            .map(|watched| watched.watch.path.clone())
            .collect::<Vec<_>>();
        let told = match self.client.localities(&self.tape, &paths).await {
            Ok(told) => told,
            Err(failure) if failure.retry == Retry::Never => {
                for watched in looks {
                    let _ = watched.watch.tell.send(Err(failure.clone()));
                }
                return;
            }
            Err(failure) => {
                tracing::warn!(endpoint = self.tape.endpoint, %failure, "copies could not be watched; they are looked at again");
                HashMap::new()
            }
        };
        for mut watched in looks {
            let path = &watched.watch.path;
            let end = told.get(&plain(path)).and_then(|locality| verdict(path, locality));
            if let Some(end) = end {
                // The waiter may have left.
                let _ = watched.watch.tell.send(end);
            } else {
                let pause = watched.pause;
                watched.pause = (pause * 2).min(PAUSE.1);
                self.put(watched, pause);
            }
        }
    }
}

/// The result of a locality for a copy that waits for tape; `None` if it goes on waiting.
fn verdict(path: &str, locality: &Locality) -> Option<Result<(), Failure>> {
    let scene = Scene::new(Party::Destination, Phase::Finalization);
    match locality {
        Ok(locality) if matches!(locality.as_str(), "TAPE" | "DISK_AND_TAPE") => Some(Ok(())),
        Ok(locality) if matches!(locality.as_str(), "LOST" | "NONE") => {
            let text = format!("{path} did not come to tape: the storage says it is {locality}");
            let mut failure = scene.fail(ErrorClass::NotFound, text);
            failure.retry = Retry::Never;
            Some(Err(failure))
        }
        Ok(_) => None,
        Err(error) => {
            let class = ErrorClass::of_text(error).unwrap_or(ErrorClass::Protocol);
            let mut failure = scene.fail(
                class,
                format!("{path} could not be watched until it is on tape: {error}"),
            );
            failure.retry = if class == ErrorClass::NotFound {
                Retry::Never
            } else {
                Retry::Later
            };
            Some(Err(failure))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tape_is_tape() {
        // FINISHED for a copy that is on disk only is a file that the next clean-up of the buffer takes.
        let done = |word: &str| verdict("/f", &Ok(word.to_owned())).map(|end| end.is_ok());
        assert_eq!(["TAPE", "DISK_AND_TAPE"].map(done), [Some(true); 2]);
        assert_eq!(["DISK", "UNAVAILABLE", "?"].map(done), [None; 3]);
        assert_eq!(["LOST", "NONE"].map(done), [Some(false); 2]);
        assert!(
            matches!(verdict("/f", &Err("no such file".into())), Some(Err(failure)) if failure.retry == Retry::Never)
        );
    }
}
