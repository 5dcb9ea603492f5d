//! Figures while a run is going: what was delivered in the last seconds.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use weir_measure::spec::{AskedCurve, WindowSpec};
use weir_measure::spread;

use crate::engine::Sums;
use crate::progress::{Live, LiveSite};

/// Length of the sliding window. Files end in bursts of a cycle; ten of them show a rate.
const WINDOW: Duration = Duration::from_secs(10);

/// A site, and when which rates are asked of it, if any are.
#[derive(Debug, Clone)]
pub(crate) struct SiteAsk {
    pub(crate) name: String,
    pub(crate) asked: Vec<AskedCurve>,
}

/// What the engine writes and the presenter reads.
#[derive(Debug)]
pub(crate) struct Board {
    sites: Vec<SiteAsk>,
    /// `None` where no rate is asked.
    windows: Option<WindowSpec>,
    ends: VecDeque<(Duration, usize, u64)>,
    sums: Sums,
    /// When injection ended, once it has.
    stopped: Option<Duration>,
    drain: Duration,
}

/// The board, shared.
#[derive(Debug, Clone)]
pub(crate) struct SharedBoard(Arc<Mutex<Board>>);

impl SharedBoard {
    pub(crate) fn new(sites: Vec<SiteAsk>, windows: Option<WindowSpec>, drain: Duration) -> Self {
        let board = Board {
            sites,
            windows,
            ends: VecDeque::new(),
            sums: Sums::default(),
            stopped: None,
            drain,
        };
        Self(Arc::new(Mutex::new(board)))
    }

    /// Records a delivered file.
    pub(crate) fn delivered(&self, at: Duration, site: usize, bytes: u64) {
        self.lock().ends.push_back((at, site, bytes));
    }

    /// Records the sums.
    pub(crate) fn sums(&self, sums: Sums) {
        self.lock().sums = sums;
    }

    /// Injection has ended.
    pub(crate) fn stopped(&self, at: Duration) {
        self.lock().stopped = Some(at);
    }

    /// Returns the figures of a moment.
    pub(crate) fn live(&self, now: Duration) -> Live {
        let mut board = self.lock();
        let from = now.saturating_sub(WINDOW);
        board.ends.retain(|(at, _, _)| *at >= from);
        let window = now.min(WINDOW).max(Duration::from_millis(500));
        let bytes = |site: usize| {
            board
                .ends
                .iter()
                .filter(|end| end.1 == site)
                .map(|end| end.2)
                .sum::<u64>()
        };
        let rate = |bytes: u64| spread::rate(bytes, window).unwrap_or(0);
        let asked = |site: &SiteAsk| {
            let sum = site.asked.iter().map(|curve| curve.at(now)).sum();
            let now = if board.stopped.is_some() { 0 } else { sum };
            (!site.asked.is_empty()).then_some(now)
        };
        let sites = board.sites.iter().enumerate().map(|(site, ask)| LiveSite {
            site: ask.name.clone(),
            asked_bps: asked(ask),
            achieved_bps: rate(bytes(site)),
        });
        let (phase, phase_left, left) = board.phase(now);
        Live {
            elapsed_s: now.as_secs_f64(),
            phase,
            phase_left_s: phase_left.map(|left| left.as_secs_f64()),
            left_s: left.map(|left| left.as_secs_f64()),
            asked_bps: board.sites.iter().filter_map(asked).reduce(|sum, rate| sum + rate),
            achieved_bps: rate(board.ends.iter().map(|end| end.2).sum()),
            sites: sites.collect(),
            active: board.sums.active,
            queued: board.sums.queued,
            finished: board.sums.finished,
            failed: board.sums.failed,
            injected_bytes: board.sums.injected_bytes,
            verified_bytes: board.sums.verified_bytes,
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Board> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Board {
    /// Returns the phase, what is left of it, and what is left in all at most.
    fn phase(&self, now: Duration) -> (&'static str, Option<Duration>, Option<Duration>) {
        if let Some(stopped) = self.stopped {
            let left = (stopped + self.drain).saturating_sub(now);
            return ("drain", Some(left), Some(left));
        }
        let Some(windows) = &self.windows else {
            return ("run", None, None);
        };
        let left = (windows.hold_end + self.drain).saturating_sub(now);
        if now < windows.ramp_end {
            ("ramp", Some(windows.ramp_end.saturating_sub(now)), Some(left))
        } else {
            ("hold", Some(windows.hold_end.saturating_sub(now)), Some(left))
        }
    }
}
