//! Figures of the events, for the service's metrics.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

/// Counters since the start.
#[derive(Debug, Default)]
pub(crate) struct Meters {
    /// Messages in the spool, by [`super::MessageKind`].
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
pub(crate) struct SinkMeter {
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
    pub(crate) fn sink(&self, name: &str) -> Arc<SinkMeter> {
        let mut sinks = self.sinks.lock().unwrap_or_else(PoisonError::into_inner);
        sinks.entry(name.to_owned()).or_default().clone()
    }

    /// Prometheus text.
    pub(crate) fn text(&self) -> String {
        use std::fmt::Write as _;
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let mut text = String::new();
        let mut family = |name: &str, help: &str, rows: &[(String, u64)]| {
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} counter");
            for (labels, value) in rows {
                let _ = writeln!(text, "{name}{labels} {value}");
            }
        };
        let kinds = super::MessageKind::ALL.map(|kind| {
            let value = read(&self.written[kind as usize]);
            (format!("{{type=\"{}\"}}", kind.as_str()), value)
        });
        family("weir_transfer_events_total", "Messages written to the spool.", &kinds);
        family(
            "weir_transfer_events_unwritten_total",
            "Changes of which no message could be made, as their rows cannot be read.",
            &[(String::new(), read(&self.unwritten))],
        );
        family(
            "weir_transfer_events_spool_failures_total",
            "Times that the spool could not be written.",
            &[(String::new(), read(&self.troubles))],
        );
        let sinks = self.sinks.lock().unwrap_or_else(PoisonError::into_inner);
        let of = |pick: fn(&SinkMeter) -> &AtomicU64| -> Vec<_> {
            let row = |(name, meter): (&String, &Arc<SinkMeter>)| (format!("{{sink=\"{name}\"}}"), read(pick(meter)));
            sinks.iter().map(row).collect()
        };
        family(
            "weir_transfer_events_delivered_total",
            "Messages that a sink has taken.",
            &of(|meter| &meter.delivered),
        );
        family(
            "weir_transfer_events_refused_total",
            "Messages that a sink refused for good; they are set aside.",
            &of(|meter| &meter.refused),
        );
        family(
            "weir_transfer_events_lost_total",
            "Segments of the spool that went before a sink had read them.",
            &of(|meter| &meter.lost),
        );
        family(
            "weir_transfer_events_failures_total",
            "Deliveries that failed and were or will be tried again.",
            &of(|meter| &meter.failures),
        );
        text
    }
}
