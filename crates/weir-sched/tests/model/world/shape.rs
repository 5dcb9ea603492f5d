//! How large a world is.

use proptest::prelude::{Just, Strategy, prop_oneof};
use weir_sched::Settings;

/// Slots of everything that is not limited otherwise.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(super) starts_per_step: usize,
    pub(super) link: u32,
    inbound: u32,
    outbound: u32,
}

impl Shape {
    pub(crate) fn usual(starts_per_step: usize) -> Self {
        Self {
            starts_per_step,
            link: 2,
            inbound: 3,
            outbound: 3,
        }
    }

    pub(super) fn settings(self) -> Settings {
        Settings {
            link: self.link,
            inbound: self.inbound,
            outbound: self.outbound,
            staging: 3,
            ..Settings::default()
        }
    }
}

pub(crate) fn shape() -> impl Strategy<Value = Shape> {
    let few = || prop_oneof![3 => Just(1u32), 1 => Just(2), 1 => Just(3)];
    let starts = prop_oneof![1..5usize, Just(1000)];
    (starts, prop_oneof![1..4u32, Just(100)], few(), few()).prop_map(|(starts_per_step, link, inbound, outbound)| {
        Shape {
            starts_per_step,
            link,
            inbound,
            outbound,
        }
    })
}
