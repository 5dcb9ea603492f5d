//! A busy grid: crowds, parts that break, bans, and time that passes from alarm to alarm.

use std::sync::Arc;
use std::time::Duration;

use weir_sched::{Command, Input, Link, Op, Resource, SeId, Setting, Terms, Ticket};
use weir_units::Timestamp;
use weir_world::{Party, Retry};

use super::{SES, World};
use crate::moves::{Fate, Part, Together};

/// Alarms that ring without anything else happening between them, at most: more of them, and the core spins.
const ALARMS_MAX: usize = 100_000;

/// The link from a storage element to the next.
fn link_from(se: SeId) -> Link {
    Link {
        source: se,
        destination: SeId((se.0 + 1) % SES),
    }
}

impl World {
    /// Lets time pass. The core is stepped when an alarm is due, and not otherwise.
    pub(super) fn wait(&mut self, time: Duration) {
        let until = self.now + time;
        self.ring_until(until);
        self.now = until;
    }

    fn ring_until(&mut self, until: Timestamp) {
        for _ in 0..ALARMS_MAX {
            let Some(at) = self.woken.filter(|at| *at <= until) else {
                return;
            };
            self.ring(at);
        }
        panic!("the core asks to be woken over and over, at {:?}", self.woken);
    }

    pub(super) fn ring(&mut self, at: Timestamp) {
        self.now = self.now.max(at);
        self.step(&[Input::Timer]);
    }

    /// Every link out of a source, and every link into a destination, gets so many files.
    pub(super) fn crowd(&mut self, source: u32, destination: u32, files: u64, delay_secs: u64) {
        let terms = Terms {
            retry_delay: Duration::from_secs(delay_secs),
            ..Terms::default()
        };
        let (source, destination) = (SeId(source % SES), SeId(destination % SES));
        let others = (0..SES).map(SeId);
        let out = others.clone().map(|other| (source, other));
        let into = others
            .filter(|other| *other != source)
            .map(|other| (other, destination));
        for (source, destination) in out.chain(into) {
            let links = vec![Link { source, destination }; files as usize];
            self.submit(&links, terms, Together::Nothing, u8::MAX);
        }
    }

    pub(super) fn break_part(&mut self, part: (Part, SeId), on: bool) {
        if on {
            self.broken.insert(part);
        } else {
            self.broken.remove(&part);
        }
    }

    pub(super) fn ban(&mut self, (what, se): (Part, SeId), on: bool) {
        let resource = match what {
            Part::Link => Resource::Link(link_from(se)),
            Part::Source => Resource::Outbound(se),
            Part::Destination => Resource::Inbound(se),
        };
        self.limits_changed = true;
        self.inbox.push_back(Input::Command(Command::Set {
            ticket: Ticket(3),
            changes: Arc::new([Setting::Slots(resource, on.then_some(0))]),
        }));
    }

    /// The store and the executors are quick for so many rounds, and time passes when nothing else is left to do.
    pub(super) fn work(&mut self, rounds: usize, all: bool) {
        for _ in 0..rounds {
            self.catch_up();
            let mut running = self.running();
            running.sort_by_key(|op| self.started.get(op).copied());
            for op in &running[..if all { running.len() } else { running.len().min(1) }] {
                self.end_one(*op, Fate::Done);
            }
            if running.is_empty() && self.inbox.is_empty() {
                let Some(at) = self.woken else { return };
                self.ring(at);
            }
        }
    }

    /// Everything that is on its way arrives. The core is not stepped if nothing is.
    pub(super) fn catch_up(&mut self) {
        while !self.inbox.is_empty()
            || !self.restoring.is_empty()
            || !self.pending.is_empty()
            || self.told < self.durable
        {
            if !self.inbox.is_empty() || !self.restoring.is_empty() {
                self.deliver_all(false);
            }
            self.commit(usize::MAX);
            if self.told < self.durable {
                self.step(&[Input::Persisted(self.durable)]);
            }
        }
    }

    /// The fate of a copy if a part on its way is broken, and the party at fault.
    pub(super) fn fault_of(&self, order: &Op) -> Option<(Fate, Party)> {
        let Op::Copy { link, .. } = order else { return None };
        let parts = [
            (Part::Link, link_from(link.source), Party::Network),
            (Part::Source, *link, Party::Source),
            (Part::Destination, *link, Party::Destination),
        ];
        let is_broken = |(part, of, _): &(Part, Link, Party)| match part {
            Part::Link => of == link && self.broken.contains(&(Part::Link, link.source)),
            Part::Source => self.broken.contains(&(Part::Source, link.source)),
            Part::Destination => self.broken.contains(&(Part::Destination, link.destination)),
        };
        let (_, _, party) = parts.iter().find(|part| is_broken(part))?;
        Some((Fate::FailedEarly(Retry::Later), *party))
    }
}
