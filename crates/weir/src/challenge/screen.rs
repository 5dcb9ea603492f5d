//! Draws a run on a terminal: a table that is drawn over itself.
//!
//! Only three sequences are used, which every terminal since the VT100 knows: up, erase below, colour.

use std::io::{self, Write};

use weir_challenge::{Live, Seeding, Update};
use weir_measure::diagnosis::{Change, Statement};
use weir_units::{BitRate, Bytes};

use super::preflight::preflight;
use super::sites;
use crate::logging;
use crate::output::Output;

/// Width of the bars.
const BAR: usize = 20;

/// Width of names. A line is 80 columns wide with name, rates, share and bar.
const NAME: usize = 24;

/// Causes that are shown.
const WHY: usize = 3;

/// Lines around the tables of sites and links.
const AROUND: usize = 7;

/// A drawing that is replaced by the next.
#[derive(Debug)]
pub(super) struct Screen {
    color: bool,
    /// Lines of the drawing that stands.
    drawn: usize,
    last: Vec<Line>,
    /// The surest causes that hold links back now.
    why: Vec<String>,
}

/// One line and its colour.
#[derive(Debug, Clone)]
struct Line {
    text: String,
    color: Option<&'static str>,
}

const GREEN: &str = "32";
const YELLOW: &str = "33";
const RED: &str = "31";
const BOLD: &str = "1";
const DIM: &str = "2";

impl Screen {
    pub(super) fn new(color: bool) -> Self {
        logging::hold();
        Self {
            color,
            drawn: 0,
            last: Vec::new(),
            why: Vec::new(),
        }
    }

    /// Draws the changes.
    pub(super) fn show(&mut self, update: &Update, output: &Output) {
        match update {
            Update::Preflight(found) => self.above(preflight(found), output),
            Update::Folder { folder } => self.above(vec![format!("  folder   {}", folder.display())], output),
            Update::Note { text } => self.above(vec![format!("! {text}")], output),
            Update::Sites(report) => self.above(sites::lines(report, false), output),
            Update::Step { text } => self.draw(vec![plain(format!("… {text}"))]),
            Update::Seeding(seeding) => self.draw(vec![plain(seeded(seeding))]),
            Update::Why(why) => {
                self.why = why.statements.iter().take(WHY).map(Statement::short).collect();
                let changes: Vec<String> = why.changes.iter().map(Change::sentence).collect();
                if !changes.is_empty() {
                    self.above(changes, output);
                }
            }
            Update::Live(live) => {
                let mut lines = table(live, rows().saturating_sub(self.why.len()));
                lines.extend(self.why.iter().cloned().map(plain));
                self.draw(lines);
            }
        }
    }

    /// Ends the drawing: later output replaces it.
    pub(super) fn end(&mut self) {
        self.draw(Vec::new());
        logging::release();
    }

    /// Prints lines that stay, above the drawing.
    fn above(&mut self, lines: Vec<String>, output: &Output) {
        let last = std::mem::take(&mut self.last);
        self.draw(Vec::new());
        for line in lines {
            output.line(line);
        }
        self.draw(last);
    }

    fn draw(&mut self, lines: Vec<Line>) {
        let width = columns();
        let mut text = String::new();
        if self.drawn > 0 {
            text = format!("\x1b[{}A\r\x1b[J", self.drawn);
        }
        // Log lines of services since the last drawing are printed above it; in between they would tear it.
        text.push_str(&logging::take_held());
        for line in &lines {
            let shown: String = line.text.chars().take(width.saturating_sub(1)).collect();
            let drawn = match line.color.filter(|_| self.color) {
                Some(color) => format!("\x1b[{color}m{shown}\x1b[0m\n"),
                None => format!("{shown}\n"),
            };
            text.push_str(&drawn);
        }
        self.drawn = lines.len();
        self.last = lines;
        let mut to = io::stdout().lock();
        let _gone = to.write_all(text.as_bytes()).and_then(|()| to.flush());
    }
}

fn plain(text: String) -> Line {
    Line { text, color: None }
}

fn seeded(seeding: &Seeding) -> String {
    let share = if seeding.bytes == 0 {
        1.0
    } else {
        seeding.bytes_done as f64 / seeding.bytes as f64
    };
    format!(
        "… source files {}  {} of {}, {:.1} of {:.1}",
        bar(share),
        seeding.files_done,
        seeding.files,
        Bytes(seeding.bytes_done),
        Bytes(seeding.bytes)
    )
}

/// Draws phase, sites, links, total and counts, at most `rows` lines high.
fn table(live: &Live, rows: usize) -> Vec<Line> {
    let left = live
        .left_s
        .map_or_else(String::new, |left| format!(", done in {} at most", clock(left)));
    let phase_left = live
        .phase_left_s
        .map_or_else(String::new, |left| format!(" {} left", clock(left)));
    let mut lines = vec![
        Line {
            text: format!("{}{phase_left}{left}", live.phase),
            color: Some(BOLD),
        },
        heading("into"),
    ];
    let room = rows.saturating_sub(AROUND).max(3);
    for site in live.sites.iter().take(room) {
        lines.push(row(&site.site, site.asked_bps, site.achieved_bps));
    }
    if live.sites.len() > room {
        lines.push(plain(format!("… and {} more sites", live.sites.len() - room)));
    }
    // Links are shown where there is room for their heading and some of them; a single one repeats its site.
    let room = room.saturating_sub(live.sites.len() + 1);
    if room >= 2 && live.n_links > 1 {
        lines.push(heading(if live.n_links as usize > live.links.len() {
            "furthest behind"
        } else {
            "link"
        }));
        for link in live.links.iter().take(room) {
            let end = NAME / 2 - 1;
            let name = format!("{}→{}", short(&link.source, end), short(&link.destination, end));
            lines.push(row(&name, link.asked_bps, link.achieved_bps));
        }
    }
    lines.push(row("total", live.asked_bps, live.achieved_bps));
    lines.push(plain(format!(
        "active {:.1}  queued {}  finished {}  failed {}",
        live.active_mean, live.queued, live.finished, live.failed
    )));
    lines.push(plain(format!(
        "verified {:.1} of {:.1} injected",
        Bytes(live.verified_bytes),
        Bytes(live.injected_bytes)
    )));
    lines
}

/// The figures are those of the last ten seconds, asked and achieved.
fn heading(what: &str) -> Line {
    Line {
        text: format!("{what:<NAME$} {:>11} {:>11}  last 10 s", "asked", "achieved"),
        color: Some(DIM),
    }
}

fn row(name: &str, asked: Option<BitRate>, achieved: BitRate) -> Line {
    let Some(asked) = asked.filter(|asked| *asked > BitRate::ZERO) else {
        return plain(format!(
            "{:<NAME$} {:>11} {:>11}",
            short(name, NAME),
            "–",
            format!("{achieved:.1}")
        ));
    };
    let share = achieved.as_f64() / asked.as_f64();
    let color = match share {
        0.9.. => GREEN,
        0.5.. => YELLOW,
        _ => RED,
    };
    let text = format!(
        "{:<NAME$} {:>11} {:>11} {:>5.0} % {}",
        short(name, NAME),
        format!("{asked:.1}"),
        format!("{achieved:.1}"),
        share * 100.0,
        bar(share)
    );
    Line {
        text,
        color: Some(color),
    }
}

/// A name that is no wider than this.
fn short(name: &str, width: usize) -> String {
    if name.chars().count() <= width {
        return name.to_owned();
    }
    let kept: String = name.chars().take(width - 1).collect();
    format!("{kept}…")
}

fn bar(share: f64) -> String {
    let full = (share.clamp(0.0, 1.0) * BAR as f64).round() as usize;
    format!("{}{}", "█".repeat(full), "░".repeat(BAR - full))
}

/// Writes seconds as minutes and seconds.
fn clock(seconds: f64) -> String {
    let seconds = seconds.max(0.0).ceil() as u64;
    format!("{}:{:02}", seconds / 60, seconds % 60)
}

fn columns() -> usize {
    size().map_or(80, |size| usize::from(size.ws_col)).max(20)
}

fn rows() -> usize {
    size().map_or(24, |size| usize::from(size.ws_row)).max(8)
}

fn size() -> Option<rustix::termios::Winsize> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    (size.ws_col > 0 && size.ws_row > 0).then_some(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_fits_a_low_terminal() {
        // Wrong: the drawing is higher than the terminal, so that drawing over it leaves copies behind.
        let site = |number: u64| weir_challenge::LiveSite {
            site: format!("S{number}"),
            asked_bps: Some(BitRate(1_000_000)),
            achieved_bps: BitRate(number * 100_000),
        };
        let live = Live {
            phase: "hold",
            sites: (0..50).map(site).collect(),
            ..Live::default()
        };
        assert!(table(&live, 12).len() < 12);
        assert!(table(&live, 100).len() > 50);
    }

    #[test]
    fn a_table_fits_80_columns_with_links_beside_sites() {
        // Wrong: figures are cut off at the edge of the usual terminal, or links are shown nowhere.
        let link = |number: u64| weir_challenge::LiveLink {
            source: format!("A-SITE-WITH-A-LONG-NAME-{number}"),
            destination: "ANOTHER".to_owned(),
            asked_bps: Some(BitRate(123_456_789_000)),
            achieved_bps: BitRate(123_456_789_000),
        };
        let live = Live {
            phase: "hold",
            phase_left_s: Some(36_000.0),
            left_s: Some(99_000.0),
            asked_bps: Some(BitRate(123_456_789_000_000)),
            achieved_bps: BitRate(99_456_789_000_000),
            sites: vec![weir_challenge::LiveSite {
                site: "ANOTHER".to_owned(),
                asked_bps: Some(BitRate(123_456_789_000)),
                achieved_bps: BitRate(456_789_000),
            }],
            links: (0..5).map(link).collect(),
            n_links: 5,
            active_mean: 12_345.6,
            queued: 1_234_567,
            finished: 123_456_789,
            failed: 1_234_567,
            injected_bytes: 123_456_789_012_345,
            verified_bytes: 123_456_789_012_345,
            ..Live::default()
        };
        let lines = table(&live, 24);
        for line in &lines {
            assert!(
                line.text.chars().count() < 80,
                "{}: {}",
                line.text.chars().count(),
                line.text
            );
        }
        assert_eq!(lines.iter().filter(|line| line.text.contains('→')).count(), 5);
        assert!(table(&live, 9).len() < 10);
    }

    #[test]
    fn rows_have_the_colours_of_the_report() {
        for (achieved, color) in [(95, GREEN), (90, GREEN), (89, YELLOW), (50, YELLOW), (49, RED)] {
            assert_eq!(
                row("S", Some(BitRate(100)), BitRate(achieved)).color,
                Some(color),
                "{achieved}"
            );
        }
        assert_eq!(row("S", None, BitRate(1)).color, None);
    }
}
