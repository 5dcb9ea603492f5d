//! Bytes that storage elements have, say that they have, and lose.

use std::collections::{BTreeMap, BTreeSet};

use weir_measure::crosscheck::{Counted, TOLERANCE, check};
use weir_measure::report::{Audit, CrossCheck};
use weir_plan::fault::FaultKind;
use weir_units::Timestamp;

use super::World;
use super::attempt_state::Attempt;
use super::events::Event;
use crate::draw;
use crate::faults::scene_fault::SceneFault;

impl World {
    /// Bytes have crossed a link, as the destination counts them.
    pub(super) fn count(&mut self, link: usize, bytes: u64) {
        let destination = self.scene.links[link].destination;
        let how = self.scene.storages[destination].broken.counts;
        self.breaking.counters[destination].add(bytes, how, self.now);
    }

    /// Compares the counters of storage elements at which a fault is, with the bytes that have come.
    pub(super) fn crosschecks(&self) -> Vec<CrossCheck> {
        let of_counters = |on: &&SceneFault| {
            matches!(
                on.fault.kind,
                FaultKind::WrongCounters | FaultKind::MissingCounters | FaultKind::LateCounters
            )
        };
        let suspects: BTreeSet<usize> = self
            .scene
            .faults
            .iter()
            .filter(of_counters)
            .flat_map(|on| on.storages.clone())
            .collect();
        let compare = |at: usize| {
            let said = self.breaking.counters[at].read(self.now);
            let counted = Counted {
                subject: self.scene.storages[at].name.clone(),
                quantity: "bytes received".to_owned(),
                transfer_service: Some(self.checks.received()[at]),
                receiving_storage: said.clone().ok(),
                lapsed: said.is_err(),
                note: said.err(),
                ..Counted::default()
            };
            check(counted, TOLERANCE)
        };
        suspects.into_iter().map(compare).collect()
    }

    /// The result of reading all delivered files back, where a fault makes some of them vanish, or changes them.
    pub(super) fn audit(&self) -> Option<Audit> {
        let spoils = |on: &SceneFault| matches!(on.fault.kind, FaultKind::Vanish | FaultKind::Corrupt);
        let (files, bytes) = self.checks.finished();
        self.scene.faults.iter().any(spoils).then(|| Audit {
            asked_percent: 100.0,
            files,
            failed: self.breaking.spoilt.iter().sum(),
            failed_at: self.spoilt_at(),
            bytes,
            samples: Vec::new(),
        })
    }

    /// A file has come: it may be gone a moment later, or have other bytes.
    pub(super) fn spoil(&mut self, link: usize) {
        let destination = self.scene.links[link].destination;
        let broken = &self.scene.storages[destination].broken;
        let share = 1.0 - (1.0 - broken.vanish) * (1.0 - broken.corrupt);
        if share > 0.0 && draw::draw(&mut self.random[link]) < share {
            self.breaking.spoilt[destination] += 1;
        }
    }

    fn spoilt_at(&self) -> BTreeMap<String, u64> {
        let names = self.scene.storages.iter().map(|storage| storage.name.clone());
        let all = names.zip(self.breaking.spoilt.iter().copied());
        all.filter(|(_, files)| *files > 0).collect()
    }

    /// Takes room at a storage element with a quota; says whether there was any.
    pub(super) fn store_bytes(&mut self, storage: usize, bytes: u64) -> bool {
        let quota = self.scene.storages[storage].broken.quota.unwrap_or(u64::MAX);
        let stored = &mut self.breaking.stored[storage];
        if stored.saturating_add(bytes) > quota {
            return false;
        }
        *stored += bytes;
        true
    }

    /// Gives room back.
    pub(crate) fn free_bytes(&mut self, storage: usize, bytes: u64) {
        let stored = &mut self.breaking.stored[storage];
        *stored = stored.saturating_sub(bytes);
    }

    /// The bytes that an attempt has stored stay until they are deleted, or go at once if it failed.
    pub(super) fn keep_or_free(&mut self, attempt: &Attempt, is_done: bool, at: Timestamp) {
        if attempt.stored == 0 || self.breaking.base.is_none() {
            return;
        }
        let destination = self.scene.links[attempt.link as usize].destination;
        let lifetime = self
            .files
            .get(attempt.file)
            .map(|file| self.scene.asks[file.ask as usize].lifetime);
        match lifetime {
            _ if !is_done => self.free_bytes(destination, attempt.stored),
            Some(Some(lifetime)) => {
                let deletion = self.scene.storages[destination].broken.deletion;
                self.events.add(
                    at + lifetime + deletion,
                    Event::Freed(destination as u32, attempt.stored),
                );
            }
            _ => {} // the catalogue deletes it
        }
    }
}
