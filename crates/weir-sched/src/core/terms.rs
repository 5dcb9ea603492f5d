//! Terms of jobs, stored once for all transfers that share them.

use std::collections::BTreeMap;

use crate::{ActivityId, Terms};

/// Terms of a job and activity of a file, shared by many transfers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Shared {
    pub(crate) terms: Terms,
    pub(crate) activity: ActivityId,
}

/// Terms by number, reference counted: unused terms are forgotten.
#[derive(Debug, Default)]
pub(crate) struct TermsTable {
    entries: Vec<(Shared, u32)>,
    vacant: Vec<u32>,
    numbers: BTreeMap<Shared, u32>,
}

impl TermsTable {
    /// The number of these terms, held once more.
    pub(crate) fn hold(&mut self, shared: Shared) -> u32 {
        let number = *self.numbers.entry(shared).or_insert_with(|| {
            if let Some(number) = self.vacant.pop() {
                self.entries[number as usize] = (shared, 0);
                number
            } else {
                self.entries.push((shared, 0));
                (self.entries.len() - 1) as u32
            }
        });
        self.entries[number as usize].1 += 1;
        number
    }

    /// Holds these terms once less.
    pub(crate) fn release(&mut self, number: u32) {
        let (shared, holders) = &mut self.entries[number as usize];
        *holders -= 1;
        if *holders == 0 {
            self.numbers.remove(shared);
            self.vacant.push(number);
        }
    }

    pub(crate) fn get(&self, number: u32) -> &Shared {
        &self.entries[number as usize].0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Priority;

    #[test]
    fn terms_are_shared_and_forgotten() {
        let mut table = TermsTable::default();
        let ordinary = Shared::default();
        let terms = Terms {
            priority: Priority::HIGHEST,
            ..Terms::default()
        };
        let urgent = Shared {
            terms,
            activity: ActivityId(0),
        };
        let (first, second, third) = (table.hold(ordinary), table.hold(ordinary), table.hold(urgent));
        assert_eq!((first, second, third), (0, 0, 1));
        table.release(first);
        assert_eq!(table.hold(ordinary), 0);
        table.release(third);
        let other = Shared {
            activity: ActivityId(9),
            ..urgent
        };
        assert_eq!((table.hold(other), *table.get(1)), (1, other));
    }
}
