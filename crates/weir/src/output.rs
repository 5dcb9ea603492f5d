//! Output of a command: text for people, or one JSON envelope for programs.
//!
//! A command prints its findings through [`Output::line`] (people only) and ends with [`Output::done`] (programs only).
//! Long commands add [`Output::event`], one JSON object a line before the envelope. Results go to standard output,
//! errors of people to standard error. A closed pipe ends the printing, not the command.

use std::io::{self, IsTerminal, Write};

use serde::Serialize;

use crate::failure::Failure;

/// Version of the envelope, its `weir` key.
const ENVELOPE_VERSION: u32 = 1;

/// The printing half of a command.
#[derive(Debug, Clone)]
pub(crate) struct Output {
    command: String,
    json: bool,
    color: bool,
}

#[derive(Serialize)]
struct Done<'a, T> {
    weir: u32,
    command: &'a str,
    ok: bool,
    data: &'a T,
}

#[derive(Serialize)]
struct Failed<'a> {
    weir: u32,
    command: &'a str,
    ok: bool,
    error: ErrorBody<'a>,
}

#[derive(Serialize)]
struct ErrorBody<'a> {
    message: String,
    causes: Vec<String>,
    remedy: Option<&'a str>,
}

#[derive(Serialize)]
#[expect(clippy::struct_field_names, reason = "`event` is the key of the contract")]
struct Event<'a, T> {
    weir: u32,
    event: &'a str,
    #[serde(flatten)]
    data: &'a T,
}

impl Output {
    /// Prints for the command of this name (`challenge check`).
    pub(crate) fn new(command: String, json: bool, no_color: bool) -> Self {
        let color = !json && !no_color && std::env::var_os("NO_COLOR").is_none() && io::stdout().is_terminal();
        Self { command, json, color }
    }

    /// True if a program reads: print JSON only.
    pub(crate) fn json(&self) -> bool {
        self.json
    }

    /// True if the reader is a terminal that wants colour.
    pub(crate) fn color(&self) -> bool {
        self.color
    }

    /// True if a person watches, so that lines may be drawn over.
    pub(crate) fn terminal(&self) -> bool {
        !self.json && io::stdout().is_terminal()
    }

    /// Prints one line (or several) of text; nothing with `--json`.
    pub(crate) fn line(&self, text: impl AsRef<str>) {
        if !self.json {
            write_line(io::stdout().lock(), text.as_ref());
        }
    }

    /// Prints one line of text to standard error; nothing with `--json`.
    pub(crate) fn note(&self, text: impl AsRef<str>) {
        if !self.json {
            write_line(io::stderr().lock(), text.as_ref());
        }
    }

    /// Prints one event of a long command, `{"weir":1,"event":NAME,…data}`; nothing without `--json`.
    ///
    /// `data` serialises as a map or a struct.
    pub(crate) fn event<T: Serialize>(&self, event: &str, data: &T) {
        if self.json {
            write_json(&Event {
                weir: ENVELOPE_VERSION,
                event,
                data,
            });
        }
    }

    /// Ends a command that did its work: prints the envelope with `--json`, nothing otherwise.
    pub(crate) fn done<T: Serialize>(&self, data: &T) {
        if self.json {
            write_json(&Done {
                weir: ENVELOPE_VERSION,
                command: &self.command,
                ok: true,
                data,
            });
        }
    }

    /// Ends a command that failed: the envelope with `--json`, else error, causes and remedy on standard error.
    pub(crate) fn failure(&self, failure: &Failure) {
        if self.json {
            let error = ErrorBody {
                message: failure.message(),
                causes: failure.causes(),
                remedy: failure.remedy(),
            };
            write_json(&Failed {
                weir: ENVELOPE_VERSION,
                command: &self.command,
                ok: false,
                error,
            });
        } else {
            write_line(io::stderr().lock(), failure.to_string().trim_end());
        }
    }
}

/// Writes one line, and forgets that the reader may have gone.
fn write_line(mut to: impl Write, text: &str) {
    let _gone = writeln!(to, "{text}").and_then(|()| to.flush());
}

fn write_json<T: Serialize>(value: &T) {
    match serde_json::to_string(value) {
        Ok(text) => write_line(io::stdout().lock(), &text),
        Err(error) => write_line(io::stderr().lock(), &format!("error: could not write JSON: {error}")),
    }
}
