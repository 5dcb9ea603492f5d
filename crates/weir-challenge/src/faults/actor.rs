//! Makes faults come and go while a run is under way.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use weir_auth::Secret;
use weir_grid::{Disk, EmbeddedGrid, TransferAccess, TransferCredential};
use weir_http::body;
use weir_model::Link;
use weir_network::relay::{Passed, Relay};
use weir_plan::fault::{Amount, Course, Fault, FaultKind, FaultPlace, Level, Service, level_at};
use weir_plan::{Plan, Workload};

use super::ground::NetworkGround;
use super::injection::Broken;
use super::orders::{FaultState, FaultStates, Order, Orders};
use super::rules::{Buckets, End, Ground, dead, disks, rules};
use super::store::{Hold, StoreLock};
use crate::execute::clock::Clock;
use crate::execute::live::SharedMeasurement;
use crate::output::folder::RunFolder;

/// Longest pause between two looks for orders.
const LOOK: Duration = Duration::from_millis(250);
/// Longest wait for an answer of the transfer service.
const PATIENCE: Duration = Duration::from_secs(20);
/// Largest answer that is read.
const ANSWER_MAX: usize = 1 << 20;
/// The path of the service's drain.
const DRAIN: &str = "/config/drain";
/// Scopes of a token that may set limits.
const OPERATOR: &str = "fts fts:admin";

/// The faults of a run under way.
pub(crate) struct Acting {
    task: JoinHandle<()>,
    actor: Arc<tokio::sync::Mutex<Actor>>,
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
    /// The activity of the relays when each fault came, and while it was on.
    before: Vec<Option<Passed>>,
    passed: Vec<Passed>,
    store: Option<StoreLock>,
    transfer: TransferAccess,
    /// `scheme://host` of each RSE, by which the transfer service knows it.
    hosts: BTreeMap<String, String>,
    /// The links of the plan.
    links: Vec<Link>,
    /// Limits that the transfer service has been told: the request that takes each away.
    told: BTreeMap<usize, Vec<(Method, String)>>,
    /// Answers of the transfer service that were no success.
    refused: BTreeMap<usize, String>,
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
        network: &NetworkGround,
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
            ground: ground(plan, grid, network),
            buckets: Buckets::default(),
            relays: grid.relays().clone(),
            disks: grid.disks().clone(),
            store: grid.transfer_store().map(|path| StoreLock::new(&path)),
            transfer: grid.transfer().clone(),
            hosts: hosts(grid),
            links: plan.workloads.iter().flat_map(Workload::links).cloned().collect(),
            told: BTreeMap::new(),
            refused: BTreeMap::new(),
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

    /// Takes every fault away; gives the state of whatever made each, by its name.
    pub(crate) async fn end(self) -> BTreeMap<String, String> {
        self.task.abort();
        let _aborted = self.task.await;
        let mut actor = self.actor.lock().await;
        actor.orders = None;
        actor.change(None).await;
        actor.states()
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

fn ground(plan: &Plan, grid: &EmbeddedGrid, network: &NetworkGround) -> Ground {
    let known = grid.description();
    let end = |rse: &weir_model::Rse| {
        let url = &known.rses.iter().find(|known| known.name == rse.name.as_str())?.url;
        let host = weir_grid::origin(url).split("://").nth(1)?.rsplit_once(':')?.0;
        Some(End {
            name: rse.name.clone(),
            site: rse.site.to_string(),
            ip: host.trim_matches(['[', ']']).parse().ok()?,
        })
    };
    let size = plan
        .rates()
        .flat_map(|(_, rates)| &rates.links)
        .map(|rated| rated.file_size.0)
        .next();
    Ground {
        ends: plan.grid.rses.iter().filter_map(end).collect(),
        network: network.clone(),
        file_size: size.unwrap_or(1_000_000) as f64,
    }
}

fn hosts(grid: &EmbeddedGrid) -> BTreeMap<String, String> {
    let host = |url: &str| {
        let origin = weir_grid::origin(url);
        let end = origin
            .rfind(':')
            .filter(|at| *at > origin.find("://").map_or(0, |scheme| scheme + 2));
        end.map_or(origin, |at| &origin[..at]).to_owned()
    };
    grid.description()
        .rses
        .iter()
        .map(|rse| (rse.name.clone(), host(&rse.url)))
        .collect()
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
        let outcome = match order {
            Order::Add(text) => self.add(&text, now),
            Order::Clear(name) => {
                if self.broken.end(&name, now) {
                    self.measurement.with(|measurement| measurement.end_fault(&name, now));
                    self.folder.log(&format!("the fault {name} is cleared"));
                }
                Ok(())
            }
        };
        if let Err((name, reason)) = outcome {
            self.folder.log(&format!("the fault {name} is refused: {reason}"));
            self.refusals.push((name, reason));
        }
    }

    fn add(&mut self, text: &str, now: Duration) -> Result<(), (String, String)> {
        let orders = self
            .orders
            .as_ref()
            .ok_or_else(|| (String::new(), "no orders are taken".to_owned()))?;
        let plan = orders.read(text).map_err(|reason| ("?".to_owned(), reason))?;
        let mut fault = plan
            .faults
            .last()
            .cloned()
            .ok_or_else(|| ("?".to_owned(), "it is no fault".to_owned()))?;
        let refused = |reason: String| (fault.name.clone(), reason);
        if let Some((other, reason)) = super::means::cannot(&plan, &self.ground.network)
            && other.name == fault.name
        {
            return Err(refused(reason));
        }
        if super::means::needs(&fault) && self.relays.is_empty() {
            return Err(refused("the run has no relays: begin it with --breakable".to_owned()));
        }
        fault.at = now;
        let course = fault.course(plan.seed, plan.phases.end() + plan.phases.drain);
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
        let mut slow = disks(&self.ground, &on, &mut self.buckets);
        for (rse, disk) in &self.disks {
            disk.set(slow.remove(rse).unwrap_or_default());
        }
        self.hold_store();
        for (at, (was, is)) in old.into_iter().zip(self.levels.clone()).enumerate() {
            if was.to_bits() != is.to_bits() {
                self.tell_service(at, is).await;
            }
        }
    }

    fn passed_by_all(&self) -> Passed {
        self.relays.values().map(Relay::passed).fold(Passed::default(), sum)
    }

    /// Keeps what relays did while a fault was on.
    fn note(&mut self, at: usize, level: Level, now: Passed) {
        match (self.before[at], level > 0.0) {
            (None, true) => self.before[at] = Some(now),
            (Some(before), false) => {
                self.passed[at] = sum(self.passed[at], since(now, before));
                self.before[at] = None;
            }
            _ => {}
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

    /// Tells the transfer service the limit that a fault sets, or takes it away.
    async fn tell_service(&mut self, at: usize, level: Level) {
        let fault = self.faults[at].0.clone();
        for (method, path) in self.told.remove(&at).unwrap_or_default() {
            if path == DRAIN {
                self.drain(at, false).await;
            } else {
                self.ask(at, method, &path, None).await;
            }
        }
        if level <= 0.0 {
            return;
        }
        let mut told = Vec::new();
        match (fault.kind, fault.amount, &fault.place) {
            (FaultKind::Slots, Amount::Limit(limit), place) => {
                let limit = (f64::from(limit) / level).round() as u32;
                for (path, body, undo) in self.limits(place, limit) {
                    self.ask(at, Method::POST, path, Some(body)).await;
                    told.push((Method::DELETE, undo));
                }
            }
            (FaultKind::Outage, _, FaultPlace::Service(Service::Transfer)) => {
                self.drain(at, true).await;
                told.push((Method::POST, DRAIN.to_owned()));
            }
            _ => {}
        }
        self.told.insert(at, told);
    }

    /// The requests that set a limit at a place: path, body, and the path that takes it away.
    fn limits(&self, place: &FaultPlace, limit: u32) -> Vec<(&'static str, Value, String)> {
        match place {
            FaultPlace::Link(pattern) => {
                let links: BTreeSet<&Link> = self.links.iter().filter(|link| pattern.fits(link)).collect();
                let of = |link: &Link| {
                    let name = format!("fault-{}-{}", link.source, link.destination);
                    let host = |rse: &weir_model::RseName| self.hosts.get(rse.as_str()).cloned().unwrap_or_default();
                    let body = json!({
                        "symbolicname": name,
                        "source": host(&link.source),
                        "destination": host(&link.destination),
                        "max_active": limit,
                    });
                    ("/config/links", body, format!("/config/links/{name}"))
                };
                links.into_iter().map(of).collect()
            }
            FaultPlace::Rse(pattern, way) => {
                let hosts = self.hosts.iter().filter(|(name, _)| pattern.fits(name));
                let of = |(_, host): (&String, &String)| {
                    let mut info = serde_json::Map::new();
                    for (key, is_meant) in [
                        ("inbound_max_active", way.is_in()),
                        ("outbound_max_active", way.is_out()),
                    ] {
                        if is_meant {
                            info.insert(key.to_owned(), json!(limit));
                        }
                    }
                    let encoded: String =
                        percent_encoding::utf8_percent_encode(host, percent_encoding::NON_ALPHANUMERIC).to_string();
                    (
                        "/config/se",
                        json!({ host: { "se_info": info } }),
                        format!("/config/se?se={encoded}"),
                    )
                };
                hosts.map(of).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Lets the transfer service start nothing more, or go on.
    async fn drain(&mut self, at: usize, drain: bool) {
        match self.exchange(Method::GET, "/config", None).await {
            Ok(hosts) => {
                let body = json!({ "hostname": hosts[0]["hostname"], "drain": drain });
                self.ask(at, Method::POST, DRAIN, Some(body)).await;
            }
            Err(error) => drop(self.refused.insert(at, error)),
        }
    }

    async fn ask(&mut self, at: usize, method: Method, path: &str, body: Option<Value>) {
        if let Err(error) = self.exchange(method, path, body).await {
            let name = &self.faults[at].0.name;
            self.folder.log(&format!(
                "the fault {name} could not be told to the transfer service: {error}"
            ));
            self.refused.insert(at, error);
        }
    }

    async fn exchange(&self, method: Method, path: &str, content: Option<Value>) -> Result<Value, String> {
        let token = self.operator().await?;
        let mut request = http::Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.transfer.url));
        request = request.header(http::header::CONTENT_TYPE, "application/json");
        if let Some(token) = token {
            request = request.header(http::header::AUTHORIZATION, format!("Bearer {}", token.expose()));
        }
        let body = content.map_or_else(body::empty, |content| body::full(content.to_string()));
        let request = request.body(body).map_err(|error| error.to_string())?;
        let answer = self.transfer.client.send_within(request, PATIENCE).await;
        let answer = answer.map_err(|error| weir_auth::error_chain(&error))?;
        if !answer.status().is_success() {
            return Err(format!("it answered {}", answer.status()));
        }
        let content = body::read_limited(answer.into_body(), ANSWER_MAX, PATIENCE)
            .await
            .map_err(|error| error.to_string())?;
        Ok(serde_json::from_slice(&content).unwrap_or_default())
    }

    async fn operator(&self) -> Result<Option<Secret>, String> {
        match &self.transfer.credential {
            TransferCredential::Token { tokens, audience } => {
                let token = tokens.token(OPERATOR, audience).await;
                token.map(Some).map_err(|error| weir_auth::error_chain(&error))
            }
            TransferCredential::Certificate(_) => Ok(None),
        }
    }

    /// The state of whatever made each fault, in words.
    fn states(&self) -> BTreeMap<String, String> {
        let state = |(at, (fault, _)): (usize, &(Fault, Course))| {
            let text = match (fault.kind, &fault.place) {
                (_, FaultPlace::Workload(_)) => return None,
                (FaultKind::SlowStore | FaultKind::FrozenStore, _) => {
                    let held = self.store.as_ref().map(StoreLock::held).unwrap_or_default();
                    format!("its database was held for {:.1} s", held.as_secs_f64())
                }
                (kind, FaultPlace::Rse(pattern, _)) if is_of_disks(kind) => {
                    let disks = self.disks.iter().filter(|(name, _)| pattern.fits(name));
                    let disks: Vec<&Arc<Disk>> = disks.map(|(_, disk)| disk).collect();
                    let held: Duration = disks.iter().map(|disk| disk.held()).sum();
                    let (refused, gone): (u64, u64) = (
                        disks.iter().map(|disk| disk.refused()).sum(),
                        disks.iter().map(|disk| disk.gone()).sum(),
                    );
                    format!(
                        "disks held calls back for {:.1} s in all, refused {refused} for want of room, and lost {gone} files",
                        held.as_secs_f64()
                    )
                }
                (FaultKind::Crash, _) => {
                    let deaths = self.deaths.get(&fault.name).copied().unwrap_or_default();
                    format!("the server died {deaths} times")
                }
                (FaultKind::Slots, _) | (FaultKind::Outage, FaultPlace::Service(Service::Transfer)) => {
                    match self.refused.get(&at) {
                        None => "the transfer service took the limit, and took it back".to_owned(),
                        Some(error) => format!("the transfer service did not take the limit: {error}"),
                    }
                }
                _ => {
                    let Passed {
                        held_nanos,
                        resets,
                        bytes,
                        ..
                    } = self.passed[at];
                    let held = Duration::from_nanos(held_nanos).as_secs_f64();
                    format!(
                        "relays passed {}, held connections back for {held:.1} s in all, and reset {resets}",
                        weir_units::Bytes(bytes)
                    )
                }
            };
            Some((fault.name.clone(), text))
        };
        self.faults.iter().enumerate().filter_map(state).collect()
    }
}

/// Whether a fault acts at the back end of a storage.
fn is_of_disks(kind: FaultKind) -> bool {
    use FaultKind::{Connections, Overload, Quota, SlowClose, SlowDelete, SlowDisk, SlowRead, SlowWrite, Vanish};
    let of_disks = [
        SlowRead,
        SlowWrite,
        SlowDisk,
        SlowClose,
        SlowDelete,
        Overload,
        Quota,
        Vanish,
        Connections,
    ];
    of_disks.contains(&kind)
}

fn sum(one: Passed, other: Passed) -> Passed {
    Passed {
        connections: one.connections + other.connections,
        bytes: one.bytes + other.bytes,
        held_nanos: one.held_nanos + other.held_nanos,
        resets: one.resets + other.resets,
        unreachable: one.unreachable + other.unreachable,
    }
}

fn since(now: Passed, before: Passed) -> Passed {
    Passed {
        connections: now.connections.saturating_sub(before.connections),
        bytes: now.bytes.saturating_sub(before.bytes),
        held_nanos: now.held_nanos.saturating_sub(before.held_nanos),
        resets: now.resets.saturating_sub(before.resets),
        unreachable: now.unreachable.saturating_sub(before.unreachable),
    }
}
