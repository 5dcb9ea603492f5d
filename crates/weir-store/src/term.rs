//! The term of this process: the time for which it may act, by its own clock, so that its end needs no message.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    task::Poll,
    time::{Duration, Instant},
};

/// See the module. Begins without any time.
#[derive(Debug)]
pub struct Term {
    base: Instant,
    /// Milliseconds after `base`.
    until: AtomicU64,
}

impl Default for Term {
    fn default() -> Self {
        Self::new()
    }
}

impl Term {
    /// A term that is over already: see [`Self::renew`].
    pub fn new() -> Self {
        Self {
            base: Instant::now(),
            until: AtomicU64::new(0),
        }
    }

    /// Goes on until this time.
    pub fn renew(&self, until: Instant) {
        let millis = until.saturating_duration_since(self.base).as_millis();
        self.until
            .store(u64::try_from(millis).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Time that is left; zero: it is over.
    pub fn left(&self) -> Duration {
        let until = self.base + Duration::from_millis(self.until.load(Ordering::Relaxed));
        until.saturating_duration_since(Instant::now())
    }

    /// Whether this process must have let go.
    pub fn is_over(&self) -> bool {
        self.left().is_zero()
    }

    /// Returns when time is over.
    pub async fn over(&self) {
        while !self.is_over() {
            tokio::time::sleep(self.left().max(Duration::from_millis(100))).await;
        }
    }

    /// Does work as long as there is time. It checks the clock before each step, so that a paused process does nothing
    /// more. False: it was cut off.
    pub async fn within(&self, work: impl Future<Output = ()>) -> bool {
        let mut work = std::pin::pin!(work);
        std::future::poll_fn(|context| {
            if self.is_over() {
                Poll::Ready(false)
            } else {
                work.as_mut().poll(context).map(|()| true)
            }
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn nothing_is_done_after_the_time() {
        // A paused node would go on with a copy beside the node that replaced it.
        let term = Term::new();
        term.renew(Instant::now() + Duration::from_millis(30));
        assert!(term.within(async {}).await);
        let mut done = false;
        let work = async {
            tokio::time::sleep(Duration::from_millis(60)).await;
            done = true;
        };
        assert!(!term.within(work).await && !done);
        assert!(!term.within(async {}).await);
    }
}
