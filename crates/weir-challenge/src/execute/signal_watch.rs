//! Reads the waits of transfers, and what hosts and storages do, while a run goes on.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use weir_fts_api::{FtsError, LinkWaits};
use weir_measure::gauges::GaugeRow;
use weir_measure::signals::SignalRow;

use crate::execute::clock::Clock;
use crate::execute::gauge_book::GaugeBook;
use crate::execute::host_reading::HostReading;
use crate::execute::signal_book::{NamedDoor, SignalBook, SignalReading};
use crate::inject::fts::{FtsDoor, TokenSums};
use crate::services::storage::{StorageDoor, StorageSums};

/// Longest wait for one reading, and for the last one when the run ends.
const PATIENCE: Duration = Duration::from_secs(10);

/// A reading that took a second is followed by a pause of at least so many. The pages of a large grid's storages grow with the pairs of them,
/// and must not take the processors of the run.
const PAUSE_OF_A_READING: u32 = 20;

/// The reader of a run's signals and gauges.
#[derive(Debug)]
pub(crate) struct SignalWatch {
    rows: UnboundedReceiver<ReadRows>,
    last: CancellationToken,
    task: JoinHandle<()>,
}

/// Rows of readings.
#[derive(Debug, Default)]
pub(crate) struct ReadRows {
    /// Waits of transfers.
    pub(crate) signals: Vec<SignalRow>,
    /// Gauges of hosts and storages.
    pub(crate) gauges: Vec<GaugeRow>,
}

/// Where signals are read.
pub(crate) struct SignalSources {
    pub(crate) transfer: FtsDoor,
    pub(crate) doors: Arc<Vec<StorageDoor>>,
    /// Source and destination of each link.
    pub(crate) ends: Vec<(usize, usize)>,
    /// The name of this host.
    pub(crate) host: String,
}

impl SignalWatch {
    /// Reads at once, then once in each bin, or less often where a reading takes long.
    pub(crate) fn start(sources: SignalSources, bin: Duration, clock: Clock) -> Self {
        // No limit of its own: one message for each bin, and the loop of the run takes them.
        let (tell, rows) = unbounded_channel();
        let last = CancellationToken::new();
        let task = tokio::spawn(watch(sources, bin, clock, tell, last.clone()));
        Self { rows, last, task }
    }

    /// The rows of readings since the last call.
    pub(crate) fn take(&mut self) -> ReadRows {
        let mut rows = ReadRows::default();
        while let Ok(more) = self.rows.try_recv() {
            rows.signals.extend(more.signals);
            rows.gauges.extend(more.gauges);
        }
        rows
    }

    /// Takes a last reading; gives the rows since the last call.
    pub(crate) async fn finish(mut self) -> ReadRows {
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
    tell: UnboundedSender<ReadRows>,
    last: CancellationToken,
) {
    let named = join_all(sources.doors.iter().map(named_door)).await;
    let mut signals = SignalBook::new(named.clone(), sources.ends.clone());
    let mut gauges = GaugeBook::new(named, sources.ends.clone(), sources.host.clone());
    let mut tells_waits = true;
    loop {
        let begun = clock.now();
        let is_last = last.is_cancelled();
        let (waits, sums, tokens) = tokio::join!(waits(&sources, &mut tells_waits), sums(&sources), tokens(&sources));
        let now = clock.now();
        let mut rows = ReadRows {
            gauges: gauges.host(now, HostReading::now()),
            ..ReadRows::default()
        };
        let mut senders = HashMap::new();
        for (door, sums) in sums {
            let readers: &HashMap<IpAddr, _> = &sums.senders;
            senders.extend(readers.iter().map(|(reader, times)| ((door, *reader), times.clone())));
            rows.gauges.extend(gauges.storage(now, door, &sums));
        }
        if let Some(tokens) = tokens {
            rows.gauges.extend(gauges.tokens(now, tokens));
        }
        if let Some(waits) = waits {
            rows.signals = signals.take(now, SignalReading { waits, senders });
        }
        if tell.send(rows).is_err() || is_last {
            return;
        }
        let took = clock.now().saturating_sub(begun);
        let pause = bin.saturating_sub(took).max(took * PAUSE_OF_A_READING);
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = last.cancelled() => {}
        }
    }
}

/// The waits by the transfer service's account; none if it does not tell them. The next reading covers this time too.
async fn waits(sources: &SignalSources, tells: &mut bool) -> Option<Vec<LinkWaits<'static>>> {
    if !*tells {
        return None;
    }
    match within(sources.transfer.waits()).await? {
        Ok(waits) => Some(waits),
        Err(error) => {
            // A service of another kind: its transfers' waits are unknown.
            *tells = error.status() != Some(http::StatusCode::NOT_FOUND);
            let error: &FtsError = &error;
            tracing::debug!(error = weir_auth::error_chain(error), "could not read waits");
            None
        }
    }
}

/// The sums of the storages that tell theirs.
async fn sums(sources: &SignalSources) -> Vec<(usize, StorageSums)> {
    let embedded = sources.doors.iter().enumerate().filter(|(_, door)| door.embedded);
    let sums = embedded.map(|(number, door)| async move { Some((number, within(door.sums()).await?.ok()?)) });
    join_all(sums).await.into_iter().flatten().collect()
}

async fn tokens(sources: &SignalSources) -> Option<TokenSums> {
    within(sources.transfer.token_sums()).await?
}

async fn within<T>(reading: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(PATIENCE, reading).await.ok()
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
