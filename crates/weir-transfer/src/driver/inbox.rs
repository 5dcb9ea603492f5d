//! Inputs of the loop, taken in rounds: no kind of input delays the others.

use tokio::sync::mpsc;
use weir_executor::clock::AttemptWaits;
use weir_world::{OpId, WorldEvent};

use super::Request;
use crate::store::{Durable, LiveJob};

/// Most inputs of each kind in one step: a step stays below some 10 ms.
const FEEDS: usize = 4096;
const REQUESTS: usize = 512;
const RESTORED_FILES: usize = 4096;

/// Results from writer, executor and restore.
pub(super) enum Feed {
    Durable(Durable),
    World(OpId, WorldEvent),
    /// The time that an operation of another node spent in each state. Comes before its end.
    Waited(OpId, Box<AttemptWaits>),
    Restored(Box<LiveJob>),
    RestoreEnded,
    /// A job that came in at another node.
    Arrived(Box<LiveJob>),
}

pub(super) enum Item<C> {
    Feed(Feed),
    Request(Request<C>),
}

/// Inputs: results, requests, and restored rows.
pub(super) struct Inbox<C> {
    feeds: mpsc::UnboundedReceiver<Feed>,
    requests: mpsc::Receiver<Request<C>>,
    restores: mpsc::Receiver<Feed>,
}

/// The remaining allowance of this step.
pub(super) struct Round {
    feeds: usize,
    requests: usize,
    restored: usize,
}

impl Default for Round {
    fn default() -> Self {
        Self {
            feeds: FEEDS,
            requests: REQUESTS,
            restored: RESTORED_FILES,
        }
    }
}

impl<C> Inbox<C> {
    pub(super) fn new(
        feeds: mpsc::UnboundedReceiver<Feed>,
        requests: mpsc::Receiver<Request<C>>,
        restores: mpsc::Receiver<Feed>,
    ) -> Self {
        Self {
            feeds,
            requests,
            restores,
        }
    }

    /// Waits for the first of anything; of requests only if they are taken. Nothing is lost if the wait is given up.
    pub(super) async fn wait(&mut self, takes: bool) -> Item<C> {
        tokio::select! {
            biased;
            Some(feed) = self.feeds.recv() => Item::Feed(feed),
            Some(request) = self.requests.recv(), if takes => Item::Request(request),
            Some(feed) = self.restores.recv() => Item::Feed(feed),
            else => std::future::pending().await,
        }
    }

    /// The next input that is available now and fits into this step.
    pub(super) fn next(&mut self, round: &mut Round, takes: bool) -> Option<Item<C>> {
        if round.feeds > 0
            && let Ok(feed) = self.feeds.try_recv()
        {
            round.feeds -= 1;
            return Some(Item::Feed(feed));
        }
        if takes
            && round.requests > 0
            && let Ok(request) = self.requests.try_recv()
        {
            round.requests -= 1;
            return Some(Item::Request(request));
        }
        if round.restored == 0 {
            return None;
        }
        let feed = self.restores.try_recv().ok()?;
        round.restored = round.restored.saturating_sub(weight(&feed));
        Some(Item::Feed(feed))
    }
}

/// Files that come with it.
fn weight(feed: &Feed) -> usize {
    match feed {
        Feed::Restored(job) => job.files.len().max(1),
        _ => 1,
    }
}

/// Where other nodes' news go in.
#[derive(Clone)]
pub(crate) struct FeedSender(pub(super) mpsc::UnboundedSender<Feed>);

impl FeedSender {
    /// Something happened to an operation elsewhere.
    pub(crate) fn world(&self, id: OpId, event: WorldEvent) {
        let _ = self.0.send(Feed::World(id, event));
    }

    /// An operation elsewhere, whose end comes next, has spent this time in each state.
    pub(crate) fn waited(&self, id: OpId, waits: AttemptWaits) {
        let _ = self.0.send(Feed::Waited(id, Box::new(waits)));
    }

    /// A job came in elsewhere.
    pub(crate) fn arrived(&self, job: Box<crate::store::LiveJob>) {
        let _ = self.0.send(Feed::Arrived(job));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test may panic")]
    use weir_units::Bytes;
    use weir_world::TransferId;

    use super::*;

    #[test]
    fn neither_news_nor_a_restore_keeps_requests_waiting() {
        // A service that reads ten million files back, or hears of each byte, would not answer anybody.
        let (feed, feeds) = mpsc::unbounded_channel();
        let (ask, requests) = mpsc::channel::<Request<()>>(2 * REQUESTS);
        let (restore, restores) = mpsc::channel(2 * RESTORED_FILES);
        let progress = || {
            let transfer = TransferId(1);
            let id = OpId {
                transfer,
                attempt: 1,
                epoch: 1,
            };
            Feed::World(id, WorldEvent::Progress(Bytes(1)))
        };
        for _ in 0..2 * FEEDS {
            feed.send(progress()).ok().unwrap();
        }
        for _ in 0..=REQUESTS {
            ask.try_send(Request::Look(Box::new(|(), _, _| {}))).ok().unwrap();
        }
        for _ in 0..2 * RESTORED_FILES {
            restore.try_send(Feed::RestoreEnded).ok().unwrap();
        }
        let mut inbox = Inbox::new(feeds, requests, restores);
        let mut took = |takes| {
            let (mut round, mut counts) = (Round::default(), [0; 3]);
            while let Some(item) = inbox.next(&mut round, takes) {
                counts[match item {
                    Item::Feed(Feed::World(..)) => 0,
                    Item::Request(_) => 1,
                    Item::Feed(_) => 2,
                }] += 1;
            }
            counts
        };
        assert_eq!(took(true), [FEEDS, REQUESTS, RESTORED_FILES]);
        assert_eq!(
            took(false),
            [FEEDS, 0, RESTORED_FILES],
            "requests wait while events are behind"
        );
        assert_eq!(took(true), [0, 1, 0]);
    }
}
