//! One JSON object a line for every request, transfers included.

use std::{
    fs::{File, OpenOptions},
    io::Write as _,
    path::Path,
    sync::{Arc, atomic::Ordering},
};

use serde::Serialize;
use tokio::sync::{mpsc, oneshot};
use weir_auth::redact;

use crate::metrics::Metrics;

/// Lines on their way to the disk: a burst of this many fits; what does not is counted as lost.
const LINES_WAITING: usize = 16_384;

/// A line of the log. No field holds a token; URLs have lost their query.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Line {
    /// When the request came, in RFC 3339 with milliseconds.
    pub(crate) time: String,
    pub(crate) duration_ms: u64,
    pub(crate) client: String,
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
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) checksums: Vec<String>,
}

/// What goes to the writer.
enum Item {
    Line(String),
    /// Answered when everything before it has been written.
    Flush(oneshot::Sender<()>),
}

/// Where lines go.
pub(crate) struct AccessLog {
    lines: Option<mpsc::Sender<Item>>,
    metrics: Arc<Metrics>,
}

impl AccessLog {
    /// Opens the file for appending and starts its writer on the current runtime; without a file, lines go nowhere.
    pub(crate) fn open(path: Option<&Path>, metrics: Arc<Metrics>) -> std::io::Result<Self> {
        let Some(path) = path else {
            return Ok(Self { lines: None, metrics });
        };
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        let (sender, receiver) = mpsc::channel(LINES_WAITING);
        tokio::spawn(write_all(Arc::new(file), receiver));
        Ok(Self {
            lines: Some(sender),
            metrics,
        })
    }

    pub(crate) fn is_on(&self) -> bool {
        self.lines.is_some()
    }

    /// Never waits: it is called where nothing can.
    pub(crate) fn write(&self, mut line: Line) {
        let Some(lines) = &self.lines else { return };
        let texts = [&mut line.user_agent, &mut line.client_info, &mut line.error];
        texts.into_iter().flatten().for_each(|text| *text = redact(text));
        line.path = redact(&line.path);
        let mut text = serde_json::to_string(&line).expect("a line has only strings and numbers");
        text.push('\n');
        if lines.try_send(Item::Line(text)).is_err() {
            self.metrics.log_lines_lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until every line so far has been written.
    pub(crate) async fn flush(&self) {
        let Some(lines) = &self.lines else { return };
        let (written, wait) = oneshot::channel();
        if lines.send(Item::Flush(written)).await.is_ok() {
            let _ = wait.await;
        }
    }
}

/// Writes what is there in one go, so that a busy endpoint makes few calls and a quiet one is up to date.
async fn write_all(file: Arc<File>, mut items: mpsc::Receiver<Item>) {
    let mut batch = Vec::new();
    while items.recv_many(&mut batch, 1024).await > 0 {
        let (mut text, mut waiting) = (String::new(), Vec::new());
        for item in batch.drain(..) {
            match item {
                Item::Line(line) => text.push_str(&line),
                Item::Flush(written) => waiting.push(written),
            }
        }
        let file = file.clone();
        let written = tokio::task::spawn_blocking(move || (&*file).write_all(text.as_bytes())).await;
        if let Ok(Err(error)) = written {
            tracing::error!(%error, "could not write the access log");
        }
        for written in waiting {
            let _ = written.send(());
        }
    }
}
