//! Shows a run line by line, where there is no terminal to draw on.

use weir_challenge::{Live, Update};
use weir_units::Bytes;

use super::preflight::preflight;
use super::sites;
use crate::output::Output;

/// Seconds between two lines of figures.
const EVERY: f64 = 5.0;

/// The state of the last printed line.
#[derive(Debug, Default)]
pub(super) struct Lines {
    shown_at: Option<f64>,
    phase: &'static str,
}

impl Lines {
    /// Prints notable updates.
    pub(super) fn show(&mut self, update: &Update, output: &Output) {
        match update {
            Update::Preflight(found) => preflight(found).iter().for_each(|line| output.line(line)),
            Update::Folder { folder } => output.line(format!("run folder {}", folder.display())),
            Update::Step { text } => output.line(text),
            Update::Note { text } => output.line(format!("! {text}")),
            Update::Sites(report) => sites::lines(report, false).iter().for_each(|line| output.line(line)),
            Update::Seeding(seeding) if seeding.files_done == seeding.files => {
                output.line(format!(
                    "  {} source files, {:.1}, are in place",
                    seeding.files,
                    Bytes(seeding.bytes)
                ));
            }
            Update::Seeding(_) => {}
            Update::Why(why) => why.changes.iter().for_each(|change| output.line(change.sentence())),
            Update::Live(live) => {
                let due = self.shown_at.is_none_or(|at| live.elapsed_s - at >= EVERY) || self.phase != live.phase;
                if due {
                    self.shown_at = Some(live.elapsed_s);
                    self.phase = live.phase;
                    output.line(figures(live));
                }
            }
        }
    }
}

/// Writes the figures of the whole run on one line.
fn figures(live: &Live) -> String {
    let asked = live
        .asked_bps
        .map_or_else(String::new, |asked| format!("asked {asked:.2}, "));
    let left = live
        .left_s
        .map_or_else(String::new, |left| format!(", {left:.0} s left at most"));
    format!(
        "{:>5.0} s {:<5} {asked}achieved {:.2}, active {:.1}, queued {}, finished {}, failed {}{left}",
        live.elapsed_s, live.phase, live.achieved_bps, live.active_mean, live.queued, live.finished, live.failed
    )
}
