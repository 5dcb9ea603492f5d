//! The life of one attempt: prepared, connected, moving, read back, complete; or failed on the way.

use weir_sched::Input;
use weir_units::{Bytes, Timestamp};
use weir_world::{CopyMode, ErrorClass, Failure, OpId, Outcome, Party, Phase, Retry, WorldEvent};

use super::attempt_state::{Attempt, Fate, Preparation, Step};
use super::events::Event;
use super::fate::Drawn;
use super::storage::Way;
use super::{Part, World};
use crate::draw;
use crate::network::{FlowId, Rate, ResourceId, Weight};
use crate::scene::LinkScene;
use crate::slab::Key;

/// Places on the way of an attempt.
const PLACES: u8 = 4;

fn place(held: u8) -> (usize, Way, bool) {
    let (end, is_server) = (usize::from(held / 2), held % 2 == 1);
    (end, [Way::Read, Way::Write][end], is_server)
}

impl World {
    /// Starts an attempt: it gets its tokens, an old file is deleted, and connections are opened.
    pub(super) fn start(&mut self, core: u32, op: OpId, file: Key) {
        let now = self.now;
        let Some(entry) = self.files.get_mut(file) else { return };
        let ask = &self.scene.asks[entry.ask as usize];
        let (link, is_rated) = (ask.link, ask.rate.0 > 0);
        entry.attempts += 1;
        entry.started = Some(now);
        let (first, size, streamed) = (entry.attempts == 1, entry.size, entry.mode == CopyMode::Streamed);
        let drawn = Drawn {
            link,
            size,
            mode: entry.mode,
            workload: ask.workload,
            injected: entry.injected,
        };
        let fate = self.broken_fate(&drawn).unwrap_or_else(|| self.draw_fate(link, size));
        let destination = self.scene.links[link].destination;
        let (fate, stored) = match fate {
            Fate::Refused(..) => (fate, 0),
            _ if self.store_bytes(destination, size) => (fate, size),
            _ => (Fate::Refused(ErrorClass::NoSpace, Party::Destination), 0),
        };
        let preparation = self.preparation(link, first, streamed);
        let time: std::time::Duration = preparation.iter().map(|(_, time)| *time).sum();
        let key = self.attempts.insert(Attempt {
            op,
            file,
            core,
            link: link as u32,
            started: now,
            fate,
            held: 0,
            waits: false,
            servers: [None; 2],
            flow: None,
            flows_since: now,
            reads_back: false,
            preparation: Some(preparation),
            is_rated,
            step: None,
            step_since: now,
            data_since: now,
            accounted: 0,
            moved: 0,
            carried: 0,
            stored,
        });
        if let Some(entry) = self.files.get_mut(file) {
            entry.attempt = Some(key);
        }
        self.checks.began(now, &self.scene, link);
        self.tell(core, op, WorldEvent::Started);
        self.events.add(now + time, Event::Ready(key));
    }

    fn preparation(&mut self, link: usize, first: bool, streamed: bool) -> Preparation {
        let common = &self.scene.common;
        let scene = &self.scene.links[link];
        // A streamed copy opens two connections, one after the other.
        let connections = 1 + u32::from(streamed);
        let round_trips = |number: u32| scene.rtt * (number * connections);
        // Of the round trips the first opens a connection, and the last asks for data; TLS needs those between them.
        let (opens, asks) = (common.handshakes.min(1), u32::from(common.handshakes > 1));
        let (look, agrees) = (common.startup, common.handshakes - opens - asks);
        let mut steps = [
            (Step::Token, std::time::Duration::ZERO),
            (Step::Look, look),
            (Step::Connect, round_trips(opens)),
            (Step::Tls, round_trips(agrees)),
            (Step::FirstByte, round_trips(asks)),
            (Step::Delete, std::time::Duration::ZERO),
        ];
        if let Some(model) = &self.scene.tokens {
            steps[0].1 = self.tokens.wait(model, self.now);
        }
        if self.breaking.conditions.no_issuer {
            steps[0].1 = self.scene.common.stall_timeout;
        }
        let storage = &self.scene.storages[scene.destination];
        let overwrites = storage.model.overwrite.unwrap_or(0.0);
        if first && overwrites > 0.0 && draw::draw(&mut self.random[link]) < overwrites {
            steps[5].1 = self.delete_time(scene.destination);
        }
        steps
    }

    /// Accounts for the steps of an attempt's preparation, as far as they went.
    fn account_preparation(&mut self, key: Key, until: Timestamp) {
        let Some(attempt) = self.attempts.get_mut(key) else {
            return;
        };
        let (link, mut from) = (attempt.link as usize, attempt.started);
        for (step, time) in attempt.preparation.take().into_iter().flatten() {
            let to = (from + time).min(until);
            self.book.step(link, step, (from, to));
            from = to;
        }
    }

    /// An attempt is prepared.
    pub(super) fn ready(&mut self, key: Key) {
        self.account_preparation(key, self.now);
        let Some(attempt) = self.attempts.get(key) else { return };
        if let Fate::Refused(class, party) = attempt.fate {
            return self.fail(key, class, party, Phase::Preparation, self.now);
        }
        self.acquire(key);
    }

    /// Takes the places on the way one after the other, as far as there is room; the source's before the
    /// destination's, so that no circle of waiting can close.
    fn acquire(&mut self, key: Key) {
        loop {
            let Some(attempt) = self.attempts.get_mut(key) else {
                return;
            };
            if attempt.held == PLACES {
                return self.begin_flow(key);
            }
            let (end, way, is_server) = place(attempt.held);
            let link = &self.scene.links[attempt.link as usize];
            let storage = [link.source, link.destination][end];
            let doors = &mut self.doors[storage];
            let taken = if is_server {
                attempt.servers[end] = doors.choose(self.scene.storages[storage].model.imbalance.unwrap_or(0.0), way);
                attempt.servers[end].is_none_or(|server| doors.enter(server, way, key))
            } else {
                doors.connect(way, key)
            };
            if !taken {
                attempt.waits = true;
                (attempt.step, attempt.step_since) = (Some(Step::Place(end)), self.now);
                let patience = self.now + self.scene.common.stall_timeout;
                self.events.add(patience, Event::Impatient(key));
                return;
            }
            attempt.held += 1;
        }
    }

    /// It waited too long for a connection.
    pub(super) fn impatient(&mut self, key: Key) {
        let Some(attempt) = self.attempts.get(key).filter(|attempt| attempt.waits) else {
            return;
        };
        let party = [Party::Source, Party::Destination][place(attempt.held).0];
        self.fail(key, ErrorClass::Timeout, party, Phase::Transfer, self.now);
    }

    fn begin_flow(&mut self, key: Key) {
        let Some(attempt) = self.attempts.get(key) else { return };
        let file = self.files.get(attempt.file).expect("a file outlives its attempts");
        let size = attempt.flow_bytes(file.size);
        let (link, servers, streamed) = (attempt.link, attempt.servers, file.mode == CopyMode::Streamed);
        let class = self.class_of(link, servers, streamed);
        let flow = self
            .probe
            .within(Part::Network, || self.network.start(self.now, class, Bytes(size)));
        self.flows.insert(flow, key);
        if let Some(attempt) = self.attempts.get_mut(key) {
            (attempt.flow, attempt.flows_since) = (Some(flow), self.now);
            attempt.data_since = self.now;
        }
        let scene = &self.scene.links[link as usize];
        let ends = [scene.source, scene.destination];
        self.doors[ends[0]].begin(Way::Read);
        self.doors[ends[1]].begin(Way::Write);
        for end in ends {
            self.foresee_stall(end);
            self.load_server(end);
        }
        self.foresee_dark_start(link as usize);
        self.watch(link, key);
    }

    pub(super) fn class_of(&mut self, link: u32, servers: [Option<u8>; 2], streamed: bool) -> crate::network::ClassId {
        if let Some(class) = self.classes.get(&(link, servers, streamed)) {
            return *class;
        }
        let scene = &self.scene.links[link as usize];
        let mut path: Vec<ResourceId> = Vec::new();
        self.doors[scene.source].path(Way::Read, servers[0], &mut path);
        self.wires.path(&self.scene, scene, &mut path);
        self.wires.own(link as usize, &mut path);
        if streamed {
            self.wires.through_service(&mut path);
        }
        self.doors[scene.destination].path(Way::Write, servers[1], &mut path);
        let weight = Weight::new(scene.weight).unwrap_or(Weight::ONE);
        // A path without any limit would move a file at once: 1 Eb/s stands for that.
        let cap = scene.stream.unwrap_or(crate::unlimited::UNLIMITED);
        // Classes of their own for each link: the book tells whose flows were held back.
        let class = self
            .network
            .class_of(2 * link + 1, &path, weight, Some(Rate::from(cap)));
        self.book.class(class, link as usize, false);
        self.classes.insert((link, servers, streamed), class);
        class
    }

    /// A flow has moved all its bytes.
    pub(super) fn flow_ended(&mut self, flow: FlowId, at: Timestamp) {
        let Some(key) = self.flows.remove(&flow) else { return };
        let Some(attempt) = self.attempts.get_mut(key) else {
            return;
        };
        attempt.flow = None;
        let scene = &self.scene.links[attempt.link as usize];
        let (source, destination) = (scene.source, scene.destination);
        if attempt.reads_back {
            self.doors[destination].end(Way::Read);
            (attempt.step, attempt.step_since) = (Some(Step::Close), at);
            return self.events.add(at + self.closing(destination), Event::Complete(key));
        }
        let size = self.files.get(attempt.file).map_or(0, |file| file.size);
        let stall_timeout = self.scene.common.stall_timeout;
        attempt.moved = attempt.flow_bytes(size);
        let (fate, moved, link) = (attempt.fate, attempt.moved, attempt.link as usize);
        let stalls = matches!(fate, Fate::Stalls(_));
        attempt.step = Some(if stalls { Step::Stall } else { Step::Close });
        attempt.step_since = at;
        self.account_moved(key, at);
        self.doors[source].end(Way::Read);
        self.doors[destination].end(Way::Write);
        self.checks.moved(&self.scene, link, moved);
        self.count(link, moved);
        match fate {
            Fate::Breaks(class, party, _) => self.fail(key, class, party, Phase::Transfer, at),
            Fate::Stalls(_) => self.events.add(at + stall_timeout, Event::Fail(key)),
            _ if self.scene.storages[destination].model.readback == Some(true) => self.read_back(key, destination),
            _ => self.events.add(at + self.closing(destination), Event::Complete(key)),
        }
    }

    /// The destination reads the file once more, for its checksum.
    fn read_back(&mut self, key: Key, destination: usize) {
        let Some(attempt) = self.attempts.get_mut(key) else {
            return;
        };
        (attempt.reads_back, attempt.step) = (true, None);
        let (server, size, link) = (attempt.servers[1], attempt.moved, attempt.link);
        let mut path = Vec::new();
        self.doors[destination].path(Way::Read, server, &mut path);
        let cap = self.scene.storages[destination].model.stream_rate;
        let cap = Rate::from(cap.unwrap_or(crate::unlimited::UNLIMITED));
        let class = self.network.class_of(2 * link + 2, &path, Weight::ONE, Some(cap));
        self.book.class(class, link as usize, true);
        let flow = self.network.start(self.now, class, Bytes(size));
        (attempt.flow, attempt.flows_since) = (Some(flow), self.now);
        self.flows.insert(flow, key);
        self.doors[destination].begin(Way::Read);
        self.foresee_stall(destination);
    }

    /// A stalled attempt is given up.
    pub(super) fn give_up(&mut self, key: Key) {
        self.fail(key, ErrorClass::Stall, Party::Network, Phase::Transfer, self.now);
    }

    /// Everything is there; size and checksum are compared.
    pub(super) fn complete(&mut self, key: Key, at: Timestamp) {
        let Some(attempt) = self.attempts.get(key) else { return };
        if let Fate::Corrupt(class, party) = attempt.fate {
            return self.fail(key, class, party, Phase::Finalization, at);
        }
        let (bytes, link) = (Bytes(attempt.moved), attempt.link as usize);
        self.spoil(link);
        let Some(attempt) = self.attempts.get(key) else { return };
        let Some(file) = self.files.get_mut(attempt.file) else {
            return;
        };
        file.delivered = true;
        file.failure = None;
        let done = Outcome::Done {
            bytes,
            mode: file.mode,
            counted: Some(bytes),
            first_byte: None,
        };
        self.end(key, done, at);
    }

    pub(super) fn fail(&mut self, key: Key, class: ErrorClass, party: Party, phase: Phase, at: Timestamp) {
        let Some(attempt) = self.attempts.get(key) else { return };
        let link = &self.scene.links[attempt.link as usize];
        let failure = Failure {
            class,
            party,
            phase,
            message: sentence(class, party, link),
            remedy: String::new(),
            bytes_moved: self.moved(key),
            retry: retry_of(class),
        };
        self.end(key, Outcome::Failed(failure), at);
    }

    /// Bytes that an attempt has moved so far.
    pub(super) fn moved(&mut self, key: Key) -> Bytes {
        let Some(attempt) = self.attempts.get(key) else {
            return Bytes::ZERO;
        };
        match attempt.flow {
            Some(flow) if !attempt.reads_back => {
                let moved = self.probe.within(Part::Network, || self.network.moved(self.now, flow));
                Bytes(attempt.carried + moved.unwrap_or_default().0)
            }
            _ => Bytes(attempt.moved),
        }
    }

    /// Stops an attempt on demand.
    pub(super) fn stop(&mut self, key: Key) {
        let bytes_moved = self.moved(key);
        self.end(key, Outcome::Stopped { bytes_moved }, self.now);
    }

    /// Ends an attempt: frees its resources, and informs its core.
    fn end(&mut self, key: Key, outcome: Outcome, at: Timestamp) {
        self.interrupt_flow(key);
        self.account_preparation(key, at);
        self.account_step(key, at);
        let Some(attempt) = self.attempts.remove(key) else {
            return;
        };
        if attempt.is_rated && !matches!(outcome, Outcome::Done { .. }) {
            let span = (attempt.data_since, at);
            self.book.failed(attempt.link as usize, attempt.moved, span);
        }
        if let Outcome::Failed(failure) = &outcome {
            self.book
                .attempt_failed(attempt.link as usize, (failure.class, failure.party), at);
        }
        self.release(key, &attempt);
        self.keep_or_free(&attempt, matches!(outcome, Outcome::Done { .. }), at);
        self.checks.ended(&self.scene, attempt.link as usize, attempt.moved);
        if let Some(file) = self.files.get_mut(attempt.file) {
            file.attempt = None;
            file.started = Some(attempt.started);
            file.ended = at;
            file.moved = attempt.moved;
            if let Outcome::Failed(failure) = &outcome {
                file.failure = Some(Box::new(failure.clone()));
            }
        }
        self.tell(attempt.core, attempt.op, WorldEvent::Ended(outcome));
    }

    /// Takes an unfinished flow out of the network, and counts the bytes that it has moved.
    fn interrupt_flow(&mut self, key: Key) {
        let Some(attempt) = self.attempts.get_mut(key) else {
            return;
        };
        let Some(flow) = attempt.flow.take() else { return };
        let scene = &self.scene.links[attempt.link as usize];
        let (source, destination) = (scene.source, scene.destination);
        let moved = self.network.stop(self.now, flow).unwrap_or_default();
        self.flows.remove(&flow);
        if attempt.reads_back {
            self.doors[destination].end(Way::Read);
            return;
        }
        attempt.moved = attempt.carried + moved.0;
        let attempt_moved = attempt.moved;
        let link = attempt.link as usize;
        self.account_moved(key, self.now);
        self.doors[source].end(Way::Read);
        self.doors[destination].end(Way::Write);
        self.checks.moved(&self.scene, link, attempt_moved);
        self.count(link, attempt_moved);
    }

    /// Releases every slot that it holds; waiting attempts go on.
    fn release(&mut self, key: Key, attempt: &Attempt) {
        let link = &self.scene.links[attempt.link as usize];
        let storages = [link.source, link.destination];
        if attempt.waits {
            let (end, way, is_server) = place(attempt.held);
            let server = attempt.servers[end].filter(|_| is_server);
            self.doors[storages[end]].give_up(way, server, key);
        }
        for held in (0..attempt.held).rev() {
            let (end, way, is_server) = place(held);
            let doors = &mut self.doors[storages[end]];
            let next = match (is_server, attempt.servers[end]) {
                (true, Some(server)) => doors.exit(server, way),
                (true, None) => None,
                (false, _) => doors.disconnect(way),
            };
            if let Some(next) = next {
                self.go_on(next);
            }
        }
    }

    /// An attempt got the place it waited for.
    pub(super) fn go_on(&mut self, key: Key) {
        self.account_step(key, self.now);
        let Some(attempt) = self.attempts.get_mut(key) else {
            return;
        };
        (attempt.waits, attempt.step) = (false, None);
        attempt.held += 1;
        self.acquire(key);
    }

    pub(super) fn tell(&mut self, core: u32, op: OpId, event: WorldEvent) {
        self.cores[core as usize].inputs.push(Input::World(op, event));
    }
}

/// The retry advice of a failure, as the real executor gives it.
fn retry_of(class: ErrorClass) -> Retry {
    match class {
        ErrorClass::NotFound | ErrorClass::Permission | ErrorClass::Exists | ErrorClass::ReadOnly => Retry::Never,
        _ => Retry::Later,
    }
}

fn sentence(class: ErrorClass, party: Party, link: &LinkScene) -> String {
    let (source, destination) = (&link.link.source, &link.link.destination);
    match party {
        Party::Source => format!("{source} failed with {class}"),
        Party::Destination => format!("{destination} failed with {class}"),
        _ => format!("the copy from {source} to {destination} failed with {class}"),
    }
}
