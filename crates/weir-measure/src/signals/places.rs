//! Places by number: a run names few of them many times.

use std::collections::BTreeMap;

use weir_world::Place;

/// See the module.
#[derive(Debug, Clone, Default)]
pub(super) struct Places {
    all: Vec<Place>,
    numbers: BTreeMap<Place, u32>,
}

impl Places {
    /// The number of a place, which is noted if it is new.
    pub(super) fn number(&mut self, place: &Place) -> u32 {
        if let Some(number) = self.numbers.get(place) {
            return *number;
        }
        let number = u32::try_from(self.all.len()).expect("fewer than four billion places");
        self.all.push(place.clone());
        self.numbers.insert(place.clone(), number);
        number
    }

    /// The place of a number.
    pub(super) fn get(&self, number: u32) -> &Place {
        &self.all[number as usize]
    }
}
