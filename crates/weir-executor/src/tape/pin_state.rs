//! The pins of transfers, and the transfers that share each.

use std::collections::{HashMap, HashSet, hash_map::Entry};

use parking_lot::Mutex;
use tokio::sync::mpsc;

use super::path_of;
use crate::orders::Pin;

/// A file at an endpoint.
pub(super) type PinPlace = (String, String);

/// The pins of transfers.
#[derive(Debug, Default)]
pub(super) struct Pins {
    held: Mutex<HeldPin>,
    /// Where ends are told, while this node schedules.
    ended: Mutex<Option<mpsc::UnboundedSender<u64>>>,
}

#[derive(Debug, Default)]
pub(super) struct HeldPin {
    files: HashMap<u64, PinPlace>,
    pub(super) places: HashMap<PinPlace, Holders>,
    /// Transfers that ended while the pins of an earlier life are being read: that list may still count them as live.
    early: Option<HashSet<u64>>,
}

/// Transfers of one file. Each may have its own request, and storages differ in which pin a release affects.
#[derive(Debug, Default)]
pub(super) struct Holders {
    n_left: usize,
    /// Ended transfers: their pins are released with the last one's.
    over: Vec<u64>,
}

impl Pins {
    pub(super) fn lock(&self) -> parking_lot::MutexGuard<'_, HeldPin> {
        self.held.lock()
    }

    /// A transfer has a pin.
    pub(super) fn took(&self, file: u64, endpoint: String, path: String) {
        let (mut held, place) = (self.lock(), (endpoint, path));
        if held.files.insert(file, place.clone()).is_none() {
            held.places.entry(place).or_default().n_left += 1;
        }
    }

    /// Sends ends of transfers from now on; for those of an earlier life, once their pins are
    /// [`recalled`](Self::recalled).
    pub(super) fn tell(&self, ended: mpsc::UnboundedSender<u64>) {
        self.lock().early = Some(HashSet::new());
        *self.ended.lock() = Some(ended);
    }

    /// A transfer has ended.
    pub(super) fn settled(&self, file: u64) {
        let mut held = self.lock();
        if let Some(early) = &mut held.early {
            early.insert(file);
        }
        let is_held = held.files.contains_key(&file);
        drop(held);
        if is_held {
            self.once_more(file);
        }
    }

    /// Takes the pins of an earlier life, read at some time after [`Self::tell`].
    pub(super) fn recalled(&self, left: &[Pin]) {
        for pin in left {
            self.took(pin.file, pin.source.endpoint(), path_of(&pin.source));
        }
        let early = self.lock().early.take().unwrap_or_default();
        let over = left.iter().filter(|pin| pin.over || early.contains(&pin.file));
        over.for_each(|pin| self.settled(pin.file));
    }

    /// As [`Self::settled`], for a transfer that has let go already.
    pub(super) fn once_more(&self, file: u64) {
        let ended = self.ended.lock();
        if let Some(ended) = ended.as_ref() {
            // The receiver is gone only when the service stops; the next life finds the pin in the store.
            let _ = ended.send(file);
        }
    }

    /// Removes a transfer from its pin; returns the transfers whose pins are to be released now: none while another one
    /// needs the file.
    pub(super) fn leave(&self, file: u64) -> Vec<u64> {
        let mut held = self.lock();
        let Some(place) = held.files.remove(&file) else {
            return vec![file];
        };
        let Entry::Occupied(mut holders) = held.places.entry(place) else {
            return vec![file];
        };
        holders.get_mut().over.push(file);
        holders.get_mut().n_left -= 1;
        if holders.get().n_left > 0 {
            return Vec::new();
        }
        holders.remove().over
    }
}
