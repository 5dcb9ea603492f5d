//! One JSON object a line for every request, transfers included.

use std::{
    fs::File,
    io::Write as _,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use serde::Serialize;
use tokio::sync::{mpsc, oneshot};
use weir_auth::redact;

use crate::metrics::Metrics;

/// Capacity of the queue of lines to the disk: a longer burst loses lines, which are counted.
const LINES_WAITING: usize = 16_384;

/// A line of the log. No field holds a token; URLs have lost their query.
#[derive(Debug, Default, Serialize)]
pub(crate) struct LogLine {
    /// When the request came, in RFC 3339 with milliseconds.
    pub(crate) time: String,
    pub(crate) duration_ms: u64,
    pub(crate) client: String,
    /// HTTP's version: `1.1`.
    pub(crate) http: &'static str,
    pub(crate) tls: bool,
    pub(crate) method: String,
    /// Decoded.
    pub(crate) path: String,
    /// 499: the client went away before there was one.
    pub(crate) status: u16,
    /// Of the token, or the name of the certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) subject: Option<String>,
    /// Of the token, or the authority of the certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) issuer: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) vo: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) token_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) user_agent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) client_info: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) transfer: Option<TransferLine>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
}

/// The part of a line that tells of moved data.
#[derive(Debug, Default, Serialize)]
pub(crate) struct TransferLine {
    /// `get`, `put`, `pull`, `push`, `copy`.
    pub(crate) kind: &'static str,
    pub(crate) area: String,
    pub(crate) peer: Option<String>,
    /// The other side of a third-party copy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) remote: Option<String>,
    pub(crate) bytes: u64,
    pub(crate) completed: bool,
    /// From the request to the moment when bytes began to move, the wait for a place included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) first_byte_ms: Option<u64>,
    /// Bytes a second since that moment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) rate: Option<u64>,
    /// Of a pull; others have one.
    pub(crate) streams: u32,
    /// The ranges of a GET that asked for several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ranges: Option<usize>,
    /// Performance markers that were sent, the one before the last word included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) markers: Option<u32>,
    /// `same`, `different`, or `none`: the other side told none.
    pub(crate) compared: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) scitag: Option<u16>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) checksums: Vec<String>,
}

/// An item for the log writer.
enum Item {
    LogLine(String),
    /// Lines go there from now on; none: nowhere.
    To(Option<Arc<File>>),
    /// Answered when everything before it has been written.
    Flush(oneshot::Sender<()>),
}

/// Where lines go.
pub(crate) struct AccessLog {
    lines: mpsc::Sender<Item>,
    is_on: AtomicBool,
    metrics: Arc<Metrics>,
}

impl AccessLog {
    /// Starts the writer on the current runtime; without a file, lines go nowhere.
    pub(crate) fn start(file: Option<File>, metrics: Arc<Metrics>) -> Self {
        let (lines, receiver) = mpsc::channel(LINES_WAITING);
        let is_on = AtomicBool::new(file.is_some());
        tokio::spawn(write_all(file.map(Arc::new), receiver));
        Self { lines, is_on, metrics }
    }

    /// Opens a log for appending.
    pub(crate) fn open(path: &Path) -> std::io::Result<File> {
        weir_auth::files::open_log(path)
    }

    /// Sends all later lines to another file, also those of requests in hand; or drops them.
    pub(crate) async fn redirect(&self, file: Option<File>) {
        self.is_on.store(file.is_some(), Ordering::Relaxed);
        let _ = self.lines.send(Item::To(file.map(Arc::new))).await;
    }

    pub(crate) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// Never waits: it is called where nothing can.
    pub(crate) fn write(&self, mut line: LogLine) {
        let texts = [&mut line.user_agent, &mut line.client_info, &mut line.error];
        texts.into_iter().flatten().for_each(|text| *text = redact(text));
        line.path = redact(&line.path);
        let mut text = serde_json::to_string(&line).expect("a line has only strings and numbers");
        text.push('\n');
        if self.lines.try_send(Item::LogLine(text)).is_err() {
            self.metrics.log_lines_lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until every line so far has been written.
    pub(crate) async fn flush(&self) {
        let (written, wait) = oneshot::channel();
        if self.lines.send(Item::Flush(written)).await.is_ok() {
            let _ = wait.await;
        }
    }
}

/// Writes all waiting lines in one call, so that a busy endpoint makes few calls and a quiet one is up to date.
async fn write_all(mut file: Option<Arc<File>>, mut items: mpsc::Receiver<Item>) {
    let mut batch = Vec::new();
    while items.recv_many(&mut batch, 1024).await > 0 {
        let (mut text, mut waiting) = (String::new(), Vec::new());
        for item in batch.drain(..) {
            match item {
                Item::LogLine(line) => text.push_str(&line),
                Item::Flush(written) => waiting.push(written),
                Item::To(next) => {
                    write(file.as_ref(), std::mem::take(&mut text)).await;
                    file = next;
                }
            }
        }
        write(file.as_ref(), text).await;
        for written in waiting {
            let _ = written.send(());
        }
    }
}

async fn write(file: Option<&Arc<File>>, text: String) {
    let Some(file) = file.cloned().filter(|_| !text.is_empty()) else {
        return;
    };
    let written = tokio::task::spawn_blocking(move || (&*file).write_all(text.as_bytes())).await;
    if let Ok(Err(error)) = written {
        tracing::error!(%error, "could not write the access log");
    }
}
