//! How long something in the database has stood still, by this process's own clock.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use uuid::Uuid;

/// The last observed value, and the time since which it has not changed.
#[derive(Debug, Default)]
pub(super) struct Watch(Mutex<Option<(String, Instant)>>);

impl Watch {
    /// The time for which the value has not changed. A pause between two observations does no harm: a living node never
    /// returns to an earlier value.
    pub(super) fn stood_for(&self, now: &str) -> Duration {
        let mut seen = self.0.lock();
        match seen.as_ref() {
            Some((text, since)) if text == now => since.elapsed(),
            _ => {
                *seen = Some((now.to_owned(), Instant::now()));
                Duration::ZERO
            }
        }
    }
}

/// The same of each node.
#[derive(Debug, Default)]
pub(super) struct NodeWatch(Mutex<HashMap<Uuid, Watch>>);

impl NodeWatch {
    /// Looks at all nodes that there are, and how long each has stood still.
    pub(super) fn stood_for(&self, now: &[(Uuid, &str)]) -> Vec<Duration> {
        let mut seen = self.0.lock();
        seen.retain(|node, _| now.iter().any(|(known, _)| known == node));
        now.iter()
            .map(|(node, at)| seen.entry(*node).or_default().stood_for(at))
            .collect()
    }
}
