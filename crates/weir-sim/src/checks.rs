//! Watches a world from outside: bytes are conserved, no capacity and no limit is exceeded, nothing is lost or done
//! twice, everything ends.
//!
//! It counts by itself, and believes neither the core nor the world's own books.

use weir_sched::Settled;
use weir_units::{BitRate, Timestamp};
use weir_world::Seq;

use crate::row::Row;
use crate::scene::Scene;

/// Violations that are told in full.
const TOLD: usize = 20;

/// The counters of the checks; see the module.
#[derive(Debug, Default)]
pub struct Checks {
    violations: Vec<String>,
    n_violations: u64,
    /// Bytes that left and reached each storage element.
    sent: Vec<u64>,
    received: Vec<u64>,
    /// Bytes that crossed each link.
    crossed: Vec<u64>,
    /// Bytes that attempts say they have moved.
    by_attempts: u64,
    /// Attempts at each link, into and out of each storage element, through each group, and the most that is allowed.
    links: Vec<(u32, u32)>,
    inbound: Vec<(u32, u32)>,
    outbound: Vec<(u32, u32)>,
    groups: Vec<(u32, u32)>,
    n_jobs: u64,
    n_refused: u64,
    n_settled: [u64; 3],
    finished_bytes: u64,
}

impl Checks {
    pub(crate) fn new(scene: &Scene) -> Self {
        Self {
            sent: vec![0; scene.storages.len()],
            received: vec![0; scene.storages.len()],
            crossed: vec![0; scene.links.len()],
            links: scene.links.iter().map(|link| (0, link.max_active)).collect(),
            groups: scene
                .groups
                .iter()
                .map(|group| (0, group.max_active.unwrap_or(u32::MAX)))
                .collect(),
            inbound: scene
                .storages
                .iter()
                .map(|storage| (0, storage.max_active[0]))
                .collect(),
            outbound: scene
                .storages
                .iter()
                .map(|storage| (0, storage.max_active[1]))
                .collect(),
            ..Self::default()
        }
    }

    /// Violated invariants, the first few in full; empty in a sound run.
    pub fn violations(&self) -> &[String] {
        &self.violations
    }

    /// Bytes that each storage element received, in the order of the scene.
    pub fn received(&self) -> &[u64] {
        &self.received
    }

    /// Bytes that each storage element sent, in the order of the scene.
    pub fn sent(&self) -> &[u64] {
        &self.sent
    }

    /// Files that finished, and their bytes.
    pub(crate) fn finished(&self) -> (u64, u64) {
        (self.n_settled[Settled::Finished as usize], self.finished_bytes)
    }

    /// Bytes that crossed each link, in the order of the scene.
    pub(crate) fn crossed(&self) -> &[u64] {
        &self.crossed
    }

    /// Bytes that attempts say they have moved.
    pub fn by_attempts(&self) -> u64 {
        self.by_attempts
    }

    /// Jobs that cores took, and refused.
    pub fn jobs(&self) -> (u64, u64) {
        (self.n_jobs, self.n_refused)
    }

    pub(crate) fn violate(&mut self, now: Timestamp, text: &str) {
        self.n_violations += 1;
        if self.violations.len() < TOLD {
            self.violations.push(format!("{:.3} s: {text}", now.as_secs_f64()));
        }
    }

    pub(crate) fn persisted(&mut self, follows: bool, seq: Seq) {
        if !follows {
            self.violate(Timestamp(0), &format!("record {seq} does not follow the one before"));
        }
    }

    pub(crate) fn submitted(&mut self) {
        self.n_jobs += 1;
    }

    pub(crate) fn refused(&mut self, _which: &str) {
        self.n_refused += 1;
    }

    pub(crate) fn began(&mut self, now: Timestamp, scene: &Scene, link: usize) {
        let ends = &scene.links[link];
        let counts = [
            (&mut self.links[link], "link"),
            (&mut self.outbound[ends.source], "source"),
            (&mut self.inbound[ends.destination], "destination"),
        ];
        let mut beyond = None;
        for (count, what) in counts {
            count.0 += 1;
            if count.0 > count.1 {
                beyond = Some(format!(
                    "{} of {} runs {} transfers of {}",
                    what, ends.link, count.0, count.1
                ));
            }
        }
        for group in &ends.groups {
            let count = &mut self.groups[*group];
            count.0 += 1;
            if count.0 > count.1 {
                let name = &scene.groups[*group].name;
                beyond = Some(format!("group {name} runs {} transfers of {}", count.0, count.1));
            }
        }
        if let Some(text) = beyond {
            self.violate(now, &text);
        }
    }

    pub(crate) fn ended(&mut self, scene: &Scene, link: usize, moved: u64) {
        let ends = &scene.links[link];
        self.by_attempts += moved;
        self.links[link].0 -= 1;
        self.outbound[ends.source].0 -= 1;
        self.inbound[ends.destination].0 -= 1;
        ends.groups.iter().for_each(|group| self.groups[*group].0 -= 1);
    }

    pub(crate) fn moved(&mut self, scene: &Scene, link: usize, bytes: u64) {
        self.crossed[link] += bytes;
        self.sent[scene.links[link].source] += bytes;
        self.received[scene.links[link].destination] += bytes;
    }

    pub(crate) fn settled(&mut self, row: &Row) {
        self.n_settled[row.state as usize] += 1;
        if row.state == Settled::Finished {
            self.finished_bytes += row.size;
        }
    }

    pub(crate) fn carries(&mut self, now: Timestamp, name: &str, used: BitRate, most: BitRate) {
        // The network computes in floating point: a millionth is rounding.
        if used.0 > most.0 + most.0 / 1_000_000 + 1 {
            self.violate(now, &format!("{name} carries {used} of {most}"));
        }
    }

    /// Compares the counters at the end of a run: `left` files have not ended.
    pub(crate) fn close(&mut self, now: Timestamp, left: usize, injected: u64) {
        if left > 0 {
            self.violate(now, &format!("{left} transfers never ended"));
        }
        let settled: u64 = self.n_settled.iter().sum();
        if settled + left as u64 != injected {
            self.violate(now, &format!("{injected} transfers were submitted, {settled} ended"));
        }
        let (sent, received): (u64, u64) = (self.sent.iter().sum(), self.received.iter().sum());
        if sent != received || sent != self.by_attempts {
            let text = format!(
                "{sent} B left, {received} B arrived, attempts moved {} B",
                self.by_attempts
            );
            self.violate(now, &text);
        }
        if self.finished_bytes > received {
            self.violate(
                now,
                &format!("{} B are finished, {received} B arrived", self.finished_bytes),
            );
        }
    }
}
