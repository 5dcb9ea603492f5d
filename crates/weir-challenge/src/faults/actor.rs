//! Makes faults come and go while a run is under way.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use weir_grid::{Disk, EmbeddedGrid, Processes, SiteOrder, StorageLimits};
use weir_model::Pattern;
use weir_network::packets::Packets;
use weir_network::relay::{Passed, Relay};
use weir_plan::Plan;
use weir_plan::fault::{Amount, Course, Fault, FaultKind, FaultPlace, Level, Service, level_at};

use super::counters::{Miscounted, Miscounts, is_of_counters};
use super::injection::Broken;
use super::journal;
use super::means::{self, Here};
use super::operator::Operator;
use super::orders::{FaultState, FaultStates, Order, Orders};
use super::packets::{counter, packet_rules};
use super::reach::seen;
use super::rules::{Buckets, Ground, copies, dead, disk_failure, disks, is_of_packets, rules};
use super::store::{Hold, StoreLock};
use crate::execute::clock::Clock;
use crate::execute::live::SharedMeasurement;
use crate::options::{Options, RunNetwork};
use crate::output::folder::RunFolder;
use crate::services::storage::StorageDoor;

/// Longest pause between two looks for orders.
const LOOK: Duration = Duration::from_millis(250);

/// The faults of a run under way.
pub(crate) struct Acting {
    task: JoinHandle<()>,
    actor: Arc<tokio::sync::Mutex<Actor>>,
}

/// The traces of the faults of a run.
pub(crate) struct Acted {
    /// The state of whatever made each fault, by its name.
    pub(crate) states: BTreeMap<String, String>,
    /// Counters that were read wrong.
    pub(crate) miscounted: Miscounted,
}

struct Actor {
    broken: Broken,
    /// The faults that there were at the last look.
    faults: Vec<(Fault, Course)>,
    /// The level that each has been given.
    levels: Vec<Level>,
    ground: Ground,
    buckets: Buckets,
    relays: Arc<BTreeMap<String, Relay>>,
    disks: BTreeMap<String, Arc<Disk>>,
    limits: BTreeMap<String, StorageLimits>,
    /// The copies that each storage may have at once, where faults bound them.
    copies: BTreeMap<String, u32>,
    /// The activity of the relays when each fault came, and while it was on.
    before: Vec<Option<Passed>>,
    passed: Vec<Passed>,
    store: Option<StoreLock>,
    /// The packets of the run, if it has a network namespace of its own.
    packets: Option<Packets>,
    /// The processes of sites, if they have their own.
    sites: Option<Arc<Processes>>,
    /// Why a site's process, or the packets, did not do what they should.
    disobeyed: BTreeMap<String, String>,
    operator: Operator,
    miscounts: Miscounts,
    /// Servers that have died, and when each is back.
    dead: BTreeMap<String, Duration>,
    /// How often servers died, by the fault.
    deaths: BTreeMap<String, u64>,
    /// Orders that were not carried out.
    refusals: Vec<(String, String)>,
    orders: Option<Orders>,
    measurement: SharedMeasurement,
    folder: Arc<RunFolder>,
}

impl Acting {
    /// Begins: the network at once, the faults at their times or when they are ordered.
    pub(crate) fn start(
        plan: &Plan,
        grid: &EmbeddedGrid,
        (options, doors): (&Options, &Arc<Vec<StorageDoor>>),
        (clock, broken, measurement): (Clock, &Broken, &SharedMeasurement),
        folder: &Arc<RunFolder>,
    ) -> Self {
        let orders = Orders::open(folder.path(), &plan.resolved);
        let orders = orders.inspect_err(|error| folder.log(&format!("no orders about faults are taken: {error}")));
        let actor = Actor {
            levels: Vec::new(),
            before: Vec::new(),
            passed: Vec::new(),
            faults: Vec::new(),
            broken: broken.clone(),
            ground: ground(plan, grid, options),
            buckets: Buckets::default(),
            relays: grid.relays().clone(),
            disks: grid.disks().clone(),
            limits: grid.limits(),
            copies: BTreeMap::new(),
            packets: (options.network == RunNetwork::Namespace).then(Packets::default),
            store: grid.transfer_store().map(|path| StoreLock::new(&path)),
            sites: grid.processes().cloned(),
            disobeyed: BTreeMap::new(),
            operator: Operator::new(plan, grid, folder),
            miscounts: Miscounts::new(doors),
            dead: BTreeMap::new(),
            deaths: BTreeMap::new(),
            refusals: Vec::new(),
            orders: orders.ok(),
            measurement: measurement.clone(),
            folder: folder.clone(),
        };
        let actor = Arc::new(tokio::sync::Mutex::new(actor));
        let task = tokio::spawn(act(actor.clone(), clock));
        Self { task, actor }
    }

    /// Takes every fault away.
    pub(crate) async fn end(self) -> Acted {
        self.task.abort();
        let _aborted = self.task.await;
        let mut actor = self.actor.lock().await;
        actor.orders = None;
        actor.change(None).await;
        Acted {
            states: actor.states(),
            miscounted: actor.miscounts.miscounted().clone(),
        }
    }
}

async fn act(actor: Arc<tokio::sync::Mutex<Actor>>, clock: Clock) {
    actor.lock().await.change(Some(clock.now())).await;
    loop {
        let now = clock.now();
        let next = actor.lock().await.look(now).await;
        tokio::time::sleep(next.saturating_sub(clock.now()).min(LOOK)).await;
    }
}

/// The storages of a running grid, by the addresses of the relays in front of them.
fn ground(plan: &Plan, grid: &EmbeddedGrid, options: &Options) -> Ground {
    let relays = grid.relays();
    let ground = seen(plan, &options.ground, |rse| {
        Some(relays.get(rse.name.as_str())?.address())
    });
    Ground {
        has_packets: options.network == RunNetwork::Namespace,
        ..ground
    }
}

impl Actor {
    /// Takes orders, and makes the changes that are due; gives when the next one is.
    async fn look(&mut self, now: Duration) -> Duration {
        let orders = self.orders.as_ref().map(Orders::take).unwrap_or_default();
        let is_ordered = !orders.is_empty();
        for order in orders {
            self.obey(order, now);
        }
        let faults = self.broken.all();
        let is_due = self.crash(&faults, now)
            || faults.len() != self.levels.len()
            || faults
                .iter()
                .zip(&self.levels)
                .any(|((_, course), level)| level_at(course, now).to_bits() != level.to_bits());
        if is_due {
            self.change(Some(now)).await;
        }
        self.operator.drain(&faults, Some(now)).await;
        if is_due || is_ordered {
            self.tell(now);
        }
        let moments = faults.iter().flat_map(|(_, course)| course.iter().map(|(at, _)| *at));
        moments.filter(|at| *at > now).min().unwrap_or(Duration::MAX)
    }

    /// Lets servers die that have too many files at once, and come back; says whether one did.
    fn crash(&mut self, faults: &[(Fault, Course)], now: Duration) -> bool {
        let n_before = self.dead.len();
        self.dead.retain(|_, until| *until > now);
        let mut has_changed = self.dead.len() != n_before;
        for (fault, course) in faults.iter().filter(|(fault, _)| fault.kind == FaultKind::Crash) {
            let (Amount::Limit(limit), FaultPlace::Rse(pattern, _)) = (fault.amount, &fault.place) else {
                continue;
            };
            let is_over = level_at(course, now) <= 0.0;
            for (rse, disk) in self.disks.iter().filter(|(rse, _)| pattern.fits(rse)) {
                if !is_over && !self.dead.contains_key(rse) && disk.active() > limit {
                    let until = now + fault.details.delay.unwrap_or_default();
                    self.dead.insert(rse.clone(), until);
                    *self.deaths.entry(fault.name.clone()).or_default() += 1;
                    has_changed = true;
                }
            }
        }
        has_changed
    }

    fn obey(&mut self, order: Order, now: Duration) {
        let outcome = match &order {
            Order::Add(text) => self.add(text, now),
            Order::Clear(name) => {
                if self.broken.end(name, now) {
                    self.measurement.with(|measurement| measurement.end_fault(name, now));
                    self.folder.log(&format!("the fault {name} is cleared"));
                }
                Ok(())
            }
        };
        match outcome {
            Ok(()) => {
                if let Err(error) = journal::keep(self.folder.path(), now, order) {
                    self.folder.log(&format!("an order about faults is not kept: {error}"));
                }
            }
            Err((name, reason)) => {
                self.folder.log(&format!("the fault {name} is refused: {reason}"));
                self.refusals.push((name, reason));
            }
        }
    }

    fn add(&mut self, text: &str, now: Duration) -> Result<(), (String, String)> {
        let orders = self
            .orders
            .as_ref()
            .ok_or_else(|| (String::new(), "no orders are taken".to_owned()))?;
        let plan = orders.read(text).map_err(|reason| ("?".to_owned(), reason))?;
        let (fault, course) =
            journal::begun(&plan, now).ok_or_else(|| ("?".to_owned(), "it is no fault".to_owned()))?;
        let refused = |reason: String| (fault.name.clone(), reason);
        let near = self.relays.keys().cloned().collect();
        let here = Here {
            ground: &self.ground.network,
            near: &near,
            network: if self.packets.is_some() {
                RunNetwork::Namespace
            } else {
                RunNetwork::Host
            },
            has_processes: self.sites.is_some(),
            has_program: true,
            has_clock: self.sites.as_ref().is_some_and(|sites| sites.has_clock()),
        };
        if let Some(reason) = means::cannot_add(&plan, &here) {
            return Err(refused(reason));
        }
        if means::needs(&fault, &plan) && self.relays.is_empty() {
            return Err(refused("the run has no relays: begin it with --breakable".to_owned()));
        }
        self.folder.log(&format!(
            "the fault {} is added: {} at {}",
            fault.name, fault.kind, fault.place
        ));
        self.measurement
            .with(|measurement| measurement.add_fault(fault.clone(), course.clone()));
        self.broken.add(fault, course);
        Ok(())
    }

    /// Tells the state of every fault.
    fn tell(&self, now: Duration) {
        let Some(orders) = &self.orders else { return };
        let acted = self.states();
        let state = |(fault, course): &(Fault, Course)| FaultState {
            name: fault.name.clone(),
            kind: fault.kind.to_string(),
            place: fault.place.to_string(),
            amount: fault.amount_text(),
            level: level_at(course, now),
            next_s: course
                .iter()
                .map(|(at, _)| *at)
                .filter(|at| *at > now)
                .min()
                .map(|at| at.as_secs_f64()),
            acted: acted.get(&fault.name).cloned(),
        };
        orders.tell(&FaultStates {
            at_s: now.as_secs_f64(),
            faults: self.faults.iter().map(state).collect(),
            refused: self.refusals.clone(),
        });
    }

    /// Gives every fault the level that it has at a moment; none when the run is over.
    async fn change(&mut self, moment: Option<Duration>) {
        self.faults = self.broken.all();
        let n_faults = self.faults.len();
        self.levels.resize(n_faults, 0.0);
        self.before.resize(n_faults, None);
        self.passed.resize(n_faults, Passed::default());
        let level = |course: &[(Duration, Level)]| moment.map_or(0.0, |moment| level_at(course, moment));
        let levels: Vec<Level> = self.faults.iter().map(|(_, course)| level(course)).collect();
        let now = self.passed_by_all();
        for (at, level) in levels.iter().enumerate() {
            self.note(at, *level, now);
        }
        let old = std::mem::replace(&mut self.levels, levels);
        let on = self.faults.iter().zip(&self.levels).filter(|(_, level)| **level > 0.0);
        let on: Vec<(&Fault, Level)> = on.map(|((fault, _), level)| (fault, *level)).collect();
        let mut of_doors = rules(&self.ground, &on, &mut self.buckets);
        for rse in self.dead.keys().filter(|_| moment.is_some()) {
            of_doors.entry(rse.clone()).or_default().push(dead());
        }
        for (door, relay) in self.relays.iter() {
            relay.set(of_doors.remove(door).unwrap_or_default());
        }
        let copies = copies(&self.ground, &on);
        let mut slow = disks(&self.ground, &on, &mut self.buckets);
        for (rse, disk) in &self.disks {
            disk.set(slow.remove(rse).unwrap_or_default());
        }
        self.bound_copies(copies).await;
        self.order_packets().await;
        self.hold_store();
        self.order_sites();
        if moment.is_none() {
            self.operator.drain(&[], None).await;
        }
        for (at, (was, is)) in old.into_iter().zip(self.levels.clone()).enumerate() {
            if was.to_bits() != is.to_bits() {
                let fault = self.faults[at].0.clone();
                self.operator.tell(&fault, is).await;
                self.miscounts.change(&fault, is).await;
            }
        }
    }

    fn passed_by_all(&self) -> Passed {
        self.relays
            .values()
            .map(Relay::passed)
            .fold(Passed::default(), Passed::plus)
    }

    /// Keeps what relays did while a fault was on.
    fn note(&mut self, at: usize, level: Level, now: Passed) {
        match (self.before[at], level > 0.0) {
            (None, true) => self.before[at] = Some(now),
            (Some(before), false) => {
                self.passed[at] = self.passed[at].plus(now.since(before));
                self.before[at] = None;
            }
            _ => {}
        }
    }

    /// Bounds the copies that storages take at once.
    async fn bound_copies(&mut self, copies: BTreeMap<String, u32>) {
        for (rse, limits) in &self.limits {
            let limit = copies.get(rse).copied();
            if limit == self.copies.get(rse).copied() {
                continue;
            }
            if let Err(error) = limits.set_copies(limit).await {
                let error = weir_auth::error_chain(&error);
                self.folder.log(&error);
                let is_meant = |fault: &Fault| {
                    fault.kind == FaultKind::Connections
                        && matches!(&fault.place, FaultPlace::Rse(pattern, _) if pattern.fits(rse))
                };
                let meant = self
                    .faults
                    .iter()
                    .map(|(fault, _)| fault)
                    .filter(|fault| is_meant(fault));
                let meant: Vec<String> = meant.map(|fault| fault.name.clone()).collect();
                self.disobeyed
                    .extend(meant.into_iter().map(|name| (name, error.clone())));
            }
        }
        self.copies = copies;
    }

    /// Lets packets be lost, or queue.
    async fn order_packets(&mut self) {
        let Some(packets) = &mut self.packets else { return };
        let faults = self
            .faults
            .iter()
            .map(|(fault, _)| fault)
            .zip(self.levels.iter().copied());
        if let Err(error) = packets.set(&packet_rules(&self.ground, faults)).await {
            self.folder.log(&format!("faults could not act on packets: {error}"));
            let meant = self
                .faults
                .iter()
                .map(|(fault, _)| fault)
                .filter(|fault| is_of_packets(fault.kind));
            let meant: Vec<String> = meant.map(|fault| fault.name.clone()).collect();
            self.disobeyed
                .extend(meant.into_iter().map(|name| (name, error.to_string())));
        }
    }

    /// The number of packets that a fault met, in words.
    fn of_packets(&self, at: usize, fault: &Fault, packets: &Packets) -> String {
        let met = packets.met(&counter(at));
        let text = match fault.kind {
            FaultKind::Capacity => format!("{met} packets went through its queue"),
            _ => format!("{met} packets were dropped"),
        };
        match self.disobeyed.get(&fault.name) {
            Some(error) => format!("{text}; not all: {error}"),
            None => text,
        }
    }

    /// Stops, kills or starts the process of each site, and sets its clock.
    fn order_sites(&mut self) {
        let Some(sites) = self.sites.clone() else { return };
        for site in sites.sites() {
            let (mut order, mut behind, mut by) = (SiteOrder::Run, Duration::ZERO, String::new());
            for ((fault, _), level) in self.faults.iter().zip(&self.levels).filter(|(_, level)| **level > 0.0) {
                let FaultPlace::Site(pattern, _) = &fault.place else {
                    continue;
                };
                match (fault.kind, fault.amount) {
                    _ if !pattern.fits(&site) => continue,
                    (FaultKind::KilledSite, _) => order = SiteOrder::Kill,
                    (FaultKind::FrozenSite, _) if order == SiteOrder::Run => order = SiteOrder::Freeze,
                    (FaultKind::SkewedClock, Amount::Delay(delay)) => behind = behind.max(delay.mul_f64(*level)),
                    _ => continue,
                }
                by.clone_from(&fault.name);
            }
            let clock = if sites.has_clock() {
                sites.skew(&site, behind)
            } else {
                Ok(())
            };
            if let Err(error) = clock.and(sites.order(&site, order)) {
                let error = weir_auth::error_chain(&error);
                self.folder
                    .log(&format!("the fault {by} could not act on site {site}: {error}"));
                self.disobeyed.insert(by, error);
            }
        }
    }

    fn hold_store(&mut self) {
        let mut hold = Hold::Free;
        for ((fault, _), level) in self.faults.iter().zip(&self.levels).filter(|(_, level)| **level > 0.0) {
            match (fault.kind, fault.amount) {
                (FaultKind::FrozenStore, _) => hold = Hold::Frozen,
                (FaultKind::SlowStore, Amount::Delay(delay)) if hold != Hold::Frozen => {
                    hold = Hold::Slow(delay.mul_f64(*level));
                }
                _ => {}
            }
        }
        if let Some(store) = &mut self.store {
            store.set(hold);
        }
    }

    /// The state of the processes of sites, in words.
    fn of_sites(&self, fault: &Fault, pattern: &Pattern) -> String {
        let Some(sites) = &self.sites else { return String::new() };
        let names = sites.sites().into_iter().filter(|site| pattern.fits(site));
        let state = |site: String| {
            let of = sites.figures(&site);
            match fault.kind {
                FaultKind::FrozenSite => {
                    format!("the process of {site} was stopped for {:.1} s", of.frozen.as_secs_f64())
                }
                FaultKind::KilledSite => format!(
                    "the process of {site} was killed {}, and there was none for {:.1} s",
                    times(of.n_killed),
                    of.killed.as_secs_f64()
                ),
                _ => format!("the clock of {site} was behind"),
            }
        };
        let wrong = self.disobeyed.get(&fault.name).map(|error| format!("not all: {error}"));
        names.map(state).chain(wrong).collect::<Vec<String>>().join("; ")
    }

    /// The state of whatever made each fault, in words.
    fn states(&self) -> BTreeMap<String, String> {
        let state = |(at, (fault, _)): (usize, &(Fault, Course))| {
            let text = match (fault.kind, &fault.place) {
                (_, FaultPlace::Workload(_)) => return None,
                (kind, _) if is_of_counters(kind) => self.miscounts.state(&fault.name),
                (kind, _)
                    if is_of_packets(kind)
                        && let Some(packets) = &self.packets =>
                {
                    self.of_packets(at, fault, packets)
                }
                (FaultKind::SlowStore | FaultKind::FrozenStore, _) => {
                    let held = self.store.as_ref().map(StoreLock::held).unwrap_or_default();
                    format!("its database was held for {:.1} s", held.as_secs_f64())
                }
                (_, FaultPlace::Rse(pattern, _)) if disk_failure(fault).is_some() => {
                    let disks = self.disks.iter().filter(|(name, _)| pattern.fits(name));
                    let failed: u64 = disks.map(|(_, disk)| disk.failed()).sum();
                    format!("disks failed for {failed} files")
                }
                (kind, FaultPlace::Rse(pattern, _)) if means::is_of_disks(kind) && kind != FaultKind::Crash => {
                    let disks = self.disks.iter().filter(|(name, _)| pattern.fits(name));
                    let disks: Vec<&Arc<Disk>> = disks.map(|(_, disk)| disk).collect();
                    let held: Duration = disks.iter().map(|disk| disk.held()).sum();
                    let sum = |of: fn(&Disk) -> u64| -> u64 { disks.iter().map(|disk| of(disk)).sum() };
                    let (refused, gone) = (sum(Disk::refused), sum(Disk::gone));
                    let corrupted = sum(Disk::corrupted);
                    let wrong = self.disobeyed.get(&fault.name);
                    format!(
                        "disks held calls back for {:.1} s in all, refused {refused} for want of room, lost {gone} files and changed {corrupted}{}",
                        held.as_secs_f64(),
                        wrong.map_or_else(String::new, |error| format!(
                            "; the storage did not take the limit: {error}"
                        ))
                    )
                }
                (kind, FaultPlace::Site(pattern, _)) if kind.is_of_processes() => self.of_sites(fault, pattern),
                (FaultKind::Crash, _) => {
                    let deaths = self.deaths.get(&fault.name).copied().unwrap_or_default();
                    format!("the server died {deaths} times")
                }
                (FaultKind::Slots | FaultKind::LateDecisions, _)
                | (FaultKind::Outage, FaultPlace::Service(Service::Transfer))
                    if self.operator.is_obeyed() =>
                {
                    match self.operator.refusal(&fault.name) {
                        None => "the transfer service took the limit".to_owned(),
                        Some(error) => format!("the transfer service did not take the limit: {error}"),
                    }
                }
                _ => {
                    let passed = self.passed[at];
                    let held = Duration::from_nanos(passed.held_nanos).as_secs_f64();
                    format!(
                        "relays passed {}, held connections back for {held:.1} s in all, reset {}, stopped {} and changed bits of {}",
                        weir_units::Bytes(passed.bytes),
                        passed.resets,
                        passed.stalls,
                        passed.changes
                    )
                }
            };
            Some((fault.name.clone(), text))
        };
        self.faults.iter().enumerate().filter_map(state).collect()
    }
}

fn times(count: u32) -> String {
    if count == 1 {
        "once".to_owned()
    } else {
        format!("{count} times")
    }
}
