//! Rates on wires, read and checked.

use weir_units::BitRate;

use super::World;

impl World {
    /// The current rate on a wire: a site's connection (`"SITE in"`, `"SITE out"`), a segment by its name, or a link
    /// with a capacity of its own (`"A→B"`). `None` if there is no such wire.
    pub fn carried(&mut self, wire: &str) -> Option<BitRate> {
        let mut meters = self.wires.meters(self.now, self.scene.tick);
        let (_, resource, _) = meters.find(|(name, ..)| *name == wire)?;
        Some(BitRate::from(self.network.used(resource)))
    }

    /// Compares the rate of each wire with its capacity.
    pub(super) fn check_capacities(&mut self) {
        let meters: Vec<_> = self
            .wires
            .meters(self.now, self.scene.tick)
            .map(|(name, id, most)| (name.to_owned(), id, most))
            .collect();
        for (name, resource, most) in meters {
            let used = BitRate::from(self.network.used(resource));
            self.checks.carries(self.now, &name, used, most);
        }
    }
}
