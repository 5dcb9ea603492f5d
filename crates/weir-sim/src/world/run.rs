//! A run from the first injection to the last end.

use std::time::Duration;

use weir_measure::chain::RuleRow;
use weir_measure::chain_report::DeletionReport;
use weir_measure::report::{Audit, CrossCheck};
use weir_measure::{Measured, Signals};
use weir_plan::{FaultKind, LedgerRow, stream};
use weir_units::Timestamp;

use super::demand::Traffic;
use super::{Part, Probe, Row, World};
use crate::checks::Checks;
use crate::draw::draw;
use crate::faults::prepare::prepare;
use crate::optimum::exceeded;
use crate::policies::Policy;
use crate::scene::{Scene, Storage};
use crate::sim_plan::SimPlan;
use crate::spec::SignalsModel;

/// Longest time after the drain, and after the store's last freeze, in which withdrawn transfers may end.
const LAST_ENDS: Duration = Duration::from_secs(86_400);
/// A time that no run lasts.
const FOR_EVER: Duration = Duration::from_secs(1_000 * 366 * 86_400);

/// Receivers of a run's rows.
pub struct Listeners<'s> {
    /// Hears of every transfer that ends, in the order of ends.
    pub rows: &'s mut dyn FnMut(&Scene, &Row),
    /// Hears of every rule, when its last file has ended.
    pub rules: &'s mut dyn FnMut(&RuleRow),
    /// Hears of every row of the injectors' ledger.
    pub ledger: &'s mut dyn FnMut(&LedgerRow),
}

/// The result of a run.
#[derive(Debug)]
pub struct Outcome {
    /// The run, measured.
    pub measured: Measured,
    /// The scene it played in.
    pub scene: Scene,
    /// Counters of storage elements at which a fault is.
    pub crosschecks: Vec<CrossCheck>,
    /// The result of reading files back, where a fault makes some of them vanish, or changes them.
    pub audit: Option<Audit>,
    /// The checks of invariants.
    pub checks: Checks,
    /// The account of deletions; `None` if none was due.
    pub deletions: Option<DeletionReport>,
    /// Files that were injected.
    pub injected: u64,
    /// Files that were wanted so long before they could be injected that they were given up.
    pub given_up: u64,
    /// When the last transfer ended.
    pub ended: Timestamp,
}

/// Runs a plan under a policy.
pub fn run(plan: &SimPlan, policy: Policy, listeners: &mut Listeners<'_>) -> Outcome {
    run_observed(plan, policy, listeners, &Probe::default())
}

/// As [`run`], and publishes its activity to `probe`.
pub fn run_observed(plan: &SimPlan, policy: Policy, listeners: &mut Listeners<'_>, probe: &Probe) -> Outcome {
    let mut scene = Scene::new(plan);
    prepare(&mut scene, plan);
    let core = policy.core(plan, &scene);
    let mut world = World::new(scene, plan.seed, vec![core]);
    world.set_marker_interval(plan.sim.marker_interval);
    world.set_bin(weir_measure::Spec::of(plan).signal_bin());
    world.probe = probe.clone();
    world.command(0, weir_sched::Command::Begin);
    let scene = world.scene().clone();
    let mut traffic = Traffic::new(plan, &mut world, policy.has_targets(), &mut *listeners.ledger);
    let away = scene.service_away();
    let freezes = away.iter().filter(|away| away.length < FOR_EVER);
    let thaw = freezes.map(|freeze| Timestamp(0) + freeze.at + freeze.length).max();
    let thaw = thaw.unwrap_or_default();
    while let Some(next) = world.next_moment() {
        if traffic
            .over()
            .is_some_and(|(over, drain)| next > thaw.max(over + drain) + LAST_ENDS)
        {
            break;
        }
        world.go_to(next, &mut traffic);
        probe.reach(next);
        let direct = world.take_rows();
        let (ruled, rules) = traffic.take_told();
        ruled.iter().for_each(|row| world.account_ruled(row));
        let direct = direct.into_iter().filter(|row| !traffic.is_ruled(&scene, row));
        let rows: Vec<Row> = direct.chain(ruled).collect();
        for row in rows {
            probe.within(Part::Rows, || {
                traffic.account(&scene, &row);
                (listeners.rows)(&scene, &row);
            });
        }
        rules.iter().for_each(|rule| (listeners.rules)(rule));
        let is_over = traffic.over().is_some_and(|(over, _)| world.now() >= over);
        if is_over && world.files.len() == 0 && !traffic.is_open() {
            break;
        }
    }
    traffic.finish(world.now());
    let (left, now) = (world.files.len(), world.now());
    let (injected, given_up) = (traffic.injected(), traffic.given_up);
    world.checks.close(now, left, traffic.submitted());
    // Bounds are those of the routes without faults.
    if !plan.faults.iter().any(|fault| fault.kind == FaultKind::Reroute) {
        for text in exceeded(plan, &scene, world.checks.crossed(), now.since(Timestamp(0))) {
            world.checks.violate(now, &text);
        }
    }
    let (crosschecks, audit) = (world.crosschecks(), world.audit());
    let deletions = traffic.deletions();
    world.account();
    let account = world.book.take(&scene);
    let told = told(plan, &scene, &account.0);
    let measured = traffic.measured(now, account, told);
    Outcome {
        injected,
        given_up,
        measured,
        crosschecks,
        audit,
        scene,
        checks: world.checks,
        deletions,
        ended: now,
    }
}

/// The signals as the services of this world tell them; `None` if they tell all.
fn told(plan: &SimPlan, scene: &Scene, signals: &Signals) -> Option<Signals> {
    let model = plan.sim.signals;
    if model == SignalsModel::default() {
        return None;
    }
    let is_silent = |storage: &Storage| {
        let mut drawn = stream(plan.seed, &format!("silent {}", storage.name));
        draw(&mut drawn) < model.silent
    };
    let silent: Vec<bool> = scene.storages.iter().map(is_silent).collect();
    let mut errors = stream(plan.seed, "signals");
    let silent_link = |link: usize| scene.links.get(link).is_some_and(|link| silent[link.destination]);
    Some(signals.told(&model.telling, silent_link, || draw(&mut errors)))
}
