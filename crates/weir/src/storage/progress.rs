//! Progress of a file's transfer.

use std::io::{self, IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use weir_units::{BitRate, Bytes};

/// Between two drawings.
const PAUSE: Duration = Duration::from_millis(200);

const BAR: u64 = 24;

/// A terminal line that is drawn over itself; none without a terminal.
pub(super) struct Progress {
    shown: bool,
    size: Option<u64>,
    moved: u64,
    began: Instant,
    next: Instant,
}

impl Progress {
    pub(super) fn new(size: Option<u64>, json: bool) -> Self {
        let began = Instant::now();
        Self {
            shown: !json && io::stderr().is_terminal(),
            size,
            moved: 0,
            began,
            next: began + PAUSE,
        }
    }

    pub(super) fn advance(&mut self, bytes: usize) {
        self.moved += bytes as u64;
        let now = Instant::now();
        if self.shown && now >= self.next {
            self.next = now + PAUSE;
            let _gone = write!(io::stderr(), "\r\x1b[K{}", self.line());
        }
    }

    /// Takes the line away; gives the bytes a second.
    pub(super) fn end(&self) -> f64 {
        if self.shown {
            let _gone = write!(io::stderr(), "\r\x1b[K");
        }
        self.rate()
    }

    pub(super) fn moved(&self) -> u64 {
        self.moved
    }

    fn rate(&self) -> f64 {
        self.moved as f64 / self.began.elapsed().as_secs_f64().max(1e-6)
    }

    fn line(&self) -> String {
        let (moved, rate) = (Bytes(self.moved), BitRate((self.rate() * 8.0) as u64));
        let Some(size) = self.size.filter(|size| *size > 0) else {
            return format!("{moved}  {rate}");
        };
        let full = usize::try_from(BAR * self.moved.min(size) / size).unwrap_or_default();
        let bar = format!("{}{}", "█".repeat(full), "░".repeat(BAR as usize - full));
        let part = 100.0 * self.moved as f64 / size as f64;
        format!("{bar} {part:3.0}%  {moved} of {}  {rate}", Bytes(size))
    }
}
