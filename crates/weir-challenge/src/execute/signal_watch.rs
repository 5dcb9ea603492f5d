//! Reads the waits of transfers, and what hosts and storages do, while a run goes on.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

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
use crate::inject::rules::RulesDoor;
use crate::inject::rules::open_requests::{OpenRequests, does_not_tell};
use crate::services::storage::{StorageDoor, StorageSums};

/// Longest wait for one reading, and for the last one when the run ends.
const PATIENCE: Duration = Duration::from_secs(10);

/// Storages whose answers took a second are left alone for at least so many. The pages of a large grid's storages grow with the pairs of them,
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
    /// Whether the transfer service is one that tells no waits.
    pub(crate) is_foreign: bool,
}

/// Where signals are read.
pub(crate) struct SignalSources {
    pub(crate) transfer: FtsDoor,
    /// The catalogue, in a run that makes rules.
    pub(crate) catalog: Option<Arc<RulesDoor>>,
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
            rows.is_foreign |= more.is_foreign;
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
    let (mut tells_waits, mut tells_requests) = (true, sources.catalog.is_some());
    loop {
        let begun = clock.now();
        let is_last = last.is_cancelled();
        let (waits, (sums, answered), tokens, requests) = tokio::join!(
            waits(&sources, &mut tells_waits),
            sums(&sources),
            tokens(&sources),
            requests(&sources, &mut tells_requests)
        );
        let now = clock.now();
        let mut rows = ReadRows {
            gauges: gauges.host(now, HostReading::now()),
            is_foreign: !tells_waits,
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
        if let Some(requests) = requests {
            rows.gauges.extend(gauges.requests(now, &requests));
        }
        if let Some(waits) = waits {
            rows.signals = signals.take(now, SignalReading { waits, senders });
        }
        if tell.send(rows).is_err() || is_last {
            return;
        }
        let took = clock.now().saturating_sub(begun);
        tokio::select! {
            () = tokio::time::sleep(pause(bin, took, answered)) => {}
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

/// The requests of the catalogue, if it tells of them.
async fn requests(sources: &SignalSources, tells: &mut bool) -> Option<OpenRequests> {
    let catalog = sources.catalog.as_ref().filter(|_| *tells)?;
    match within(catalog.open_requests()).await? {
        Ok(requests) => Some(requests),
        Err(error) => {
            *tells = !does_not_tell(&error);
            tracing::debug!(error = weir_auth::error_chain(&error), "could not read requests");
            None
        }
    }
}

/// The time until the next reading, after one that took so long, and whose last storage answered after this time. A storage that does not
/// answer takes no processor: it makes the signals of the others no coarser than its silence lasts.
fn pause(bin: Duration, took: Duration, answered: Duration) -> Duration {
    bin.saturating_sub(took).max(answered * PAUSE_OF_A_READING)
}

/// The sums of the storages that tell theirs, and when the last of these answered.
async fn sums(sources: &SignalSources) -> (Vec<(usize, StorageSums)>, Duration) {
    let embedded = sources.doors.iter().enumerate().filter(|(_, door)| door.embedded);
    let begun = Instant::now();
    let sums = embedded.map(|(number, door)| async move {
        let sums = within(door.sums()).await?.ok()?;
        Some(((number, sums), begun.elapsed()))
    });
    let (sums, answered): (Vec<_>, Vec<Duration>) = join_all(sums).await.into_iter().flatten().unzip();
    (sums, answered.into_iter().max().unwrap_or_default())
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]
    use parking_lot::Mutex;
    use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufStream};
    use tokio::net::TcpListener;
    use weir_auth::Secret;
    use weir_fts_api::{Bearer, FtsClient, FtsCredential};
    use weir_http::{Client, ClientConfig, TrustRoots};
    use weir_world::PlaceKind;

    use super::*;
    use crate::execute::engine::tests::door;

    /// A service that knows no path, and keeps the paths that it was asked for.
    async fn knows_nothing(listener: TcpListener, asked: Arc<Mutex<Vec<String>>>) {
        while let Ok((tcp, _)) = listener.accept().await {
            let asked = asked.clone();
            tokio::spawn(async move {
                let mut wire = BufStream::new(tcp);
                loop {
                    let (mut first, mut line) = (String::new(), String::from("?"));
                    wire.read_line(&mut first).await.unwrap_or_default();
                    while !line.trim().is_empty() {
                        line.clear();
                        wire.read_line(&mut line).await.unwrap_or_default();
                    }
                    let Some(path) = first.split(' ').nth(1) else { return };
                    asked.lock().push(path.to_owned());
                    let answer = b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n";
                    if wire.write_all(answer).await.is_err() || wire.flush().await.is_err() {
                        return;
                    }
                }
            });
        }
    }

    #[test]
    fn a_storage_that_hangs_does_not_make_signals_coarse() {
        // Wrong: a frozen storage costs the signals of all others minutes, or a large grid is read without a pause.
        let [second, hanging] = [Duration::from_secs(1), PATIENCE];
        assert_eq!(pause(second, hanging, second / 100), second / 5);
        assert_eq!(pause(second, second / 100, second / 100), second * 99 / 100);
        assert_eq!(pause(second, 3 * second, 3 * second), 60 * second);
    }

    #[tokio::test]
    async fn a_foreign_service_leaves_its_signals_unknown() {
        // Wrong: a transfer service that tells no waits is shown as one whose transfers never wait, or is asked for them again and again.
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let serving = tokio::spawn(knows_nothing(listener, asked.clone()));
        let client = Client::new(ClientConfig::new(TrustRoots::default())).unwrap();
        let credential = FtsCredential::Bearer(Bearer::fixed(Secret::new("none")));
        // Nobody listens there: their storages tell nothing either.
        let silent = |name: &str| StorageDoor {
            url: "https://127.0.0.1:1".to_owned(),
            ..door(name)
        };
        let doors = Arc::new(vec![silent("a"), silent("b")]);
        let sources = SignalSources {
            transfer: FtsDoor::new(FtsClient::new(&url, client, credential), doors.clone(), "run"),
            catalog: None,
            doors,
            ends: vec![(0, 1)],
            host: "node1".to_owned(),
        };
        let watch = SignalWatch::start(sources, Duration::from_millis(10), Clock::start());
        let n_asked = |path: &str| asked.lock().iter().filter(|one| *one == path).count();
        let several = async {
            while n_asked("/.well-known/weir/metrics") < 3 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), several).await.unwrap();
        let rows = watch.finish().await;
        assert!(rows.is_foreign && rows.signals.is_empty(), "{:?}", rows.signals);
        let elsewhere = rows.gauges.iter().find(|row| row.place.kind != PlaceKind::Server);
        assert!(elsewhere.is_none() && !rows.gauges.is_empty(), "{elsewhere:?}");
        assert_eq!(n_asked("/why/waits"), 1, "{asked:?}");
        serving.abort();
    }
}
