//! The catalogue of a run: carries out its orders, and passes events to it.

use std::collections::BTreeMap;

use weir_measure::chain::RuleRow;
use weir_measure::chain_report::DeletionReport;
use weir_plan::Inject;
use weir_sched::Terms;
use weir_units::Timestamp;
use weir_world::Failure;

use super::events::Event;
use super::{Row, Want, World};
use crate::catalog::{Around, Catalog, Order, Told};
use crate::sim_plan::SimPlan;
use crate::spec::Interval;
use crate::terms;

/// The catalogue between the injectors and the transfer service.
pub(super) struct Chain {
    catalog: Catalog,
    /// The terms of the jobs of each workload that makes rules.
    jobs: BTreeMap<usize, (Terms, u32)>,
    /// Times in which the transfer service does not answer: those in which its store is frozen.
    away: Vec<Interval>,
    /// The next moment for which an event is there.
    wake: Option<Timestamp>,
    n_submitted: u64,
    /// Jobs that a fault holds back, by the time at which they may go, and when the last of them may.
    late: BTreeMap<(Timestamp, u64), Order>,
    free: Timestamp,
    n_late: u64,
}

impl Chain {
    /// Makes the one of a plan; `None` if no workload makes rules.
    pub(super) fn new(plan: &SimPlan, world: &World) -> Option<Self> {
        if !plan.makes_rules() {
            return None;
        }
        let rules = plan.rates().filter(|(_, rates)| rates.inject == Inject::Rules);
        let jobs = rules.map(|(workload, rates)| {
            let job = (
                terms::terms(plan, &rates.activity),
                terms::activity(plan, &rates.activity),
            );
            (workload, job)
        });
        Some(Self {
            catalog: Catalog::new(plan, world.scene(), plan.sim.catalog),
            jobs: jobs.collect(),
            away: world.scene().service_away(),
            wake: None,
            n_submitted: 0,
            late: BTreeMap::new(),
            free: Timestamp(0),
            n_late: 0,
        })
    }

    /// Whether a workload makes rules.
    pub(super) fn has(&self, workload: usize) -> bool {
        self.jobs.contains_key(&workload)
    }

    /// Asks for a rule.
    pub(super) fn ask(&mut self, world: &mut World, ask: usize, wants: &[Want]) {
        let link = world.scene().asks[ask].link;
        world.book.in_catalogue(link, wants.len() as i64, world.now);
        self.catalog.ask(world.now, ask, wants);
        self.turn(world);
    }

    /// A transfer has ended.
    pub(super) fn ended(&mut self, world: &mut World, row: &Row) {
        let link = world.scene().asks[row.ask].link;
        world.book.in_catalogue(link, 1, world.now);
        self.catalog.ended(world.now, row);
        self.turn(world);
    }

    /// Runs the tasks that are due, and schedules the next ones.
    pub(super) fn turn(&mut self, world: &mut World) {
        if world.breaking.conditions.no_catalog {
            return; // it is woken when it is back
        }
        let away = &self.away;
        self.catalog.turn(
            world.now,
            &Around {
                delete_time: &|storage| world.delete_time(storage),
                away,
                deletion_delay: world.breaking.conditions.deletion,
            },
        );
        for (ask, bytes) in self.catalog.take_freed() {
            let link = world.scene().asks[ask].link;
            world.free_bytes(world.scene().links[link].destination, bytes);
        }
        for order in self.catalog.take_orders() {
            self.hold_back(world, order);
        }
        while let Some(first) = self.late.first_entry().filter(|first| first.key().0 <= world.now) {
            let order = first.remove();
            self.carry_out(world, order);
        }
        if self.wake.is_some_and(|wake| wake <= world.now) {
            self.wake = None;
        }
        if let Some(due) = self.catalog.next_due()
            && self.wake.is_none_or(|wake| due < wake)
        {
            self.wake = Some(due);
            world.events.add(due, Event::Catalog);
        }
    }

    /// Carries an order out, at once or as late as a fault says.
    fn hold_back(&mut self, world: &mut World, order: Order) {
        let now = &world.breaking.conditions;
        let files = match &order {
            Order::Submit { files, .. } => files.len() as u32,
            Order::Cancel(_) => 0,
        };
        if files == 0 || now.submission.is_zero() && now.per_request.is_zero() {
            return self.carry_out(world, order);
        }
        self.free = self.free.max(world.now) + now.per_request * files;
        let at = self.free + now.submission;
        self.n_late += 1;
        self.late.insert((at, self.n_late), order);
        world.events.add(at, Event::Catalog);
    }

    fn carry_out(&mut self, world: &mut World, order: Order) {
        match order {
            Order::Cancel(transfers) => world.cancel(&transfers),
            Order::Submit { ask, files, wants } => {
                let (link, workload) = (world.scene().asks[ask].link, world.scene().asks[ask].workload);
                let (terms, activity) = self.jobs[&workload];
                world.book.in_catalogue(link, -(wants.len() as i64), world.now);
                let ids = world.submit(0, ask, terms, activity, &wants);
                self.n_submitted += ids.len() as u64;
                for (file, id) in files.into_iter().zip(ids) {
                    self.catalog.submitted(world.now, file, id);
                }
            }
        }
    }

    /// Files that were submitted to the transfer service, again and again if need be.
    pub(super) fn n_submitted(&self) -> u64 {
        self.n_submitted
    }

    /// Files that have not come, and whose rules have not ended.
    pub(super) fn n_open(&self) -> u64 {
        self.catalog.n_open()
    }

    /// Files of which the transfer service knows nothing yet, or nothing any more.
    pub(super) fn n_held(&self) -> u64 {
        self.catalog.n_held()
    }

    /// Files of a link of a workload that take part.
    pub(super) fn in_use(&self, ask: usize) -> u64 {
        self.catalog.in_use(ask)
    }

    /// The drain is over.
    pub(super) fn withdraw(&mut self, now: Timestamp, failure: &Failure) {
        self.catalog.withdraw(now, failure);
    }

    /// Takes the ends that have become known: files, and rules.
    pub(super) fn take_told(&mut self) -> (Vec<Row>, Vec<RuleRow>) {
        let Told { rows, rules } = self.catalog.take_told();
        (rows, rules)
    }

    /// The account of deletions; `None` if none was due.
    pub(super) fn deletions(&self) -> Option<DeletionReport> {
        self.catalog.deletions().report()
    }
}
