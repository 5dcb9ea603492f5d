//! Routes by number.

use std::collections::BTreeMap;

use weir_world::TransferId;

use crate::RouteKind;
use crate::policy::list::{List, NIL};

/// One route, as long as something of it is left.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group {
    pub(super) kind: RouteKind,
    /// In the order of the job.
    pub(super) held: List,
    /// How many are not held: one, but for moments in between.
    pub(super) live: u32,
}

/// Routes by number.
#[derive(Debug, Default)]
pub(super) struct Routes {
    pub(super) groups: Vec<Group>,
    pub(super) vacant: Vec<u32>,
    /// Routes that were restored, by their first transfer: all of them until restoring is over, then the newest, as transfers of a job
    /// come together.
    pub(super) named: BTreeMap<TransferId, u32>,
}

impl Routes {
    pub(super) fn insert(&mut self, kind: RouteKind) -> u32 {
        let group = Group {
            kind,
            held: List::default(),
            live: 0,
        };
        if let Some(number) = self.vacant.pop() {
            self.groups[number as usize] = group;
            return number;
        }
        self.groups.push(group);
        (self.groups.len() - 1) as u32
    }

    pub(super) fn get(&self, number: u32) -> Option<&Group> {
        (number != NIL).then(|| &self.groups[number as usize])
    }
}
