//! Work of a service in the background. It ends with the service: when that is shut down, or dropped.

use tokio::task::JoinHandle;
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};

/// Tasks of one service.
///
/// A service ends in this order: the server takes no new connections and answers open requests; its tasks end, here;
/// then the stores that they wrote to are closed.
#[derive(Debug)]
pub struct Tasks {
    stop: CancellationToken,
    tracker: TaskTracker,
    _stop_when_dropped: DropGuard,
}

impl Default for Tasks {
    fn default() -> Self {
        let stop = CancellationToken::new();
        Self {
            _stop_when_dropped: stop.clone().drop_guard(),
            stop,
            tracker: TaskTracker::new(),
        }
    }
}

impl Tasks {
    /// Runs until it ends or the service does: then it is dropped where it waits.
    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let stop = self.stop.clone();
        self.tracker.spawn(async move {
            stop.run_until_cancelled(work).await;
        });
    }

    /// For work that has something to do at the end: it heeds [`Tasks::stop`] by itself, and is waited for.
    pub fn tracker(&self) -> &TaskTracker {
        &self.tracker
    }

    /// Cancelled when the service ends.
    pub fn stop(&self) -> &CancellationToken {
        &self.stop
    }

    /// Has all tasks end, and waits for them.
    pub async fn end(&self) {
        self.stop.cancel();
        self.tracker.close();
        self.tracker.wait().await;
    }
}

/// The outcome of a task; its panic goes on here.
pub async fn joined<T>(task: JoinHandle<T>) -> T {
    match task.await {
        Ok(outcome) => outcome,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is going down and will not poll this again.
            Err(_) => std::future::pending().await,
        },
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{
            Arc,
            atomic::{AtomicBool, Ordering},
        },
        time::Duration,
    };

    use super::*;

    #[tokio::test]
    async fn a_process_that_writes_at_its_end_is_waited_for() {
        // A store would be closed before its last record.
        let tasks = Tasks::default();
        let written = Arc::new(AtomicBool::new(false));
        let (stop, flag) = (tasks.stop().clone(), written.clone());
        tasks.spawn(std::future::pending());
        tasks.tracker().spawn(async move {
            stop.cancelled().await;
            tokio::time::sleep(Duration::from_millis(20)).await;
            flag.store(true, Ordering::SeqCst);
        });
        tasks.end().await;
        assert!(written.load(Ordering::SeqCst));
    }

    #[tokio::test]
    async fn tasks_end_with_a_service_that_is_dropped() {
        // A test's service would renew keys in a folder that the next one has opened.
        let tasks = Tasks::default();
        let (sender, receiver) = tokio::sync::oneshot::channel::<()>();
        tasks.spawn(async move {
            let _held = sender;
            std::future::pending::<()>().await;
        });
        drop(tasks);
        assert!(receiver.await.is_err(), "the task is gone, and what it held");
    }
}
