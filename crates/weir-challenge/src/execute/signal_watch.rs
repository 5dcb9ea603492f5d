//! Reads the waits of transfers from the services while a run goes on.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use weir_measure::signals::SignalRow;

use crate::execute::clock::Clock;
use crate::execute::signal_book::{NamedDoor, SignalBook, SignalReading};
use crate::inject::fts::FtsDoor;
use crate::services::storage::{SenderTimes, StorageDoor};

/// Longest wait for one reading, and for the last one when the run ends.
const PATIENCE: Duration = Duration::from_secs(10);

/// The reader of a run's signals.
#[derive(Debug)]
pub(crate) struct SignalWatch {
    rows: UnboundedReceiver<Vec<SignalRow>>,
    last: CancellationToken,
    task: JoinHandle<()>,
}

/// Where signals are read.
pub(crate) struct SignalSources {
    pub(crate) transfer: FtsDoor,
    pub(crate) doors: Arc<Vec<StorageDoor>>,
    /// Source and destination of each link.
    pub(crate) ends: Vec<(usize, usize)>,
}

impl SignalWatch {
    /// Reads at once, then once in each bin.
    pub(crate) fn start(sources: SignalSources, bin: Duration, clock: Clock) -> Self {
        // No limit of its own: one message for each bin, and the loop of the run takes them.
        let (tell, rows) = unbounded_channel();
        let last = CancellationToken::new();
        let task = tokio::spawn(watch(sources, bin, clock, tell, last.clone()));
        Self { rows, last, task }
    }

    /// The rows of readings since the last call.
    pub(crate) fn take(&mut self) -> Vec<SignalRow> {
        let mut rows = Vec::new();
        while let Ok(more) = self.rows.try_recv() {
            rows.extend(more);
        }
        rows
    }

    /// Takes a last reading; gives the rows since the last call.
    pub(crate) async fn finish(mut self) -> Vec<SignalRow> {
        self.last.cancel();
        let _late = tokio::time::timeout(PATIENCE, &mut self.task).await;
        self.task.abort();
        self.take()
    }
}

impl Drop for SignalWatch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn watch(
    sources: SignalSources,
    bin: Duration,
    clock: Clock,
    tell: UnboundedSender<Vec<SignalRow>>,
    last: CancellationToken,
) {
    let mut named = Vec::new();
    for door in sources.doors.iter() {
        named.push(named_door(door).await);
    }
    let mut book = SignalBook::new(named, sources.ends.clone());
    let mut next = Duration::ZERO;
    loop {
        let is_last = last.is_cancelled();
        match tokio::time::timeout(PATIENCE, read(&sources)).await {
            Ok(Ok(reading)) => {
                let rows = book.take(clock.now(), reading);
                if tell.send(rows).is_err() {
                    return;
                }
            }
            // A service of another kind: its transfers' waits are unknown.
            Ok(Err(error)) if error.status() == Some(http::StatusCode::NOT_FOUND) => return,
            // The next reading covers this time too.
            Ok(Err(error)) => tracing::debug!(error = weir_auth::error_chain(&error), "could not read waits"),
            Err(_) => tracing::debug!("the transfer service did not tell its waits in time"),
        }
        if is_last {
            return;
        }
        next = (next + bin).max(clock.now());
        tokio::select! {
            () = tokio::time::sleep(next.saturating_sub(clock.now())) => {}
            () = last.cancelled() => {}
        }
    }
}

async fn read(sources: &SignalSources) -> Result<SignalReading, weir_fts_api::FtsError> {
    let counters = sources.doors.iter().enumerate().filter(|(_, door)| door.embedded);
    let counters = counters.map(|(index, door)| async move { (index, door.sender_times().await) });
    let (waits, counters) = tokio::join!(sources.transfer.waits(), futures_util::future::join_all(counters));
    let mut senders: HashMap<(usize, IpAddr), SenderTimes> = HashMap::new();
    for (index, times) in counters {
        for (reader, times) in times.unwrap_or_default() {
            senders.insert((index, reader), times);
        }
    }
    Ok(SignalReading { waits: waits?, senders })
}

async fn named_door(door: &StorageDoor) -> NamedDoor {
    let url = door.origin().parse::<http::Uri>().unwrap_or_default();
    let (scheme, host) = (url.scheme_str().unwrap_or_default(), url.host().unwrap_or_default());
    let name = host.trim_start_matches('[').trim_end_matches(']');
    let mut addresses: Vec<IpAddr> = match tokio::net::lookup_host((name, 0)).await {
        Ok(found) => found.map(|address| address.ip().to_canonical()).collect(),
        Err(_) => Vec::new(),
    };
    addresses.dedup();
    NamedDoor {
        rse: door.name.clone(),
        se: format!("{scheme}://{}", host.to_ascii_lowercase()),
        address: addresses.first().copied().filter(|_| addresses.len() == 1),
    }
}
