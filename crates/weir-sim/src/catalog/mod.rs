//! The catalogue of a simulated run, between the injectors that make rules and the transfer service that moves files.
//!
//! Weir's catalogue decides by [`weir_rules`], the core of the real one; beside it stands a model of Rucio's daemons.
//! Both are pure: they take events and return [`Order`]s; the run carries these out. A catalogue keeps its own agenda
//! with its own times, so that a tick of the world, within which everything else is taken together, slows no daemon
//! down.

mod agenda;
mod books;
mod rucio;
mod state;
mod weir;

use std::time::Duration;

use weir_measure::chain::Deletions;
use weir_plan::Workload;
use weir_units::Timestamp;
use weir_world::TransferId;

use crate::row::Row;
use crate::scene::Scene;
use crate::sim_plan::SimPlan;
use crate::spec::CatalogKind;
use crate::want::Want;
use agenda::Agenda;
use books::Books;
use rucio::Rucio;
use state::{CatalogState, Daemons};
use weir::Weir;

pub(crate) use books::{FileKey, Told};
pub(crate) use state::{Around, Order};

/// The catalogue; see the module.
pub(crate) struct Catalog {
    state: CatalogState,
    daemons: Box<dyn Daemons>,
    is_over: bool,
}

impl Catalog {
    /// Makes the catalogue of a plan.
    pub(crate) fn new(plan: &SimPlan, scene: &Scene, kind: CatalogKind) -> Self {
        let daemons: Box<dyn Daemons> = match kind {
            CatalogKind::Weir => Box::new(Weir::new(plan, scene)),
            CatalogKind::Rucio => Box::new(Rucio::new(&plan.sim.rucio, scene, plan.seed)),
        };
        let lifetime = |workload: &Workload| match workload {
            Workload::Rates(rates) => (rates.lifetime, rates.is_loop),
            Workload::Matrix(_) | Workload::Ramp(_) => (Duration::ZERO, false),
        };
        let lifetimes = plan.workloads.iter().map(lifetime).collect();
        Self {
            state: CatalogState {
                books: Books::new(scene, lifetimes),
                agenda: Agenda::default(),
                orders: Vec::new(),
            },
            daemons,
            is_over: false,
        }
    }

    /// Asks for a rule over these files of a link of a workload.
    pub(crate) fn ask(&mut self, now: Timestamp, ask: usize, wants: &[Want]) {
        let rule = self.state.books.add(now, ask, wants);
        self.daemons.asked(now, rule, &mut self.state);
    }

    /// The transfer service took a file of an [`Order::Submit`].
    pub(crate) fn submitted(&mut self, now: Timestamp, file: FileKey, transfer: TransferId) {
        self.state.books.submitted(now, file, transfer);
    }

    /// A transfer has ended.
    pub(crate) fn ended(&mut self, now: Timestamp, row: &Row) {
        if let Some(file) = self.state.books.ended(row) {
            self.daemons.ended(now, file, &mut self.state);
        }
    }

    /// Runs the tasks that are due.
    pub(crate) fn turn(&mut self, now: Timestamp, around: &Around<'_>) {
        if self.is_over {
            return;
        }
        while let Some((at, task)) = self.state.agenda.take(now) {
            self.daemons.turn(at, task, &mut self.state, around);
        }
    }

    /// When something is due.
    pub(crate) fn next_due(&self) -> Option<Timestamp> {
        self.state.agenda.next().filter(|_| !self.is_over)
    }

    /// Takes the orders.
    pub(crate) fn take_orders(&mut self) -> Vec<Order> {
        std::mem::take(&mut self.state.orders)
    }

    /// Takes the copies that were deleted: the link of a workload that brought each, and its bytes.
    pub(crate) fn take_freed(&mut self) -> Vec<(usize, u64)> {
        std::mem::take(&mut self.state.books.freed)
    }

    /// Takes the ends that have become known.
    pub(crate) fn take_told(&mut self) -> Told {
        std::mem::take(&mut self.state.books.told)
    }

    /// Files of a link of a workload that take part: on their way, or there and not deleted.
    pub(crate) fn in_use(&self, ask: usize) -> u64 {
        self.state.books.in_use[ask]
    }

    /// Files that have not come, and whose rules have not ended.
    pub(crate) fn n_open(&self) -> u64 {
        self.state.books.n_open
    }

    /// Ends the run: files that have not come failed of this, and nothing more is done.
    pub(crate) fn withdraw(&mut self, now: Timestamp, failure: &weir_world::Failure) {
        self.is_over = true;
        self.state.books.withdraw(now, failure);
    }

    /// The account of deletions.
    pub(crate) fn deletions(&self) -> &Deletions {
        &self.state.books.deletions
    }

    /// Files that have not come, and that the transfer service does not have.
    pub(crate) fn n_held(&self) -> u64 {
        self.state.books.n_held()
    }
}
