//! The policies that a plan can be run under: cores with the same words, told the same.

mod fts;
mod slots;

use std::fmt;

use weir_plan::Plan;
use weir_sched::{Config, Limits, Link, Scheduler, SeId};

use crate::scene::Scene;
use crate::world::AnyCore;

pub use fts::Optimizer;
pub use slots::{Slots, SlotsConfig};

/// Who decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Policy {
    /// Weir's scheduler, told what FTS is told.
    Weir,
    /// Weir's scheduler, told also what is asked of each link.
    WeirTargets,
    /// The imitation of FTS 3.14.
    Fts,
    /// A fixed number of transfers per link, first come, first served.
    Fixed,
}

impl Policy {
    /// Every policy, in the order of a comparison.
    pub const ALL: [Policy; 4] = [Policy::Weir, Policy::WeirTargets, Policy::Fts, Policy::Fixed];

    /// The word on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Policy::Weir => "weir",
            Policy::WeirTargets => "weir-targets",
            Policy::Fts => "fts",
            Policy::Fixed => "fixed",
        }
    }

    /// Makes the core.
    pub fn core(self, plan: &Plan, scene: &Scene) -> AnyCore {
        match self {
            Policy::Weir | Policy::WeirTargets => Box::new(weir(plan, scene)),
            Policy::Fts => Box::new(Slots::new(slots::fts_config(plan, scene))),
            Policy::Fixed => Box::new(Slots::new(slots::fixed_config(plan, scene))),
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

fn weir(plan: &Plan, scene: &Scene) -> Scheduler {
    let grid = &plan.grid.transfer;
    let mut limits = Limits {
        link: grid.max_active_per_link,
        inbound: grid.max_active_per_rse_in,
        outbound: grid.max_active_per_rse_out,
        ..Limits::default()
    };
    for link in &scene.links {
        let ends = Link {
            source: SeId(link.source as u32),
            destination: SeId(link.destination as u32),
        };
        limits.links.extend(link.max_active.map(|most| (ends, most)));
    }
    for (storage, at) in scene.storages.iter().zip(0..) {
        limits
            .inbounds
            .extend(storage.model.max_active_in.map(|most| (SeId(at), most)));
        limits
            .outbounds
            .extend(storage.model.max_active_out.map(|most| (SeId(at), most)));
    }
    Scheduler::new(Config {
        limits,
        ..Config::default()
    })
}
