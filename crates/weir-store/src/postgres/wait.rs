//! Waiting for a future on a thread, without a runtime: each wait has an end.

use std::{
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    thread::Thread,
    time::{Duration, Instant},
};

use crate::error::StoreError;

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for a future on this thread. The future must not need a runtime around it: those of a session do not.
///
/// # Errors
/// [`StoreError::Unavailable`] if it takes longer than this.
pub fn wait<F: Future>(future: F, patience: Duration) -> Result<F::Output, StoreError> {
    let end = Instant::now() + patience;
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let (mut context, mut future) = (Context::from_waker(&waker), pin!(future));
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return Ok(output);
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            let text = format!("the database gave no answer in {} s", patience.as_secs());
            return Err(StoreError::Unavailable(text.into()));
        }
        std::thread::park_timeout(left);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test may panic")]
    use super::*;

    #[test]
    fn a_wait_has_an_end() {
        // A frozen database would hold the writer for ever, without any report.
        let never = wait(std::future::pending::<()>(), Duration::from_millis(20));
        assert!(never.unwrap_err().is_passing());
        assert_eq!(wait(std::future::ready(7), Duration::from_secs(1)).unwrap(), 7);
    }
}
