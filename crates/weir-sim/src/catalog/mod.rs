//! The catalogue of a simulated run: what stands between injectors that ask for rules and the transfer service that moves files.
//!
//! Weir's catalogue decides by [`weir_rules`], the core of the real one; beside it stands a model of Rucio's daemons. Both are pure: they are told
//! what happens, and give [`Order`]s; the run carries these out. A catalogue keeps its own agenda with its own times, so that a tick of the world,
//! within which everything else is taken together, slows no daemon down.

mod agenda;
mod books;
mod desk;
mod rucio;
mod weir;

use std::time::Duration;

use weir_measure::chain::Deletions;
use weir_units::Timestamp;
use weir_world::TransferId;

use crate::row::Row;
use crate::scene::Scene;
use crate::spec::{CatalogKind, SimPlan};
use crate::want::Want;
use agenda::Agenda;
use books::Books;
use desk::{Daemons, Desk};
use rucio::Rucio;
use weir::Weir;

pub(crate) use books::{FileKey, Told};
pub(crate) use desk::{Around, Order};

/// The catalogue; see the module.
pub(crate) struct Catalog {
    books: Books,
    daemons: Box<dyn Daemons>,
    agenda: Agenda,
    orders: Vec<Order>,
    is_over: bool,
}

impl Catalog {
    /// Makes the catalogue of a plan.
    pub(crate) fn new(plan: &SimPlan, scene: &Scene, kind: CatalogKind) -> Self {
        let daemons: Box<dyn Daemons> = match kind {
            CatalogKind::Weir => Box::new(Weir::new(plan, scene)),
            CatalogKind::Rucio => Box::new(Rucio::new(&plan.sim.rucio, scene, plan.seed)),
        };
        let mut catalog = Self {
            books: Books::new(scene),
            daemons,
            agenda: Agenda::default(),
            orders: Vec::new(),
            is_over: false,
        };
        catalog.books.lifetimes = plan
            .workloads
            .iter()
            .map(|workload| match workload {
                weir_plan::Workload::Rates(rates) => (rates.lifetime, rates.is_loop),
                weir_plan::Workload::Matrix(_) | weir_plan::Workload::Ramp(_) => (Duration::ZERO, false),
            })
            .collect();
        catalog
    }

    /// Asks for a rule over these files of a link of a workload.
    pub(crate) fn ask(&mut self, now: Timestamp, ask: usize, wants: &[Want]) {
        let rule = self.books.add(now, ask, wants);
        let Self {
            books,
            daemons,
            agenda,
            orders,
            ..
        } = self;
        daemons.asked(now, rule, &mut Desk { books, agenda, orders });
    }

    /// The transfer service took a file of an [`Order::Submit`].
    pub(crate) fn submitted(&mut self, now: Timestamp, file: FileKey, transfer: TransferId) {
        self.books.submitted(now, file, transfer);
    }

    /// A transfer has ended.
    pub(crate) fn ended(&mut self, now: Timestamp, row: &Row) {
        let Some(file) = self.books.ended(row) else { return };
        let Self {
            books,
            daemons,
            agenda,
            orders,
            ..
        } = self;
        daemons.ended(now, file, &mut Desk { books, agenda, orders });
    }

    /// Does what is due.
    pub(crate) fn turn(&mut self, now: Timestamp, around: &Around<'_>) {
        if self.is_over {
            return;
        }
        let Self {
            books,
            daemons,
            agenda,
            orders,
            ..
        } = self;
        while let Some((at, task)) = agenda.take(now) {
            daemons.turn(
                at,
                task,
                &mut Desk {
                    books: &mut *books,
                    agenda: &mut *agenda,
                    orders: &mut *orders,
                },
                around,
            );
        }
    }

    /// When something is due.
    pub(crate) fn next_due(&self) -> Option<Timestamp> {
        self.agenda.next().filter(|_| !self.is_over)
    }

    /// Takes the orders.
    pub(crate) fn take_orders(&mut self) -> Vec<Order> {
        std::mem::take(&mut self.orders)
    }

    /// Takes what has become known.
    pub(crate) fn take_told(&mut self) -> Told {
        std::mem::take(&mut self.books.told)
    }

    /// Files of a link of a workload that take part: on their way, or there and not deleted.
    pub(crate) fn in_use(&self, ask: usize) -> u64 {
        self.books.in_use[ask]
    }

    /// Files that have not come, and whose rules have not ended.
    pub(crate) fn n_open(&self) -> u64 {
        self.books.n_open
    }

    /// The run is over: what has not come failed of this, and nothing more is done.
    pub(crate) fn withdraw(&mut self, now: Timestamp, failure: &weir_world::Failure) {
        self.is_over = true;
        self.books.withdraw(now, failure);
    }

    /// What became of deletions.
    pub(crate) fn deletions(&self) -> &Deletions {
        &self.books.deletions
    }

    /// Files that have not come, and that the transfer service does not have.
    pub(crate) fn n_held(&self) -> u64 {
        self.books.n_held()
    }
}
