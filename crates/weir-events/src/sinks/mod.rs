//! Where messages go. Each sink reads the spool at its own pace, and remembers how far it is once the other side has taken it.

mod error;

mod file;
mod refused;
mod stomp;
mod webhook;

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::sync::watch;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use weir_http::{Client, TrustRoots};

use crate::{
    config::EventsConfig,
    kind::MessageKind,
    lines::{Message, messages},
    metrics::{Meters, SinkMeter},
    spool::{self, Cursor, Position},
};
pub use error::SinkError;
pub(super) use error::Undelivered;
pub(crate) use error::secret;
use refused::Refused;

/// Pauses between two tries of a sink that is down: this, doubled up to the other.
const PAUSES: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));

/// Number of temporary refusals of one batch after which the sink counts as refusing it.
const REFUSALS_MAX: u32 = 5;

/// The running sinks.
pub struct Sinks {
    /// The segment that each sink needs next.
    needs: Vec<Arc<AtomicU64>>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl Sinks {
    /// The oldest segment that a sink has yet to read.
    pub fn needed(&self) -> u64 {
        let needs = self.needs.iter().map(|need| need.load(Ordering::Relaxed));
        needs.min().unwrap_or(u64::MAX)
    }

    /// Stops them; they go on at the next start where they were.
    pub async fn stop(&self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

enum Sink {
    File(Box<file::File>),
    Webhook(Box<webhook::Webhook>),
    Stomp(Box<stomp::Stomp>),
}

impl Sink {
    async fn deliver(&mut self, batch: &[Message<'_>]) -> Result<(), Undelivered> {
        match self {
            Self::File(sink) => sink.deliver(batch).await,
            Self::Webhook(sink) => sink.deliver(batch).await,
            Self::Stomp(sink) => sink.deliver(batch).await,
        }
    }
}

/// Starts every sink of the configuration.
pub fn start(
    config: &EventsConfig,
    head: &watch::Receiver<Position>,
    client: &Client,
    roots: &TrustRoots,
    meters: &Arc<Meters>,
) -> Result<Sinks, SinkError> {
    let mut sinks = Vec::new();
    for file in &config.files {
        sinks.push((
            file.name.clone(),
            &file.send,
            Sink::File(Box::new(file::File::new(file))),
        ));
    }
    for webhook in &config.webhooks {
        let sink = webhook::Webhook::new(webhook, client.clone())?;
        sinks.push((webhook.name.clone(), &webhook.send, Sink::Webhook(Box::new(sink))));
    }
    for broker in &config.stomps {
        let sink = stomp::Stomp::new(broker, roots)?;
        sinks.push((broker.name.clone(), &broker.send, Sink::Stomp(Box::new(sink))));
    }
    let mut shared = Sinks {
        needs: Vec::new(),
        stop: CancellationToken::new(),
        tasks: TaskTracker::new(),
    };
    for (name, send, sink) in sinks {
        let need = Arc::new(AtomicU64::new(0));
        shared.needs.push(need.clone());
        let reader = Reader {
            kinds: send.kinds(),
            cursor: Cursor::new(&config.spool, &name),
            refused: Refused::of(&config.spool, &name),
            folder: config.spool.clone(),
            head: head.clone(),
            meter: meters.sink(&name),
            name,
            need,
            stop: shared.stop.clone(),
        };
        shared.tasks.spawn(reader.run(sink));
    }
    Ok(shared)
}

/// Reads the spool for a sink.
struct Reader {
    name: String,
    kinds: Vec<MessageKind>,
    folder: PathBuf,
    cursor: Cursor,
    refused: Refused,
    head: watch::Receiver<Position>,
    meter: Arc<SinkMeter>,
    need: Arc<AtomicU64>,
    stop: CancellationToken,
}

impl Reader {
    async fn run(mut self, mut sink: Sink) {
        let stop = self.stop.clone();
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = self.serve(&mut sink) => {}
        }
    }

    async fn serve(&mut self, sink: &mut Sink) {
        let mut at = self.begin();
        loop {
            self.need.store(at.segment, Ordering::Relaxed);
            self.head.borrow_and_update();
            let folder = self.folder.clone();
            let read = tokio::task::spawn_blocking(move || spool::read(&folder, at)).await;
            let chunk = match read.unwrap_or_else(|error| Err(std::io::Error::other(error))) {
                Ok(chunk) => chunk,
                Err(error) => {
                    self.trouble(&format!("the spool cannot be read: {error}"));
                    tokio::time::sleep(PAUSES.1).await;
                    continue;
                }
            };
            if chunk.missed > 0 {
                self.meter.lost.fetch_add(chunk.missed, Ordering::Relaxed);
                let (sink, segments) = (&self.name, chunk.missed);
                tracing::error!(
                    sink,
                    segments,
                    "messages are lost: the sink was down for longer than the spool can keep; raise events.keep"
                );
            }
            at = chunk.next;
            if chunk.lines.is_empty() {
                if self.head.changed().await.is_err() {
                    // The writer is gone, and everything was read.
                    return;
                }
                continue;
            }
            self.deliver(sink, &chunk.lines).await;
            if let Err(error) = self.cursor.save(at) {
                self.trouble(&format!("its place in the spool cannot be kept: {error}"));
            }
        }
    }

    /// Where the sink was; a new one begins with the oldest message there is.
    fn begin(&self) -> Position {
        self.cursor
            .load()
            .unwrap_or_else(|error| {
                self.trouble(&format!(
                    "its place in the spool cannot be read, it begins anew: {error}"
                ));
                None
            })
            .unwrap_or_default()
    }

    /// Tries until the sink has taken the messages, or refused them for good.
    async fn deliver(&self, sink: &mut Sink, lines: &[u8]) {
        let mut wanted = messages(lines);
        wanted.retain(|message| self.kinds.contains(&message.kind));
        // The next one last.
        let mut batches = wanted.chunks(BATCH).rev().collect::<Vec<_>>();
        let (mut pause, mut refusals) = (PAUSES.0, 0);
        while let Some(batch) = batches.pop() {
            let outcome = match sink.deliver(batch).await {
                Err(Undelivered::Refused(why)) => {
                    refusals += 1;
                    Err(if refusals < REFUSALS_MAX {
                        Undelivered::Later(why)
                    } else {
                        Undelivered::Never(why)
                    })
                }
                outcome => outcome,
            };
            match outcome {
                Ok(()) => {
                    self.meter.delivered.fetch_add(batch.len() as u64, Ordering::Relaxed);
                    pause = PAUSES.0;
                    continue;
                }
                // One bad message must not take the others along.
                Err(Undelivered::Never(_)) if batch.len() > 1 => {
                    self.meter.failures.fetch_add(1, Ordering::Relaxed);
                    let (first, second) = batch.split_at(batch.len() / 2);
                    batches.extend([second, first]);
                    continue;
                }
                Err(Undelivered::Never(why)) => {
                    if self.set_aside(&batch[0], &why).await {
                        continue;
                    }
                }
                Err(Undelivered::Later(why) | Undelivered::Refused(why)) => self.trouble(&why),
            }
            batches.push(batch);
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSES.1);
        }
    }

    /// Whether the message is kept where a person finds it.
    async fn set_aside(&self, message: &Message<'_>, why: &str) -> bool {
        let file = self.refused.path().display();
        match self.refused.keep(message).await {
            Ok(()) => {
                self.meter.refused.fetch_add(1, Ordering::Relaxed);
                tracing::error!(sink = self.name, why, %file, "a message was refused for good; it is set aside");
                true
            }
            Err(error) => {
                self.trouble(&format!(
                    "a message was refused for good, and {file} cannot be written: {error}"
                ));
                false
            }
        }
    }

    fn trouble(&self, why: &str) {
        self.meter.failures.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(sink = self.name, why, "a sink of events has trouble");
    }
}

/// Messages handed over at once: at most this number is repeated after a crash, and a segment of them is far below a
/// megabyte.
const BATCH: usize = 200;
