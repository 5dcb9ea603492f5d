//! `weir rule watch`: follows rules until all are OK.

use std::io::Write as _;
use std::time::Duration;

use serde_json::{Value, json};

use super::show::{self, progress, text};
use crate::catalog::door::{CatalogClient, verdict};
use crate::cli::RulesArguments;
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::signals::Signals;

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(500);

const BAR: usize = 24;

pub(super) async fn run(arguments: &RulesArguments, output: &Output) -> Result<Exit, Failure> {
    let door = CatalogClient::open(&arguments.door).await?;
    follow(&door, &arguments.rules, output).await
}

/// Follows rules until each is OK, stuck or suspended. A signal ends the watching, not the rules.
pub(super) async fn follow(door: &CatalogClient, rules: &[String], output: &Output) -> Result<Exit, Failure> {
    let mut signals = Signals::listen()?;
    let mut ended = Vec::new();
    for id in rules {
        tokio::select! {
            rule = one(door, id, output) => ended.push(rule?),
            signal = signals.next() => {
                output.note(format!("{signal}: the rules go on; delete them with `weir rule delete`"));
                return Ok(Exit::Interrupted);
            }
        }
    }
    let good = ended.iter().all(|rule| text(rule, "state") == "OK");
    output.done(&json!({ "rules": ended }));
    Ok(verdict(good))
}

async fn one(door: &CatalogClient, id: &str, output: &Output) -> Result<Value, Failure> {
    let mut told = String::new();
    loop {
        let rule = show::one(door, id).await?;
        let (state, now) = (text(&rule, "state"), progress(&rule));
        if output.terminal() {
            draw(&rule, &now);
        } else if told != now {
            output.line(format!("{id}  {state}  {now}"));
        }
        if told != now {
            let locks = |key: &str| rule[key].clone();
            output.event(
                "progress",
                &json!({
                    "rule": id, "state": state, "ok": locks("locks_ok_cnt"), "replicating": locks("locks_replicating_cnt"),
                    "stuck": locks("locks_stuck_cnt"),
                }),
            );
        }
        if matches!(state, "OK" | "STUCK" | "SUSPENDED") {
            if output.terminal() {
                write("");
            }
            output.line(show::line(&rule, output));
            if !text(&rule, "error").is_empty() {
                output.line(format!(
                    "  last error  {}; see `weir rule why {id}`",
                    text(&rule, "error")
                ));
            }
            return Ok(rule);
        }
        told = now;
        tokio::time::sleep(PAUSE).await;
    }
}

/// A bar over the line that stands.
fn draw(rule: &Value, progress: &str) {
    let n = |key: &str| rule[key].as_u64().unwrap_or_default();
    let ok = n("locks_ok_cnt");
    let all = (ok + n("locks_replicating_cnt") + n("locks_stuck_cnt")).max(1);
    let full = (ok as usize * BAR / all as usize).min(BAR);
    let bar = format!("{}{}", "█".repeat(full), "░".repeat(BAR - full));
    write(&format!("{bar}  {progress}"));
}

fn write(line: &str) {
    let width = rustix::termios::tcgetwinsize(std::io::stdout()).map_or(80, |size| usize::from(size.ws_col).max(20));
    let line = line.chars().take(width - 1).collect::<String>();
    let mut out = std::io::stdout().lock();
    // A closed pipe ends the drawing, not the command.
    let _ = write!(out, "\r\x1b[J{line}");
    let _ = out.flush();
}
