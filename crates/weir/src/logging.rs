//! Log lines. Every one passes through a redacting writer, so that no secret can get out.
//!
//! Two sinks: lines of `--log-level` go to standard error (or `--log-file`). A run may attach a file of its own with
//! [`attach_file`], which takes everything from `info` upwards, independent of the terminal's level.

use std::fs::File;
use std::io::{self, IsTerminal as _, Write};
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use parking_lot::Mutex;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::Registry;
use weir_auth::redact;

use crate::cli::Global;
use crate::failure::Failure;

/// The file of the current run, if there is one.
static RUN_LOG: Mutex<Option<File>> = Mutex::new(None);

/// Lines for standard error that wait for the next drawing of a table on the same terminal; none while there is no table.
static HELD: Mutex<Option<String>> = Mutex::new(None);

/// Holds lines for standard error back from now on, if they would get into a drawing: if it is a terminal.
pub(crate) fn hold() {
    if io::stderr().is_terminal() {
        *held() = Some(String::new());
    }
}

/// Takes the lines that wait.
pub(crate) fn take_held() -> String {
    held().as_mut().map(std::mem::take).unwrap_or_default()
}

/// Writes the lines that wait, and holds none back any more.
pub(crate) fn release() {
    let rest = held().take().unwrap_or_default();
    let _gone = io::stderr().lock().write_all(rest.as_bytes());
}

fn held() -> parking_lot::MutexGuard<'static, Option<String>> {
    HELD.lock()
}

/// Starts logging for this process; `default` is the level where neither option nor WEIR_LOG says one.
pub(crate) fn start(options: &Global, default: &str) -> Result<(), Failure> {
    let asked = options
        .log_level
        .as_deref()
        .filter(|level| !level.is_empty())
        .unwrap_or(default);
    let filter = filter(asked).map_err(|error| {
        Failure::bad_input(error).with_remedy("give error, warn, info, debug, trace or off, or target=level,…")
    })?;
    let sink = match &options.log_file {
        None => Sink::StandardError,
        Some(path) => Sink::File(Arc::new(open_log(path).map_err(Failure::could_not_run)?)),
    };
    let asked_for = tracing_subscriber::fmt::layer()
        .with_ansi(false)
        .with_writer(Redacting { sink })
        .with_filter(filter);
    let run_log = tracing_subscriber::fmt::layer()
        .with_ansi(false)
        .with_writer(Redacting { sink: Sink::RunLog })
        .with_filter(LevelFilter::INFO);
    let subscriber = Registry::default().with(asked_for).with(run_log);
    std::panic::set_hook(Box::new(tell_of_panic));
    tracing::subscriber::set_global_default(subscriber)
        .context("could not start logging")
        .map_err(Failure::could_not_run)
}

/// Reads a level, or `target=level,…`. `Targets` takes a word that is no level for a target, all of which is then shown.
fn filter(asked: &str) -> anyhow::Result<Targets> {
    for part in asked.split(',').filter(|part| !part.contains('=')) {
        let level = part.trim().parse::<LevelFilter>();
        level.with_context(|| format!("`{part}` is not a log level"))?;
    }
    asked.parse().with_context(|| format!("`{asked}` is not a log level"))
}

/// Tells of a bug in the words of any other error, and redacted like them.
fn tell_of_panic(panic: &std::panic::PanicHookInfo<'_>) {
    let text = format!("error: weir has met a bug in itself\n  {panic}\nremedy: report it with this text\n");
    let _gone = io::stderr().lock().write_all(redact(&text).as_bytes());
}

/// Sends log lines from `info` upwards to this file too, until [`detach_file`].
pub(crate) fn attach_file(path: &Path) -> Result<(), Failure> {
    let file = open_log(path).map_err(Failure::could_not_run)?;
    *RUN_LOG.lock() = Some(file);
    Ok(())
}

/// Ends the run's own log.
pub(crate) fn detach_file() {
    *RUN_LOG.lock() = None;
}

fn open_log(path: &Path) -> anyhow::Result<File> {
    weir_auth::files::open_log(path).with_context(|| format!("could not open the log file {}", path.display()))
}

#[derive(Clone)]
enum Sink {
    StandardError,
    File(Arc<File>),
    RunLog,
}

/// Makes the writers that redact.
struct Redacting {
    sink: Sink,
}

impl<'a> MakeWriter<'a> for Redacting {
    type Writer = RedactingWriter;

    fn make_writer(&'a self) -> Self::Writer {
        RedactingWriter {
            sink: self.sink.clone(),
            line: Vec::new(),
        }
    }
}

/// A line of a log file, without terminal commands for its readers.
fn plain(text: &str) -> String {
    text.replace(|c: char| c.is_control() && !matches!(c, '\n' | '\t'), " ")
}

/// Collects one event and writes it, redacted, when the event ends.
struct RedactingWriter {
    sink: Sink,
    line: Vec<u8>,
}

impl Write for RedactingWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.line.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.line.is_empty() {
            return Ok(());
        }
        let text = redact(&String::from_utf8_lossy(&self.line));
        self.line.clear();
        match &self.sink {
            Sink::StandardError => match &mut *held() {
                Some(waiting) => {
                    waiting.push_str(&text);
                    Ok(())
                }
                None => io::stderr().lock().write_all(text.as_bytes()),
            },
            Sink::File(file) => (&**file).write_all(plain(&text).as_bytes()),
            Sink::RunLog => match &mut *RUN_LOG.lock() {
                Some(file) => file.write_all(plain(&text).as_bytes()),
                None => Ok(()),
            },
        }
    }
}

impl Drop for RedactingWriter {
    fn drop(&mut self) {
        let _nowhere_to_complain = self.flush();
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    /// Wrong: a level with a typing error is taken for a part of the program, and nothing at all is logged.
    #[test]
    fn a_level_is_one_of_those_there_are() {
        for good in ["debug", "WARN", "off", "info,weir_storage=trace", "weir_fts=debug"] {
            assert!(filter(good).is_ok(), "{good}");
        }
        for bad in ["bogus", "debug,weir", "weir_fts=loud"] {
            assert!(filter(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn no_token_gets_into_a_log() {
        // A log is read by more people than may use the token in it.
        let file = tempfile::NamedTempFile::new().unwrap();
        let sink = Sink::File(Arc::new(file.reopen().unwrap()));
        let layer = tracing_subscriber::fmt::layer()
            .with_ansi(false)
            .with_writer(Redacting { sink });
        let token = "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJ3ZWlyIn0.c2lnbmF0dXJl";
        tracing::subscriber::with_default(Registry::default().with(layer), || {
            tracing::info!(header = format!("Authorization: Bearer {token}"), "asked {token}");
            tracing::warn!("https://storage.example/f?authz={token}");
        });
        let log = std::fs::read_to_string(file.path()).unwrap();
        assert_eq!(log.lines().count(), 2, "{log}");
        assert!(log.matches("***").count() == 3 && !log.contains("eyJ"), "{log}");
    }
}
