//! History of the optimiser's limits: sampled, kept in memory, lost at a restart.

use std::collections::{HashMap, VecDeque};

use parking_lot::Mutex;
use weir_sched::{Link, LinkStats, Names, Reason, Scheduler};
use weir_service::time::Millis;

use crate::driver::{Meter, Sizes};

/// Weight of each sample in the mean throughput. FTS3's `EMAAlpha`.
const EMA_ALPHA: f64 = 0.1;

/// Steps that are kept: 50 for each of 400 links.
const KEPT: usize = 20_000;

/// A link may run more, or less.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// When.
    pub at: Millis,
    /// The link's source.
    pub source_se: String,
    /// The link's destination.
    pub dest_se: String,
    /// Transfers that may be active.
    pub allowed: u32,
    /// The same before; 0 if the link was not known.
    pub former: u32,
    /// Transfers that hold a slot.
    pub active: u64,
    /// Transfers that wait for one.
    pub queued: u64,
    /// Bytes per second of the link, as measured.
    pub throughput: f64,
    /// The same as a mean that forgets: a tenth of each look, as FTS3 has it.
    pub ema: f64,
    /// Of files that arrived lately. `None`: none did since the start.
    pub sizes: Option<Sizes>,
    /// Per cent of recent attempts that did not fail for reasons of the path.
    pub success: f64,
    /// The cause of the limit, in words.
    pub rationale: String,
}

#[derive(Debug, Default)]
struct LimitHistory {
    steps: VecDeque<Step>,
    last: HashMap<Link, u32>,
    emas: HashMap<Link, f64>,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Evolution {
    book: Mutex<LimitHistory>,
}

impl Evolution {
    /// Samples every link, and records those whose limit changed since the last sample.
    pub fn sample(&self, core: &Scheduler, names: &Names, meter: &Meter, at: Millis) {
        let mut book = self.book.lock();
        for stats in core.links() {
            let now = throughput(&stats);
            let ema = book.emas.entry(stats.link).or_insert(now);
            *ema += EMA_ALPHA * (now - *ema);
            let ema = *ema;
            let former = book.last.insert(stats.link, stats.allowed).unwrap_or(0);
            if former == stats.allowed {
                continue;
            }
            let mut reasons = core.why_link(stats.link);
            for reason in &mut reasons {
                // They may be other users' links.
                if let Reason::Full { holders, .. } = reason {
                    holders.clear();
                }
            }
            let words = reasons.iter().map(|reason| reason.with(names).to_string());
            let rationale = words.collect::<Vec<_>>().join("; ");
            let sizes = meter.sizes(stats.link);
            let step = Step {
                at,
                source_se: names.se_name(stats.link.source).to_owned(),
                dest_se: names.se_name(stats.link.destination).to_owned(),
                allowed: stats.allowed,
                former,
                active: stats.counts.active,
                queued: stats.counts.queued,
                throughput: now,
                ema,
                sizes,
                success: 100.0 - f64::from(stats.failing) / 10.0,
                rationale,
            };
            book.steps.push_back(step);
            if book.steps.len() > KEPT {
                book.steps.pop_front();
            }
        }
    }

    /// The mean throughput of a link, if it was looked at.
    pub fn ema(&self, link: Link) -> Option<f64> {
        self.book.lock().emas.get(&link).copied()
    }

    /// The newest steps that fit, newest first.
    pub fn newest(&self, n: usize, fits: impl Fn(&Step) -> bool) -> Vec<Step> {
        let book = self.book.lock();
        let fitting = book.steps.iter().rev().filter(|step| fits(step));
        fitting.take(n).cloned().collect()
    }
}

/// Bytes per second of a link, as measured.
pub fn throughput(stats: &LinkStats) -> f64 {
    let each = |each: weir_units::BitRate| each.as_f64() / 8.0 * stats.counts.active as f64;
    stats.each.map_or(0.0, each)
}
