//! `GET /.well-known/weir/metrics`: figures for Prometheus. Each is defined in `docs/metrics.md`.

use std::fmt::Write as _;

use axum::{
    Extension,
    extract::FromRequestParts as _,
    response::{IntoResponse, Response},
};
use http::{header, request::Parts};
use weir_http::ConnectionInfo;
use weir_sched::{Counts, Link, LinkStats, Names, Scheduler, SeStats, TapeStats, Work};

use super::{State, answer::ApiError, caller::Caller};
use crate::{
    driver::{LinkMeter, Meter, Standing},
    events::Meters,
    time,
};

/// The type that Prometheus asks for (text format 0.0.4).
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// For the networks of `metrics_allow`, and for administrators: a VO's names, depths and volumes are no other VO's business.
pub(super) async fn metrics(
    service: State,
    Extension(connection): Extension<ConnectionInfo>,
    request: Parts,
) -> Response {
    if !weir_http::comes_from(&service.metrics_allow, connection.peer.ip(), &request.headers) {
        let mut parts = request;
        let caller = Caller::from_request_parts(&mut parts, &service).await;
        if let Err(refused) = caller.and_then(|caller| caller.require_admin()) {
            return refused.into_response();
        }
    }
    let page = service
        .driver
        .look(|core: &Scheduler, names: &Names, meter: &Meter| Figures::of(core, names, meter))
        .await;
    let page = page.map(|figures| figures.page());
    // A node that does not schedule has no queue to show, but itself.
    let page = page.or_else(|| service.membership.as_ref().map(|_| String::new()));
    match page {
        Some(mut text) => {
            let up = u8::from(service.driver.trouble().is_none());
            let help = "1 if the store can be read and written, and the scheduler runs";
            describe(&mut text, "weir_transfer_store_ok", "gauge", help);
            let _ = writeln!(text, "weir_transfer_store_ok {up}");
            let name = "weir_transfer_unreadable_rows";
            describe(
                &mut text,
                name,
                "gauge",
                "Rows of the store that were passed over at the start",
            );
            let _ = writeln!(text, "{name} {}", service.driver.unreadable().len());
            let name = "weir_transfer_set_aside_total";
            let help = "Changes that the store will never take: their files failed, or their request was refused";
            describe(&mut text, name, "counter", help);
            let _ = writeln!(text, "{name} {}", service.driver.set_aside());
            text += &service.keeper.figures();
            let name = "weir_transfer_clock_ahead_seconds";
            let help = "How far the wall clock has stepped away from the service's time, which goes after it";
            describe(&mut text, name, "gauge", help);
            let _ = writeln!(text, "{name} {}", time::wall_ahead());
            text.extend(service.events.meters().map(Meters::text));
            if let Some(membership) = &service.membership {
                text += &crate::nodes::figures(membership, service.driver.is_taken()).await;
            }
            ([(header::CONTENT_TYPE, TEXT)], text).into_response()
        }
        None => ApiError::unavailable("The service is stopping").into_response(),
    }
}

/// What the scheduler's loop is asked for; it goes on while this is written down.
struct Figures {
    names: Names,
    links: Vec<LinkStats>,
    ses: Vec<SeStats>,
    tapes: Vec<TapeStats>,
    totals: Counts,
    standings: Vec<Standing>,
    meters: Vec<(Link, LinkMeter)>,
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
        }
    }

    fn page(&self) -> String {
        let mut text = String::new();
        queues(&mut text, &self.names, &self.links);
        slots(&mut text, &self.names, &self.ses);
        tapes(&mut text, &self.names, &self.tapes);
        totals(&mut text, &self.totals);
        waiting(&mut text, &self.standings);
        counted(&mut text, &self.names, &self.meters);
        text
    }
}

fn describe(text: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn label(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn of_link(names: &Names, link: Link) -> String {
    format!(
        "source=\"{}\",destination=\"{}\"",
        label(names.se_name(link.source)),
        label(names.se_name(link.destination))
    )
}

/// One family of figures, one line per link.
fn per_link(
    text: &mut String,
    names: &Names,
    links: &[LinkStats],
    (name, help): (&str, &str),
    of: fn(&LinkStats) -> u64,
) {
    describe(text, name, "gauge", help);
    for link in links {
        let _ = writeln!(text, "{name}{{{}}} {}", of_link(names, link.link), of(link));
    }
}

fn queues(text: &mut String, names: &Names, links: &[LinkStats]) {
    let mut family = |name, help, of| per_link(text, names, links, (name, help), of);
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

fn slots(text: &mut String, names: &Names, ses: &[SeStats]) {
    describe(
        text,
        "weir_transfer_se_active",
        "gauge",
        "Slots held of a storage element, by direction",
    );
    for se in ses {
        let name = label(names.se_name(se.se));
        for (direction, gate) in [("inbound", se.inbound), ("outbound", se.outbound)] {
            let _ = writeln!(
                text,
                "weir_transfer_se_active{{se=\"{name}\",direction=\"{direction}\"}} {}",
                gate.active
            );
        }
    }
    describe(
        text,
        "weir_transfer_se_limit",
        "gauge",
        "Slots of a storage element, by direction",
    );
    for se in ses {
        let name = label(names.se_name(se.se));
        for (direction, gate) in [("inbound", se.inbound), ("outbound", se.outbound)] {
            let _ = writeln!(
                text,
                "weir_transfer_se_limit{{se=\"{name}\",direction=\"{direction}\"}} {}",
                gate.limit
            );
        }
    }
}

fn tapes(text: &mut String, names: &Names, tapes: &[TapeStats]) {
    let mut family = |work: Work, name: &str, help: &str, of: fn(&TapeStats) -> u64| {
        describe(text, name, "gauge", help);
        for tape in tapes.iter().filter(|tape| tape.work == work) {
            let (se, vo) = (label(names.se_name(tape.se)), label(names.vo_name(tape.vo)));
            let _ = writeln!(text, "{name}{{se=\"{se}\",vo=\"{vo}\"}} {}", of(tape));
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

fn waiting(text: &mut String, standings: &[Standing]) {
    let (depth, oldest) = ("weir_transfer_vo_depth", "weir_transfer_vo_oldest_timestamp_seconds");
    let vos = || standings.iter().filter(|standing| standing.kind == "vo");
    describe(text, depth, "gauge", "Transfers of a VO that have not ended");
    for vo in vos() {
        let _ = writeln!(text, "{depth}{{vo=\"{}\"}} {}", label(&vo.name), vo.depth);
    }
    let help = "When the oldest transfer of a VO that never started came in, to the minute";
    describe(text, oldest, "gauge", help);
    for vo in vos() {
        if let Some(at) = vo.oldest {
            let _ = writeln!(text, "{oldest}{{vo=\"{}\"}} {}", label(&vo.name), at / 1000);
        }
    }
}

fn totals(text: &mut String, totals: &Counts) {
    describe(
        text,
        "weir_transfer_ended_total",
        "counter",
        "Transfers that came to their end since the start, by state",
    );
    for (state, count) in [
        ("FINISHED", totals.finished),
        ("FAILED", totals.failed),
        ("CANCELED", totals.cancelled),
    ] {
        let _ = writeln!(text, "weir_transfer_ended_total{{state=\"{state}\"}} {count}");
    }
    describe(
        text,
        "weir_transfer_retried_total",
        "counter",
        "Attempts that ended and were followed by another",
    );
    let _ = writeln!(text, "weir_transfer_retried_total {}", totals.retried);
}

fn counted(text: &mut String, names: &Names, meters: &[(Link, LinkMeter)]) {
    let mut family = |name: &str, help: &str, of: fn(&LinkMeter) -> u64| {
        describe(text, name, "counter", help);
        for (link, counts) in meters {
            let _ = writeln!(text, "{name}{{{}}} {}", of_link(names, *link), of(counts));
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
    let classes = |name: &str, help: &str, label_name: &str, of: fn(&LinkMeter) -> Vec<(&'static str, u64)>| {
        let mut part = String::new();
        describe(&mut part, name, "counter", help);
        for (link, counts) in meters {
            for (class, count) in of(counts) {
                let _ = writeln!(
                    part,
                    "{name}{{{},{label_name}=\"{class}\"}} {count}",
                    of_link(names, *link)
                );
            }
        }
        part
    };
    let parts = [
        classes("weir_transfer_failed_total", "Files failed, by class", "class", |m| {
            listed(&m.failed)
        }),
        classes(
            "weir_transfer_retries_total",
            "Attempts tried again, by class",
            "class",
            |m| listed(&m.retried),
        ),
        classes("weir_transfer_copies_total", "Finished copies, by mode", "mode", |m| {
            listed(&m.modes)
        }),
    ];
    text.extend(parts);
}

fn listed(map: &std::collections::BTreeMap<&'static str, u64>) -> Vec<(&'static str, u64)> {
    map.iter().map(|(name, count)| (*name, *count)).collect()
}
