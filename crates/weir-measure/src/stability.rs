//! Stability of a run: whether its figures depend on the window.
//!
//! The hold window is cut into equal parts: six, or fewer so that each lasts at least [`PART_MIN`]; below three parts
//! nothing is judged. The spread of a subject is the coefficient of variation of its bytes per part, `cv² = (k·Σx² −
//! (Σx)²) ÷ (Σx)²`. It is compared in integers, so that every machine comes to the same answer.
//!
//! A threshold on a rate or ratio is *unstable* when the spread is above [`CV_LIMIT_PERCENT`] **and** the parts
//! contradict each other. They do if at least a third of them would pass it and at least a third would not. One
//! straggling part, or a strong but harmless variation far from the limit, is not enough. (Example: JUNO's "7 GB/s,
//! very unstable" should be repeated before it is believed.)

use std::collections::BTreeMap;
use std::time::Duration;

use weir_units::BitRate;

use crate::report::Stability;
use crate::spec::WindowSpec;
use crate::spread;

/// Shortest part that is judged: shorter ones show single files, not a rate.
pub const PART_MIN: Duration = Duration::from_secs(2);

/// Most parts.
pub const PARTS_MAX: u32 = 6;

/// Fewest parts that are judged.
const PARTS_MIN: usize = 3;

/// Coefficient of variation above which parts disagree, in per cent. Files that arrive at random, five to a part, vary
/// by 1 ÷ √5 = 45 %; closed-loop injection keeps it well under 20 %.
pub const CV_LIMIT_PERCENT: u64 = 30;

/// Coefficient of variation of the total above which every figure is unstable, whatever the thresholds say, in per
/// cent.
pub const CV_TOTAL_LIMIT_PERCENT: u64 = 60;

/// Verified bytes per part of the hold window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parts {
    borders: Vec<Duration>,
    total: Vec<u64>,
    sites: Vec<Vec<u64>>,
    links: Vec<Vec<u64>>,
    /// Spans added before the end of the hold is known.
    open: Option<Vec<Span>>,
}

/// A finished transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Span {
    bytes: u64,
    start: Duration,
    end: Duration,
    site: usize,
    link: usize,
}

impl Parts {
    /// Cuts the hold window; gives no parts when it is too short for three.
    pub fn new(windows: &WindowSpec, sites: usize, links: usize) -> Self {
        let hold = windows.hold();
        let count = u32::try_from(hold.as_nanos() / PART_MIN.as_nanos())
            .unwrap_or(u32::MAX)
            .min(PARTS_MAX);
        let count = if (count as usize) < PARTS_MIN { 0 } else { count };
        let borders = if count == 0 {
            Vec::new()
        } else {
            (0..=count)
                .map(|border| windows.ramp_end + hold * border / count)
                .collect()
        };
        let empty = vec![0; count as usize];
        Self {
            borders,
            total: empty.clone(),
            sites: vec![empty.clone(); sites],
            links: vec![empty; links],
            open: None,
        }
    }

    /// Begins without knowing when the hold ends. Until [`Self::close`] each finished transfer takes some 50 bytes: only runs without
    /// rates begin so, and their plans list every transfer.
    pub fn open(sites: usize, links: usize) -> Self {
        Self {
            borders: Vec::new(),
            total: Vec::new(),
            sites: vec![Vec::new(); sites],
            links: vec![Vec::new(); links],
            open: Some(Vec::new()),
        }
    }

    /// The hold has ended. If it was to last longer, only the parts that are whole are judged.
    pub fn close(&mut self, windows: &WindowSpec) {
        if let Some(spans) = self.open.take() {
            *self = Self::new(windows, self.sites.len(), self.links.len());
            spans
                .iter()
                .for_each(|span| self.add(span.bytes, span.start, span.end, span.site, span.link));
            return;
        }
        self.borders.retain(|border| *border <= windows.hold_end);
        let whole = self.borders.len().saturating_sub(1);
        let whole = if whole < PARTS_MIN { 0 } else { whole };
        self.borders.truncate(if whole == 0 { 0 } else { whole + 1 });
        let all = self.sites.iter_mut().chain(&mut self.links);
        all.chain(std::iter::once(&mut self.total))
            .for_each(|parts| parts.truncate(whole));
    }

    /// Adds the bytes of a finished transfer.
    pub fn add(&mut self, bytes: u64, start: Duration, end: Duration, site: usize, link: usize) {
        if let Some(spans) = &mut self.open {
            spans.push(Span {
                bytes,
                start,
                end,
                site,
                link,
            });
            return;
        }
        for (part, border) in self.borders.windows(2).enumerate() {
            let share = spread::between(bytes, start, end, border[0], border[1]);
            self.total[part] += share;
            self.sites[site][part] += share;
            self.links[link][part] += share;
        }
    }

    /// Returns the length of one part; `None` when there are none.
    pub fn length(&self) -> Option<Duration> {
        self.borders
            .windows(2)
            .next()
            .map(|border| border[1].saturating_sub(border[0]))
    }

    /// Returns the bytes per part of the whole run; empty when nothing is judged.
    pub fn total(&self) -> &[u64] {
        &self.total
    }

    /// Returns the bytes per part that came into a site.
    pub fn site(&self, site: usize) -> &[u64] {
        &self.sites[site]
    }

    /// Returns the bytes per part of a link.
    pub fn link(&self, link: usize) -> &[u64] {
        &self.links[link]
    }

    /// Returns the part of the report; `None` when stability is not judged.
    pub fn report(&self, sites: &[String]) -> Option<Stability> {
        let part = self.length()?;
        let cv_sites: BTreeMap<_, _> = sites
            .iter()
            .enumerate()
            .map(|(site, name)| (name.clone(), variation(&self.sites[site])))
            .collect();
        Some(Stability {
            parts: u32::try_from(self.total.len()).expect("at most six"),
            part_s: part.as_secs_f64(),
            cv_total: variation(&self.total),
            cv_sites,
        })
    }
}

/// Returns the coefficient of variation; `None` for nothing at all.
#[expect(clippy::cast_precision_loss, reason = "shown with three digits, decided in integers")]
pub fn variation(values: &[u64]) -> Option<f64> {
    let (numerator, denominator) = variation_squared(values)?;
    Some((numerator as f64 / denominator as f64).sqrt())
}

/// Returns whether the coefficient of variation is above a limit in per cent.
pub fn varies(values: &[u64], percent: u64) -> bool {
    let Some((numerator, denominator)) = variation_squared(values) else {
        return false;
    };
    // numerator ÷ denominator > (percent ÷ 100)², both sides × 10⁴; values are kept below 2⁵⁰ so that nothing overflows.
    numerator * 10_000 > u128::from(percent) * u128::from(percent) * denominator
}

/// Returns `k·Σx² − (Σx)²` and `(Σx)²` of the values, scaled down to at most 2⁵⁰.
fn variation_squared(values: &[u64]) -> Option<(u128, u128)> {
    let largest = values.iter().copied().max().filter(|largest| *largest > 0)?;
    let shift = (64 - largest.leading_zeros()).saturating_sub(50);
    let values = values.iter().map(|value| u128::from(value >> shift));
    let (count, sum, squares) = values.fold((0u128, 0u128, 0u128), |(count, sum, squares), value| {
        (count + 1, sum + value, squares + value * value)
    });
    Some(((count * squares).saturating_sub(sum * sum), sum * sum))
}

/// Returns whether a lower limit on a rate cannot be believed: see the module.
pub fn contradicts(parts: &[u64], length: Duration, limit: BitRate) -> bool {
    if !varies(parts, CV_LIMIT_PERCENT) {
        return false;
    }
    let passing = parts
        .iter()
        .filter(|bytes| spread::rate(**bytes, length).is_some_and(|rate| rate >= limit))
        .count();
    let failing = parts.len() - passing;
    passing * 3 >= parts.len() && failing * 3 >= parts.len()
}
