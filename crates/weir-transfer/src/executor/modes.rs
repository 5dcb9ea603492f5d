//! Which way to copy: learnt per pair of endpoints, and remembered as long as the process lives.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use weir_world::CopyMode;

use super::wire::Side;

/// Pairs remembered; beyond that all are forgotten, and learnt again in one transfer each.
const PAIRS_MAX: usize = 100_000;

const ALL: [CopyMode; 3] = [CopyMode::Pull, CopyMode::Push, CopyMode::Streamed];

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Modes {
    worked: Mutex<HashMap<(String, String), CopyMode>>,
}

impl Modes {
    /// The modes to try, in order, and whether this is an exploration.
    ///
    /// A forced mode stands alone. What worked last for this pair comes first. Where nothing has worked yet, each failure
    /// moves the first choice on by one: such an attempt explores, and a mode that is refused there for good says nothing
    /// about the others.
    pub(crate) fn order(
        &self,
        forced: Option<&str>,
        source: &Side,
        destination: &Side,
        failures: u8,
    ) -> (Vec<CopyMode>, bool) {
        if let Some(mode) = forced.and_then(CopyMode::parse) {
            return (vec![mode], false);
        }
        let worked = self.worked.lock().unwrap_or_else(PoisonError::into_inner);
        let mut order = ALL.to_vec();
        // Bytes pass through this service last, unless both other ways have failed before.
        let untried = ALL[usize::from(failures) % ALL.len()];
        let first = worked.get(&key(source, destination)).copied().unwrap_or(untried);
        order.sort_by_key(|candidate| *candidate != first);
        let explores = failures > 0 && !worked.contains_key(&key(source, destination));
        (order, explores)
    }

    /// This mode worked.
    pub(crate) fn remember(&self, source: &Side, destination: &Side, mode: CopyMode) {
        let mut worked = self.worked.lock().unwrap_or_else(PoisonError::into_inner);
        if worked.len() >= PAIRS_MAX {
            worked.clear();
        }
        worked.insert(key(source, destination), mode);
    }
}

fn key(source: &Side, destination: &Side) -> (String, String) {
    (source.surl.endpoint(), destination.surl.endpoint())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test may panic")]
    use weir_world::Party;

    use super::*;
    use crate::surl::Surl;
    use CopyMode::{Pull, Push, Streamed};

    fn side(party: Party, url: &str) -> Side {
        Side {
            party,
            surl: Surl::parse(url).unwrap(),
            token: None,
            right: crate::executor::Right::default(),
        }
    }

    #[test]
    fn what_worked_comes_first_and_a_forced_mode_stands_alone() {
        let modes = Modes::default();
        let (a, b) = (
            side(Party::Source, "https://a/f"),
            side(Party::Destination, "https://b/f"),
        );
        assert_eq!(modes.order(None, &a, &b, 0), (vec![Pull, Push, Streamed], false));
        assert_eq!(modes.order(None, &a, &b, 1), (vec![Push, Pull, Streamed], true));
        assert_eq!(modes.order(Some("push"), &a, &b, 1), (vec![Push], false));
        modes.remember(&a, &b, Push);
        assert_eq!(modes.order(None, &a, &b, 2), (vec![Push, Pull, Streamed], false));
        assert_eq!(modes.order(None, &b, &a, 0), (vec![Pull, Push, Streamed], false));
    }
}
