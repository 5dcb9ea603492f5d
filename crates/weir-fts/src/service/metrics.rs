//! `GET /.well-known/weir/metrics`: figures for Prometheus. Each is defined in `docs/metrics-transfer.md`.

use axum::{
    Extension,
    extract::FromRequestParts as _,
    response::{IntoResponse, Response},
};
use http::{header, request::Parts};
use std::collections::BTreeMap;
use weir_http::ConnectionInfo;
use weir_sched::{Counts, GateStats, Link, LinkStats, Names, Scheduler, SeStats, TapeStats, Work};
use weir_service::metrics::{
    CONTENT_TYPE,
    Kind::{Counter, Gauge},
    Page,
};

use weir_fts_api::LinkWaits;
use weir_world::Wait;

use crate::state::State;
use crate::{access::caller::Caller, messages::answer::ApiError, operation::waits};
use weir_service::time;
use weir_transfer::{
    driver::{LinkMeter, Meter, QueueDepth},
    nodes,
};

use crate::state::Door;

/// For the networks of `metrics_allow`, and for administrators: a VO's names, depths and volumes are no other VO's business.
pub(crate) async fn metrics(
    service: State,
    Extension(connection): Extension<ConnectionInfo>,
    request: Parts,
) -> Response {
    if !weir_http::comes_from(
        &service.callers.get().metrics_allow,
        connection.peer.ip(),
        &request.headers,
    ) {
        let mut parts = request;
        let caller = Caller::from_request_parts(&mut parts, &service).await;
        if let Err(refused) = caller.and_then(|caller| caller.require_admin()) {
            return refused.into_response();
        }
    }
    let figures = service
        .driver
        .look(|core: &Scheduler, names: &Names, meter: &Meter| Figures::of(core, names, meter))
        .await;
    // A node that does not schedule has no queue to show, but itself.
    if figures.is_none() && service.membership.is_none() {
        return ApiError::unavailable("The service is stopping").into_response();
    }
    let mut page = Page::default();
    if let Some(figures) = figures {
        figures.show(&mut page);
    }
    show_service(&mut page, &service).await;
    ([(header::CONTENT_TYPE, CONTENT_TYPE)], page.text()).into_response()
}

/// Metrics of a service beside its queue.
async fn show_service(page: &mut Page, service: &Door) {
    let help = "1 if the store can be read and written, and the scheduler runs";
    let up = u32::from(service.driver.trouble().is_none());
    page.single("weir_transfer_store_ok", Gauge, help, up);
    let help = "Rows of the store that were passed over at the start";
    let unreadable = service.driver.unreadable().len();
    page.single("weir_transfer_unreadable_rows", Gauge, help, unreadable);
    let help = "Changes that the store will never take: their files failed, or their request was refused";
    page.single(
        "weir_transfer_set_aside_total",
        Counter,
        help,
        service.driver.set_aside(),
    );
    service.refresher.show(page);
    let help = "How far the wall clock has stepped away from the service's time, which goes after it";
    page.single("weir_transfer_clock_ahead_seconds", Gauge, help, time::wall_ahead());
    service.reloads.show(page, "transfer");
    if let Some(meters) = service.events.meters() {
        meters.show(page, "transfer");
    }
    if let Some(membership) = &service.membership {
        nodes::show(page, membership, service.driver.is_taken()).await;
    }
}

/// Figures requested from the scheduler's loop; it continues while they are written.
struct Figures {
    names: Names,
    links: Vec<LinkStats>,
    ses: Vec<SeStats>,
    tapes: Vec<TapeStats>,
    totals: Counts,
    standings: Vec<QueueDepth>,
    meters: Vec<(Link, LinkMeter)>,
    waits: Vec<LinkWaits<'static>>,
}

impl Figures {
    fn of(core: &Scheduler, names: &Names, meter: &Meter) -> Self {
        Self {
            names: names.clone(),
            links: core.links().collect(),
            ses: core.ses().collect(),
            tapes: core.tapes().collect(),
            totals: core.totals(),
            standings: meter.depth.standings(names),
            meters: meter.links().map(|(link, meter)| (*link, meter.clone())).collect(),
            waits: waits::of(core, names, meter, |_| true),
        }
    }

    fn show(&self, page: &mut Page) {
        queues(page, &self.names, &self.links);
        slots(page, &self.names, &self.ses);
        tapes(page, &self.names, &self.tapes);
        totals(page, &self.totals);
        waiting(page, &self.standings);
        counted(page, &self.names, &self.meters);
        waited(page, &self.waits);
    }
}

fn of_link(names: &Names, link: Link) -> [(&'static str, &str); 2] {
    [
        ("source", names.se_name(link.source)),
        ("destination", names.se_name(link.destination)),
    ]
}

fn queues(page: &mut Page, names: &Names, links: &[LinkStats]) {
    let mut family = |name, help, of: fn(&LinkStats) -> u64| {
        page.family(name, Gauge, help);
        for link in links {
            page.sample(&of_link(names, link.link), of(link));
        }
    };
    family("weir_transfer_queued", "Transfers that wait for a slot", |link| {
        link.counts.queued
    });
    family("weir_transfer_queued_bytes", "Their sizes as far as known", |link| {
        link.counts.queued_bytes.0
    });
    family("weir_transfer_delayed", "Transfers that wait for a retry", |link| {
        link.counts.delayed
    });
    family("weir_transfer_active", "Transfers that hold a slot", |link| {
        link.counts.active
    });
    family(
        "weir_transfer_link_limit",
        "Slots of the link, by the operator",
        |link| u64::from(link.limit),
    );
    family(
        "weir_transfer_link_allowed",
        "Slots of the link now: the least of what operator, optimiser and pauses allow",
        |link| u64::from(link.allowed),
    );
}

fn slots(page: &mut Page, names: &Names, ses: &[SeStats]) {
    let mut family = |name, help, of: fn(&GateStats) -> u32| {
        page.family(name, Gauge, help);
        for se in ses {
            let name = names.se_name(se.se);
            for (direction, gate) in [("inbound", &se.inbound), ("outbound", &se.outbound)] {
                page.sample(&[("se", name), ("direction", direction)], of(gate));
            }
        }
    };
    let help = "Slots held of a storage element, by direction";
    family("weir_transfer_se_active", help, |gate| gate.active);
    let help = "Slots of a storage element, by direction";
    family("weir_transfer_se_limit", help, |gate| gate.limit);
}

fn tapes(page: &mut Page, names: &Names, tapes: &[TapeStats]) {
    let mut family = |work: Work, name: &str, help: &str, of: fn(&TapeStats) -> u64| {
        page.family(name, Gauge, help);
        for tape in tapes.iter().filter(|tape| tape.work == work) {
            let labels = [("se", names.se_name(tape.se)), ("vo", names.vo_name(tape.vo))];
            page.sample(&labels, of(tape));
        }
    };
    let help = "Files that wait for their turn to be brought online";
    family(Work::Stage, "weir_transfer_staging_queued", help, |tape| tape.queued);
    let help = "Files that are being brought online";
    family(Work::Stage, "weir_transfer_staging", help, |tape| tape.active);
    let help = "Copies that are watched until they are on tape";
    family(Work::Archive, "weir_transfer_archiving", help, |tape| {
        tape.queued + tape.active
    });
}

fn waiting(page: &mut Page, standings: &[QueueDepth]) {
    let vos = || standings.iter().filter(|standing| standing.kind == "vo");
    let help = "Transfers of a VO that have not ended";
    page.family("weir_transfer_vo_depth", Gauge, help);
    for vo in vos() {
        page.sample(&[("vo", &vo.name)], vo.depth);
    }
    let help = "When the oldest transfer of a VO that never started came in, to the minute";
    page.family("weir_transfer_vo_oldest_timestamp_seconds", Gauge, help);
    for vo in vos() {
        if let Some(at) = vo.oldest {
            page.sample(&[("vo", &vo.name)], at / 1000);
        }
    }
}

fn totals(page: &mut Page, totals: &Counts) {
    let help = "Transfers that came to their end since the start, by state";
    page.family("weir_transfer_ended_total", Counter, help);
    for (state, count) in [
        ("FINISHED", totals.finished),
        ("FAILED", totals.failed),
        ("CANCELED", totals.cancelled),
    ] {
        page.sample(&[("state", state)], count);
    }
    let help = "Attempts that ended and were followed by another";
    page.single("weir_transfer_retried_total", Counter, help, totals.retried);
}

fn counted(page: &mut Page, names: &Names, meters: &[(Link, LinkMeter)]) {
    let mut family = |name: &str, help: &str, of: fn(&LinkMeter) -> u64| {
        page.family(name, Counter, help);
        for (link, counts) in meters {
            page.sample(&of_link(names, *link), of(counts));
        }
    };
    family(
        "weir_transfer_moved_bytes_total",
        "Bytes seen moving, failed attempts included",
        |m| m.moved_bytes,
    );
    family("weir_transfer_finished_bytes_total", "Sizes of finished files", |m| {
        m.finished_bytes
    });
    family("weir_transfer_finished_total", "Files finished", |m| m.finished);
    family(
        "weir_transfer_adopted_total",
        "Files found whole after an interruption",
        |m| m.adopted,
    );
    let mut classes = |name: &str, help: &str, label: &'static str, of: fn(&LinkMeter) -> &ByWord| {
        page.family(name, Counter, help);
        for (link, counts) in meters {
            let [source, destination] = of_link(names, *link);
            for (word, count) in of(counts) {
                page.sample(&[source, destination, (label, word)], *count);
            }
        }
    };
    classes("weir_transfer_failed_total", "Files failed, by class", "class", |m| {
        &m.failed
    });
    let help = "Attempts tried again, by class";
    classes("weir_transfer_retries_total", help, "class", |m| &m.retried);
    classes("weir_transfer_copies_total", "Finished copies, by mode", "mode", |m| {
        &m.modes
    });
}

/// The time in each state. Places are left out: they would make a series each.
fn waited(page: &mut Page, links: &[LinkWaits<'_>]) {
    let help = "Time that transfers spent in each state, as a sum over them";
    page.family("weir_transfer_wait_seconds_total", Counter, help);
    for link in links {
        let mut states: BTreeMap<Wait, f64> = BTreeMap::new();
        for wait in &link.waits {
            *states.entry(wait.wait).or_default() += wait.seconds;
        }
        for (state, seconds) in states {
            let labels = [
                ("source", link.source_se.as_ref()),
                ("destination", link.dest_se.as_ref()),
                ("state", state.as_str()),
            ];
            page.sample(&labels, seconds);
        }
    }
}

/// Counts by class of failure, or by mode of copy.
type ByWord = BTreeMap<&'static str, u64>;
