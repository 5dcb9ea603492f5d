//! The time that the transfers of each link waited for, with the places: the scheduler's account of its queue, and the clocks of
//! attempts.

use std::{collections::BTreeMap, time::Duration};

use weir_executor::clock::AttemptWaits;
use weir_fts_api::{FailedAttempts, LinkWait, LinkWaits};
use weir_sched::{Link, Names, Resource, Scheduler};
use weir_service::time;
use weir_transfer::driver::Meter;
use weir_units::Timestamp;
use weir_world::{ErrorClass, Party, Place, PlaceKind, Wait};

/// Sums by state and place.
type Sums = BTreeMap<(Wait, Option<Place>), Duration>;

/// The waits of the links that `shown` covers, in the order of the links.
pub(crate) fn of(
    core: &Scheduler,
    names: &Names,
    meter: &Meter,
    shown: impl Fn(Link) -> bool,
) -> Vec<LinkWaits<'static>> {
    let mut attempts = meter.waits();
    let queues = core.waits(Timestamp(time::nanos())).filter(|queue| shown(queue.link));
    let mut all: Vec<LinkWaits<'static>> = Vec::new();
    for queue in queues {
        let mut sums = Sums::new();
        for wait in &queue.waits {
            let place = match wait.wait {
                Wait::Store => Some(own()),
                _ => wait.resource.map(|resource| place_of(names, resource)),
            };
            *sums.entry((wait.wait, place)).or_default() += wait.time;
        }
        let ends = Ends::of(names, queue.link);
        if let Some(waits) = attempts.remove(&queue.link) {
            ends.add(&waits, &mut sums);
        }
        all.push(LinkWaits {
            source_se: ends.source.to_owned().into(),
            dest_se: ends.destination.to_owned().into(),
            waits: listed(sums),
            slot_seconds: queue.slots.as_secs_f64(),
            way: queue.way.iter().map(|resource| place_of(names, *resource)).collect(),
            failures: failures(meter, queue.link),
        });
    }
    // A link of which the scheduler knows nothing any more.
    for (link, waits) in attempts.into_iter().filter(|(link, _)| shown(*link)) {
        let (ends, mut sums) = (Ends::of(names, link), Sums::new());
        ends.add(&waits, &mut sums);
        all.push(LinkWaits {
            source_se: ends.source.to_owned().into(),
            dest_se: ends.destination.to_owned().into(),
            waits: listed(sums),
            failures: failures(meter, link),
            ..LinkWaits::default()
        });
    }
    all
}

/// The attempts of a link that failed.
fn failures(meter: &Meter, link: Link) -> Vec<FailedAttempts> {
    let failed = meter.link(link).map(|link| &link.attempts_failed);
    let of = |(&(class, party), &attempts): (&(ErrorClass, Party), &u64)| FailedAttempts { class, party, attempts };
    failed.into_iter().flatten().map(of).collect()
}

fn listed(sums: Sums) -> Vec<LinkWait> {
    let sums = sums.into_iter().filter(|(_, time)| !time.is_zero());
    sums.map(|((wait, place), time)| LinkWait {
        wait,
        place,
        seconds: time.as_secs_f64(),
    })
    .collect()
}

/// The transfer service itself, which waits for its database or for one of its workers.
fn own() -> Place {
    Place::new(PlaceKind::Service, "transfer")
}

/// A resource of the scheduler as a place.
fn place_of(names: &Names, resource: Resource) -> Place {
    let (kind, name) = match resource {
        Resource::Link(link) => return Ends::of(names, link).path(),
        Resource::Inbound(se) => (PlaceKind::RseIn, names.se_name(se)),
        Resource::Outbound(se) | Resource::Staging(se) => (PlaceKind::RseOut, names.se_name(se)),
        Resource::Group(group) => (PlaceKind::Segment, names.group_name(group)),
        Resource::VoInbound(_, vo) | Resource::VoOutbound(_, vo) | Resource::VoStaging(_, vo) => {
            (PlaceKind::Vo, names.vo_name(vo))
        }
    };
    Place::new(kind, name)
}

/// The names of a link's ends.
struct Ends<'n> {
    source: &'n str,
    destination: &'n str,
}

impl<'n> Ends<'n> {
    fn of(names: &'n Names, link: Link) -> Self {
        Self {
            source: names.se_name(link.source),
            destination: names.se_name(link.destination),
        }
    }

    fn path(&self) -> Place {
        Place::new(PlaceKind::Path, format!("{}→{}", self.source, self.destination))
    }

    /// Adds the states of attempts at their places.
    fn add(&self, waits: &AttemptWaits, sums: &mut Sums) {
        let at_source = waits.at_source.as_deref().copied().unwrap_or_default();
        let mut of_servers = Duration::ZERO;
        for (server, time) in waits.servers.iter() {
            of_servers = of_servers.saturating_add(time);
            let place = Place::new(PlaceKind::Server, server.to_string());
            *sums.entry((Wait::Data, Some(place))).or_default() += time;
        }
        for (wait, time) in waits.all.iter() {
            let time = if wait == Wait::Data {
                time.saturating_sub(of_servers)
            } else {
                time
            };
            let of_source = at_source.get(wait).min(time);
            for (time, is_at_source) in [(of_source, true), (time.saturating_sub(of_source), false)] {
                if !time.is_zero() {
                    *sums.entry((wait, self.place(wait, is_at_source))).or_default() += time;
                }
            }
        }
    }

    /// The place that an attempt waits for in a state; `None` where that may be either end.
    fn place(&self, wait: Wait, is_at_source: bool) -> Option<Place> {
        match wait {
            Wait::Executor | Wait::Store => Some(own()),
            // An attempt does not tell which one, if there are several.
            Wait::Token => Some(Place::new(PlaceKind::Issuer, "tokens")),
            Wait::Network | Wait::Window => Some(self.path()),
            Wait::Place
            | Wait::Disk
            | Wait::Processor
            | Wait::Permit
            | Wait::Limiter
            | Wait::Checksum
            | Wait::Close
            | Wait::Delete
            | Wait::Verify => Some(if is_at_source {
                Place::new(PlaceKind::RseOut, self.source)
            } else {
                Place::new(PlaceKind::RseIn, self.destination)
            }),
            _ => None,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may panic")]
mod tests {
    use weir_executor::clock::ServerTimes;
    use weir_world::Waits;

    use super::*;

    #[test]
    fn a_push_waits_at_its_source() {
        let ends = Ends {
            source: "https://a",
            destination: "https://b",
        };
        let mut waits = AttemptWaits {
            all: Waits::parse("store=5 token=9 data=30 network=4 disk=100").unwrap(),
            at_source: Waits::parse("network=1 disk=60").map(Box::new),
            servers: ServerTimes::default(),
        };
        waits.servers.add([192, 0, 2, 7].into(), Duration::from_micros(20));
        let mut sums = Sums::new();
        ends.add(&waits, &mut sums);
        let shown = |wait: &LinkWait| {
            let place = wait.place.as_ref().map_or_else(String::new, Place::to_string);
            format!("{} {place} {:.0}", wait.wait, wait.seconds * 1e6)
        };
        assert_eq!(
            listed(sums).iter().map(shown).collect::<Vec<_>>(),
            [
                "store service:transfer 5",
                "token issuer:tokens 9",
                "data  10",
                "data server:192.0.2.7 20",
                "network path:https://a→https://b 4",
                "disk rse-in:https://b 40",
                "disk rse-out:https://a 60"
            ]
        );
    }
}
