//! One link of the injector.

use std::time::Duration;

use weir_units::{BitRate, Bytes};

use super::ledger::{Held, Tally};
use super::places::Place;
use super::{BACKLOG_CYCLES, BACKLOG_FILES, DEBT_CYCLES, LinkObservation};
use crate::curve::Curve;
use crate::phases::Phases;
use crate::plan::RatedLink;

/// Files that may be queued on a link.
pub(crate) fn backlog_files(rate: BitRate, size: Bytes, cycle: Duration) -> u64 {
    files_in(rate, size, cycle * BACKLOG_CYCLES).max(BACKLOG_FILES)
}

fn files_in(rate: BitRate, size: Bytes, time: Duration) -> u64 {
    rate.bytes_in(time).0.div_ceil(size.0)
}

/// The state of one link. A **place** is a file's position on the curve, counted from 0.
#[derive(Debug, Clone)]
pub(super) struct LinkState {
    pub(super) rated: RatedLink,
    curve: Curve,
    end: Duration,
    /// Bytes before the first place: less than one file.
    offset: u64,
    backlog_files: u64,
    debt_files: u64,
    /// Files injected in all.
    injected: u64,
    /// Places given up in all.
    given_up: u64,
    pub(super) delivered: Bytes,
    pub(super) queued: Bytes,
    pub(super) active: u32,
    /// Source files that may be injected; `None` if any may.
    free_files: Option<u64>,
    batches: Option<Batches>,
    /// Whether all files of the source are injected together, and again when all are free.
    is_loop: bool,
    pub(super) tally: Tally,
}

impl LinkState {
    /// `in_batches`: the files of a cycle are injected together.
    pub(super) fn new(
        rated: &RatedLink,
        phases: &Phases,
        cycle: Duration,
        place: Place,
        in_batches: bool,
    ) -> LinkState {
        let (rate, size) = (rated.rate, rated.file_size);
        let batches = in_batches.then(|| Batches::new(cycle, place.cycle));
        // Without batches the files themselves are spread as batches are.
        let first = if in_batches { place.file } else { place.cycle };
        LinkState {
            rated: rated.clone(),
            curve: Curve::new(rate, phases),
            end: phases.end(),
            offset: ((u128::from(first) * u128::from(size.0)) >> 64) as u64,
            backlog_files: backlog_files(rate, size, cycle),
            debt_files: files_in(rate, size, cycle * DEBT_CYCLES).max(2),
            injected: 0,
            given_up: 0,
            delivered: Bytes::ZERO,
            queued: Bytes::ZERO,
            active: 0,
            free_files: None,
            batches,
            is_loop: false,
            tally: Tally::default(),
        }
    }

    /// The same with all files of the source together, again and again.
    pub(super) fn looping(self) -> LinkState {
        LinkState { is_loop: true, ..self }
    }

    fn size(&self) -> u64 {
        self.rated.file_size.0
    }

    pub(super) fn observe(&mut self, seen: &LinkObservation) {
        (self.delivered, self.queued, self.active) = (seen.delivered, seen.queued, seen.active);
        self.free_files = seen.free_files;
    }

    /// Counts a file as injected, and gives its number on this link.
    pub(super) fn inject(&mut self, late: Duration) -> u64 {
        self.queued += self.rated.file_size;
        self.free_files = self.free_files.map(|files| files.saturating_sub(1));
        self.tally.injected += 1;
        self.tally.late_max = self.tally.late_max.max(late);
        self.injected += 1;
        self.injected - 1
    }

    /// Places on the first `bytes` of the curve.
    fn places(&self, bytes: u64) -> u64 {
        if bytes < self.offset {
            0
        } else {
            (bytes - self.offset) / self.size() + 1
        }
    }

    /// Number of files due by `elapsed`: the curve has reached them, or in batches reaches them before the next batch. After
    /// the hold no more files become due; the last batch of a link is a whole one.
    pub(super) fn wanted_by(&self, elapsed: Duration) -> u64 {
        if self.end.is_zero() {
            return 0;
        }
        let last = self.end.saturating_sub(Duration::from_nanos(1));
        let elapsed = elapsed.min(last);
        let reach = self.batches.as_ref().map_or(elapsed, |batches| batches.reach(elapsed));
        self.places(self.curve.bytes_at(reach))
    }

    /// When the curve reaches a place; in a loop files are wanted as soon as they are free.
    pub(super) fn wanted_at(&self, place: u64, elapsed: Duration) -> Duration {
        if self.is_loop {
            return elapsed;
        }
        self.reached(place)
    }

    fn reached(&self, place: u64) -> Duration {
        self.curve
            .reached(self.offset.saturating_add(place.saturating_mul(self.size())))
    }

    /// Files that were injected, neither arrived nor are under way, and may be replaced.
    fn to_replace(&self) -> u64 {
        let injected = self.injected.saturating_mul(self.size());
        let failed = injected.saturating_sub(self.delivered.0).saturating_sub(self.queued.0) / self.size();
        failed.min(1 + self.injected / 5) // a fifth of the injected is a quarter of the asked
    }

    /// Places that need nothing more: arrived, under way, or given up. Also the next place to be injected.
    pub(super) fn covered(&self) -> u64 {
        self.injected - self.to_replace().min(self.injected) + self.given_up
    }

    /// Number of files that may be injected now. Gives up files that are too old, and records the limit that holds the others back.
    pub(super) fn allowance(&mut self, elapsed: Duration) -> u64 {
        if elapsed >= self.end {
            return 0;
        }
        if self.is_loop {
            let all = u64::from(self.rated.source_files);
            let are_free = self.queued == Bytes::ZERO && self.free_files.is_none_or(|free| free == all);
            return if are_free { all } else { 0 };
        }
        if !self.is_due(elapsed) {
            return 0;
        }
        let due = self.wanted_by(elapsed);
        let too_old = due.saturating_sub(self.covered()).saturating_sub(self.debt_files);
        self.given_up += too_old;
        self.tally.given_up += too_old;
        let wanted = due.saturating_sub(self.covered());
        let room = self.backlog_files.saturating_sub(self.queued.0.div_ceil(self.size()));
        if wanted > room {
            self.hold_back(Held::Backlog);
        }
        let free = self.free_files.unwrap_or(u64::MAX);
        if wanted.min(room) > free {
            self.hold_back(Held::Sources);
        }
        wanted.min(room).min(free)
    }

    /// Says whether files may be injected now, and takes the batch that is due where they come in batches.
    fn is_due(&mut self, elapsed: Duration) -> bool {
        self.batches.as_mut().is_none_or(|batches| batches.take(elapsed))
    }

    pub(super) fn hold_back(&mut self, held: Held) {
        self.tally.held = self.tally.held.max(Some(held));
    }

    /// When the curve reaches the next place.
    pub(super) fn next_due(&self) -> Duration {
        if self.is_loop {
            return self.end; // it is looked at once in a cycle
        }
        let next = self.reached(self.covered());
        self.batches.as_ref().map_or(next, |batches| batches.holding(next))
    }
}

/// Moments at which the files of a cycle are injected together: one in each cycle, at a place in it that is the link's own. A batch holds
/// the files that the curve reaches before the next one.
#[derive(Debug, Clone)]
struct Batches {
    cycle: Duration,
    /// From the start of the workload to its first batch but one, which is at the start itself; less than a cycle.
    phase: Duration,
    /// The next one to be taken.
    next: Duration,
}

impl Batches {
    /// `place` is the place in the cycle, in parts of 2⁶⁴.
    fn new(cycle: Duration, place: u64) -> Self {
        let nanos = (cycle.as_nanos() * u128::from(place)) >> 64;
        Self {
            cycle,
            phase: Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)),
            next: Duration::ZERO,
        }
    }

    /// The first batch after a moment.
    fn after(&self, moment: Duration) -> Duration {
        let Some(since) = moment.checked_sub(self.phase) else {
            return self.phase;
        };
        let cycles = since.as_nanos() / self.cycle.as_nanos() + 1;
        self.phase + self.cycle * u32::try_from(cycles).unwrap_or(u32::MAX)
    }

    /// The moment to which the files of the batch before or at a moment reach: the place on the curve at the next one is that one's.
    fn reach(&self, moment: Duration) -> Duration {
        self.after(moment).saturating_sub(Duration::from_nanos(1))
    }

    /// Takes the batch that is due, if there is one, with the files of missed batches.
    fn take(&mut self, now: Duration) -> bool {
        let is_due = now >= self.next;
        if is_due {
            self.next = self.after(now);
        }
        is_due
    }

    /// The batch that holds the file of a moment, if that has not been taken; else the next one.
    fn holding(&self, moment: Duration) -> Duration {
        let after = self.after(moment);
        let begin = after.checked_sub(self.cycle).unwrap_or_default();
        begin.max(self.next)
    }
}
