//! The policies that a plan can be run under: cores with the same words, told the same.

mod fts;
mod limits;
mod slots;

use std::fmt;

use weir_plan::FaultKind;
use weir_sched::{
    ActivityId, Command, Config, Direction, Event, GroupId, Link, LinkWaits, Op, Record, Resource, Scheduler, SeId,
    Settings, VoId,
};
use weir_units::Timestamp;
use weir_world::Core;

use crate::scene::{LinkScene, Scene};
use crate::sim_plan::SimPlan;
use crate::terms;

pub use fts::Optimizer;
pub(crate) use limits::imitation_limits;
pub use slots::{Slots, SlotsConfig};

/// Weir's default share.
const SHARE: f64 = 100.0;

/// A core that speaks the transfer service's words.
pub trait PolicyCore: Core<Command = Command, Record = Record, Op = Op, Event = Event> {
    /// Its account of the waits in its queue up to a moment; `None` if it keeps none.
    fn waits(&self, _now: Timestamp) -> Option<Vec<LinkWaits>> {
        None
    }
}

impl PolicyCore for Scheduler {
    fn waits(&self, now: Timestamp) -> Option<Vec<LinkWaits>> {
        Some(Scheduler::waits(self, now).collect())
    }
}

impl PolicyCore for Slots {}

/// Any core that speaks the transfer service's words.
pub type AnyCore = Box<dyn PolicyCore>;

/// A scheduler under comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Policy {
    /// Weir's scheduler, with the same information as FTS.
    Weir,
    /// Weir's scheduler, which also knows the rate asked of each link.
    WeirTargets,
    /// An imitation of FTS 3.14, made after its source: FTS itself does not run.
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
            Policy::Fts => "fts-imitation",
            Policy::Fixed => "fixed",
        }
    }

    /// Whether the policy knows the rate asked of each link.
    pub fn has_targets(self) -> bool {
        self == Policy::WeirTargets
    }

    /// Makes the core.
    pub fn core(self, plan: &SimPlan, scene: &Scene) -> AnyCore {
        match self {
            // A fault: no policy of its own, whatever the service is.
            _ if plan.faults.iter().any(|fault| fault.kind == FaultKind::Fifo) => {
                Box::new(Slots::new(slots::fixed_config(plan, scene, u32::MAX)))
            }
            Policy::Weir | Policy::WeirTargets => Box::new(weir(plan, scene)),
            Policy::Fts => Box::new(Slots::new(slots::fts_config(plan, scene))),
            Policy::Fixed => Box::new(Slots::new(slots::fixed_config(plan, scene, plan.sim.fixed_active))),
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The limits that every policy is told.
fn weir(plan: &SimPlan, scene: &Scene) -> Scheduler {
    let grid = &plan.grid.transfer;
    let mut settings = Settings {
        link: grid.max_active_per_link,
        inbound: grid.max_active_per_rse_in,
        outbound: grid.max_active_per_rse_out,
        ..Settings::default()
    };
    for link in &scene.links {
        let resource = Resource::Link(ends(link));
        settings.slots.insert(resource, link.max_active);
    }
    for (storage, at) in scene.storages.iter().zip(0..) {
        let (model, [inbound, outbound]) = (
            &storage.model,
            [Resource::Inbound(SeId(at)), Resource::Outbound(SeId(at))],
        );
        settings.slots.insert(inbound, storage.max_active[0]);
        settings.slots.insert(outbound, storage.max_active[1]);
        settings.rates.extend(model.max_rate_in.map(|most| (inbound, most)));
        settings.rates.extend(model.max_rate_out.map(|most| (outbound, most)));
    }
    tell_groups(&mut settings, scene);
    for workload in &plan.workloads {
        let share = (plan.sim.activity(workload.activity()).share * SHARE).round() as u32;
        let activity = ActivityId(terms::activity(plan, workload.activity()));
        settings.activity_shares.insert((VoId(0), activity), share);
    }
    Scheduler::new(Config {
        settings,
        ..Config::default()
    })
}

/// Limits of resources that storage elements share: the members in each direction, and the limits.
fn tell_groups(settings: &mut Settings, scene: &Scene) {
    for (group, at) in scene.groups.iter().zip(0..) {
        let resource = Resource::Group(GroupId(at));
        for (passes, se) in group.members.iter().zip(0..) {
            for (direction, passes) in [Direction::In, Direction::Out].into_iter().zip(*passes) {
                if passes {
                    let groups = settings.members.entry((SeId(se), direction)).or_default();
                    groups.insert(GroupId(at));
                }
            }
        }
        settings.slots.extend(group.max_active.map(|most| (resource, most)));
        settings.rates.extend(group.max_rate.map(|most| (resource, most)));
    }
}

/// A link in the words of the cores.
pub(crate) fn ends(link: &LinkScene) -> Link {
    Link {
        source: SeId(link.source as u32),
        destination: SeId(link.destination as u32),
    }
}
