//! Figures of the events, for the service's metrics.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use parking_lot::Mutex;
use weir_service::metrics::{Kind, Page};

use crate::kind::MessageKind;

/// Counters since the start.
#[derive(Debug, Default)]
pub struct Meters {
    /// Messages in the spool, by [`MessageKind`].
    pub written: [AtomicU64; 3],
    /// Notices whose rows could not be read.
    pub unwritten: AtomicU64,
    /// Times that the spool could not be written.
    pub troubles: AtomicU64,
    /// By the sink's name.
    sinks: Mutex<BTreeMap<String, Arc<SinkMeter>>>,
}

/// Counters of one sink.
#[derive(Debug, Default)]
pub struct SinkMeter {
    /// Messages that it has taken.
    pub delivered: AtomicU64,
    /// Messages that it refused for good, and that were set aside.
    pub refused: AtomicU64,
    /// Segments of the spool that went before it had read them.
    pub lost: AtomicU64,
    /// Attempts that failed.
    pub failures: AtomicU64,
}

impl Meters {
    /// A sink's counters.
    pub fn sink(&self, name: &str) -> Arc<SinkMeter> {
        let mut sinks = self.sinks.lock();
        sinks.entry(name.to_owned()).or_default().clone()
    }

    /// For the page of a service.
    pub fn show(&self, page: &mut Page, service: &str) {
        let name = |what: &str| format!("weir_{service}_events_{what}");
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let help = "Messages written to the spool.";
        page.family(&format!("weir_{service}_events_total"), Kind::Counter, help);
        for kind in MessageKind::ALL {
            page.sample(&[("type", kind.as_str())], read(&self.written[kind as usize]));
        }
        page.single(
            &name("unwritten_total"),
            Kind::Counter,
            "Changes of which no message could be made, as their rows cannot be read.",
            read(&self.unwritten),
        );
        page.single(
            &name("spool_failures_total"),
            Kind::Counter,
            "Times that the spool could not be written.",
            read(&self.troubles),
        );
        let sinks = self.sinks.lock();
        let mut family = |name: &str, help: &str, pick: fn(&SinkMeter) -> &AtomicU64| {
            page.family(name, Kind::Counter, help);
            for (name, meter) in sinks.iter() {
                page.sample(&[("sink", name)], read(pick(meter)));
            }
        };
        let help = "Messages that a sink has taken.";
        family(&name("delivered_total"), help, |meter| &meter.delivered);
        let help = "Messages that a sink refused for good; they are set aside.";
        family(&name("refused_total"), help, |meter| &meter.refused);
        let help = "Segments of the spool that went before a sink had read them.";
        family(&name("lost_total"), help, |meter| &meter.lost);
        let help = "Deliveries that failed and were or will be tried again.";
        family(&name("failures_total"), help, |meter| &meter.failures);
    }
}
