//! The oracle: an account of every wait of the run, and of the bytes of each link.
//!
//! The world knows which limit froze each flow and which place each attempt waited for. The account is complete: of each
//! link, every moment of every transfer is in one state. Rows are added when a state ends, and, for states that last, at
//! each sample.

use std::collections::BTreeMap;
use std::time::Duration;

use weir_measure::Signals;
use weir_measure::deficit::DeficitBook;
use weir_measure::signals::PlaceId;
use weir_sched::{LinkWaits, QueueWait, Resource};
use weir_units::Timestamp;
use weir_world::{ErrorClass, Party, Place, PlaceKind, Wait, WaitPhase};

use super::attempt_state::Step;
use crate::network::{ClassId, HeldFlows, ResourceId};
use crate::scene::{LinkScene, Scene, StreamLimit};
use crate::world::storage::StoragePart;

/// Width of the bins of a world that nobody measures.
const WIDTH: Duration = Duration::from_secs(1);

/// See the module.
pub(crate) struct WaitBook {
    signals: Signals,
    deficits: DeficitBook,
    /// Until when the lasting states are accounted for.
    pub(super) until: Timestamp,
    /// The link of each class of flows, and whether they read a file back.
    classes: Vec<Option<(usize, bool)>>,
    /// The place of each resource of the network, and the state of flows that it freezes.
    limits: BTreeMap<ResourceId, Limit>,
    /// Places of links: source, destination, path.
    ends: Vec<[PlaceId; 3]>,
    issuer: PlaceId,
    /// The transfer service.
    service: PlaceId,
    /// Files of each link that are with the catalogue, and since when so many.
    catalogued: Vec<(i64, Timestamp)>,
    /// The queue's account at the last sample.
    queued: BTreeMap<(usize, Wait, Option<Resource>), Duration>,
    /// The time of each link's slots at the last sample.
    slots: BTreeMap<usize, Duration>,
}

/// A resource as a place that is waited for.
#[derive(Debug, Clone, Copy)]
enum Limit {
    /// A part of the network.
    Wire(PlaceId),
    /// A storage element: the place depends on the direction of the flow. With the state in which its flows wait.
    Storage(usize, Wait),
    /// One of its servers.
    Server(PlaceId),
}

impl WaitBook {
    pub(super) fn new(scene: &Scene, width: Duration) -> Self {
        let mut signals = Signals::new(width);
        let ends = scene
            .links
            .iter()
            .map(|link| ends_of(scene, link, &mut signals))
            .collect();
        for link in 0..scene.links.len() {
            for phase in [WaitPhase::Begin, WaitPhase::Data, WaitPhase::End] {
                signals.know(link, phase);
            }
        }
        Self {
            issuer: signals.place(&Place::new(PlaceKind::Issuer, "tokens")),
            service: signals.place(&Place::new(PlaceKind::Service, "transfer")),
            deficits: DeficitBook::new(scene.links.len(), width),
            until: Timestamp(0),
            classes: Vec::new(),
            limits: BTreeMap::new(),
            ends,
            catalogued: vec![(0, Timestamp(0)); scene.links.len()],
            queued: BTreeMap::new(),
            slots: BTreeMap::new(),
            signals,
        }
    }

    /// Notes that a resource is a wire.
    pub(super) fn wire(&mut self, resource: ResourceId, place: &Place) {
        let place = self.signals.place(place);
        self.limits.insert(resource, Limit::Wire(place));
    }

    /// Notes that a resource is a part of a storage element.
    pub(super) fn storage(&mut self, scene: &Scene, resource: ResourceId, storage: usize, part: StoragePart) {
        let limit = match part {
            StoragePart::Server(number) => {
                let name = format!("{}#{}", scene.storages[storage].name, number + 1);
                Limit::Server(self.signals.place(&Place::new(PlaceKind::Server, name)))
            }
            StoragePart::Disk => Limit::Storage(storage, Wait::Disk),
            StoragePart::Limiter => Limit::Storage(storage, Wait::Limiter),
        };
        self.limits.insert(resource, limit);
    }

    /// Notes whose flows a class has.
    pub(super) fn class(&mut self, class: ClassId, link: usize, reads_back: bool) {
        if self.classes.len() <= class.index() {
            self.classes.resize(class.index() + 1, None);
        }
        self.classes[class.index()] = Some((link, reads_back));
    }

    /// A step of one attempt lasted from one moment to another.
    pub(super) fn step(&mut self, link: usize, step: Step, (from, to): (Timestamp, Timestamp)) {
        if to <= from {
            return;
        }
        let [source, destination, path] = self.ends[link];
        let (wait, place) = match step {
            Step::Token => (Wait::Token, Some(self.issuer)),
            Step::Look => (Wait::Look, None),
            Step::Connect => (Wait::Connect, Some(path)),
            Step::Tls => (Wait::Tls, Some(path)),
            Step::FirstByte => (Wait::FirstByte, Some(path)),
            Step::Delete => (Wait::Delete, Some(destination)),
            Step::Place(end) => (Wait::Place, Some([source, destination][end])),
            Step::Stall => (Wait::Data, Some(path)),
            Step::Close => (Wait::Close, Some(destination)),
        };
        let time = to.since(from);
        self.signals.add(link, (wait, place), time, span(from, to));
    }

    /// Files of a link come to the catalogue: from a workload, or from a transfer that ended. Or they leave it: for the
    /// transfer service, or because the catalogue has said how they ended.
    pub(super) fn in_catalogue(&mut self, link: usize, change: i64, now: Timestamp) {
        let (files, since) = self.catalogued[link];
        let passed = now.since(since);
        // A rule may end before its transfer: the file leaves before it comes.
        let waiting = u32::try_from(files).unwrap_or(0);
        if waiting > 0 && !passed.is_zero() {
            self.signals
                .add(link, (Wait::Catalogue, None), passed * waiting, span(since, now));
        }
        self.catalogued[link] = (files + change, now);
    }

    /// A transfer had ended, and waited until that was recorded.
    pub(super) fn recorded(&mut self, link: usize, (from, to): (Timestamp, Timestamp)) {
        self.signals
            .add(link, (Wait::Store, Some(self.service)), to.since(from), span(from, to));
    }

    /// Files of a link wait for slots, and nobody tells where.
    pub(super) fn slots(&mut self, link: usize, files: u32, (from, to): (Duration, Duration)) {
        let passed = to.saturating_sub(from);
        self.signals.add(link, (Wait::Slots, None), passed * files, (from, to));
    }

    pub(super) fn injected(&mut self, link: usize, bytes: u64, at: Timestamp) {
        self.deficits.injected(link, bytes, at.since(Timestamp(0)));
    }

    pub(super) fn held_back(&mut self, link: usize, (from, to): (Timestamp, Timestamp)) {
        self.deficits.held_back(link, span(from, to));
    }

    pub(super) fn moved(&mut self, link: usize, bytes: u64, (from, to): (Timestamp, Timestamp)) {
        self.deficits.moved(link, bytes, span(from, to));
    }

    pub(super) fn failed(&mut self, link: usize, bytes: u64, (from, to): (Timestamp, Timestamp)) {
        self.deficits.failed(link, bytes, span(from, to));
    }

    /// An attempt failed.
    pub(super) fn attempt_failed(&mut self, link: usize, failure: (ErrorClass, Party), at: Timestamp) {
        let at = at.since(Timestamp(0));
        self.signals.fail(link, (failure.0, Some(failure.1)), 1, (at, at));
    }

    pub(super) fn lost(&mut self, link: usize, bytes: u64, at: Timestamp) {
        self.deficits.lost(link, bytes, at.since(Timestamp(0)));
    }

    /// The account, when the run is over.
    pub(super) fn take(&mut self, scene: &Scene) -> (Signals, DeficitBook) {
        let fresh = Self::new(scene, WIDTH);
        let book = std::mem::replace(self, fresh);
        (book.signals, book.deficits)
    }

    /// Flows were held back by a limit.
    pub(super) fn flows(&mut self, scene: &Scene, held: HeldFlows, span: (Duration, Duration)) {
        let Some((link, reads_back)) = self.classes.get(held.class.index()).copied().flatten() else {
            return;
        };
        let [source, destination, path] = self.ends[link];
        let ends = &scene.links[link];
        let (wait, place) = match held.by.and_then(|resource| self.limits.get(&resource)) {
            Some(Limit::Wire(place)) => (Wait::Network, *place),
            Some(Limit::Server(place)) => (Wait::Disk, *place),
            Some(Limit::Storage(storage, wait)) if *storage == ends.source && !reads_back => (*wait, source),
            Some(Limit::Storage(_, wait)) => (*wait, destination),
            None if reads_back => (Wait::Disk, destination),
            None => match ends.stream_limit {
                StreamLimit::Path => (Wait::Window, path),
                StreamLimit::Source => (Wait::Disk, source),
                StreamLimit::Destination => (Wait::Disk, destination),
            },
        };
        // A file that is read back does not move.
        let wait = if reads_back { Wait::Checksum } else { wait };
        let time = Duration::from_nanos(u64::try_from(held.nanos).unwrap_or(u64::MAX));
        self.signals.add(link, (wait, Some(place)), time, span);
    }

    /// The scheduler's account of the queue of a link.
    pub(super) fn queue(&mut self, link: usize, scene: &Scene, waits: &LinkWaits, span: (Duration, Duration)) {
        self.signals.know(link, WaitPhase::Queue);
        for QueueWait { wait, resource, time } in &waits.waits {
            let before = self.queued.insert((link, *wait, *resource), *time).unwrap_or_default();
            let place = match wait {
                Wait::Store => Some(self.service),
                _ => resource.and_then(|resource| self.place_of(scene, resource)),
            };
            self.signals
                .add(link, (*wait, place), time.saturating_sub(before), span);
        }
        let before = self.slots.insert(link, waits.slots).unwrap_or_default();
        for resource in &waits.way {
            if let Some(place) = self.place_of(scene, *resource) {
                self.signals.hold(link, place, waits.slots.saturating_sub(before), span);
            }
        }
    }

    fn place_of(&mut self, scene: &Scene, resource: Resource) -> Option<PlaceId> {
        let storage = |se: weir_sched::SeId| scene.storages[se.0 as usize].name.clone();
        let (kind, name) = match resource {
            Resource::Link(link) => (
                PlaceKind::Path,
                format!("{}→{}", storage(link.source), storage(link.destination)),
            ),
            Resource::Inbound(se) => (PlaceKind::RseIn, storage(se)),
            Resource::Outbound(se) | Resource::Staging(se) => (PlaceKind::RseOut, storage(se)),
            Resource::Group(group) => (PlaceKind::Segment, scene.groups.get(group.0 as usize)?.name.clone()),
            // A simulated world has one virtual organisation, and no limits of its own for it.
            Resource::VoInbound(..) | Resource::VoOutbound(..) | Resource::VoStaging(..) => return None,
        };
        Some(self.signals.place(&Place::new(kind, name)))
    }
}

/// Source, destination and path of a link.
fn ends_of(scene: &Scene, link: &LinkScene, signals: &mut Signals) -> [PlaceId; 3] {
    let storage = |at: usize| scene.storages[at].name.as_str();
    let places = [
        Place::new(PlaceKind::RseOut, storage(link.source)),
        Place::new(PlaceKind::RseIn, storage(link.destination)),
        Place::new(PlaceKind::Path, link.link.to_string()),
    ];
    places.map(|place| signals.place(&place))
}

/// Two moments, counted from the start of the run.
pub(super) fn span(from: Timestamp, to: Timestamp) -> (Duration, Duration) {
    (from.since(Timestamp(0)), to.since(Timestamp(0)))
}
