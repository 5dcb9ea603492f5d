//! A page of metrics: OpenMetrics text, as Prometheus reads it. A service collects its figures when it is asked, family by family.

use std::fmt;
use std::sync::LazyLock;
use std::time::{SystemTime, UNIX_EPOCH};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric as _, MetricEncoder, NoLabelSet, text},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
    registry::Registry,
};

/// Ticks of a second in `/proc/PID/stat` (`USER_HZ`, proc(5)).
const TICKS: f64 = 100.0;

/// The begin of this process in s since 1970; that of the first call where the kernel does not tell.
fn process_start() -> f64 {
    static START: LazyLock<f64> = LazyLock::new(|| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        now.as_secs_f64() - age().unwrap_or_default().max(0.0)
    });
    *START
}

/// The age of this process in s.
fn age() -> Option<f64> {
    let uptime = std::fs::read_to_string("/proc/uptime").ok()?;
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // Behind the name, which may hold anything: field 22 of the line is field 20 from there.
    let started: f64 = stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()?;
    Some(uptime.split_whitespace().next()?.parse::<f64>().ok()? - started / TICKS)
}

/// The content type of a page.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The type of a family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only grows; its name ends in `_total`.
    Counter,
    /// Goes up and down.
    Gauge,
}

/// The value of a sample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value {
    /// A count.
    Count(u64),
    /// A number that may be below zero.
    Signed(i64),
    /// A measure.
    Real(f64),
}

impl From<u64> for Value {
    fn from(value: u64) -> Self {
        Self::Count(value)
    }
}

impl From<u32> for Value {
    fn from(value: u32) -> Self {
        Self::Count(value.into())
    }
}

impl From<usize> for Value {
    fn from(value: usize) -> Self {
        Self::Count(value as u64)
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Signed(value)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Real(value)
    }
}

type Labels = Vec<(&'static str, String)>;

#[derive(Debug)]
struct Family {
    name: String,
    help: String,
    samples: Samples,
}

#[derive(Debug)]
enum Samples {
    Plain(Kind, Vec<(Labels, Value)>),
    Histograms(Vec<(Labels, Histogram)>),
}

/// Times of events, by length.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Histogram {
    /// Their sum in seconds.
    pub sum: f64,
    /// Upper ends of buckets in seconds, growing, and how many events are in each and no smaller one. The last end is infinite.
    pub buckets: Vec<(f64, u64)>,
}

/// Figures on their way to a page.
#[derive(Debug, Default)]
pub struct Page {
    families: Vec<Family>,
}

impl Page {
    /// A page that begins with the begin of the process, so that a reader notices when counters began at zero.
    pub fn of_process() -> Self {
        let mut page = Self::default();
        let help = "begin of the process in s since 1970";
        page.single("process_start_time_seconds", Kind::Gauge, help, process_start());
        page
    }

    /// Begins a family; the samples that follow are its own.
    pub fn family(&mut self, name: &str, kind: Kind, help: &str) {
        self.families.push(Family {
            name: name.to_owned(),
            help: help.to_owned(),
            samples: Samples::Plain(kind, Vec::new()),
        });
    }

    /// A sample of the family that was begun last.
    pub fn sample(&mut self, labels: &[(&'static str, &str)], value: impl Into<Value>) {
        if let Some(Samples::Plain(_, samples)) = self.families.last_mut().map(|family| &mut family.samples) {
            samples.push((owned(labels), value.into()));
        }
    }

    /// A family of one sample without labels.
    pub fn single(&mut self, name: &str, kind: Kind, help: &str, value: impl Into<Value>) {
        self.family(name, kind, help);
        self.sample(&[], value);
    }

    /// A family of histograms, by their labels.
    pub fn histograms<'a, L: AsRef<[(&'static str, &'a str)]>>(
        &mut self,
        name: &str,
        help: &str,
        each: impl IntoIterator<Item = (L, Histogram)>,
    ) {
        let each = each
            .into_iter()
            .map(|(labels, histogram)| (owned(labels.as_ref()), histogram));
        self.families.push(Family {
            name: name.to_owned(),
            help: help.to_owned(),
            samples: Samples::Histograms(each.collect()),
        });
    }

    /// The text.
    pub fn text(self) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(self));
        let mut text = String::new();
        // Nothing but the memory can refuse a text.
        let _ = text::encode(&mut text, &registry);
        text
    }
}

fn owned(labels: &[(&'static str, &str)]) -> Labels {
    labels
        .iter()
        .map(|(name, value)| (*name, (*value).to_owned()))
        .collect()
}

impl Collector for Page {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for Family { name, help, samples } in &self.families {
            // The format puts `_total` at the end of a counter's samples.
            match samples {
                Samples::Plain(kind, samples) => {
                    let (name, kind) = match kind {
                        Kind::Counter => (name.trim_end_matches("_total"), MetricType::Counter),
                        Kind::Gauge => (name.as_str(), MetricType::Gauge),
                    };
                    let mut family = encoder.encode_descriptor(name, help, None, kind)?;
                    for (labels, value) in samples {
                        encode(family.encode_family(labels)?, kind, *value)?;
                    }
                }
                Samples::Histograms(samples) => {
                    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
                    for (labels, histogram) in samples {
                        let count = histogram.buckets.iter().map(|(_, count)| count).sum();
                        family.encode_family(labels)?.encode_histogram::<NoLabelSet>(
                            histogram.sum,
                            count,
                            &histogram.buckets,
                            None,
                        )?;
                    }
                }
            }
        }
        Ok(())
    }
}

fn encode(sample: MetricEncoder<'_>, kind: MetricType, value: Value) -> fmt::Result {
    match (kind, value) {
        (MetricType::Counter, Value::Count(value)) => ConstCounter::new(value).encode(sample),
        (MetricType::Counter, Value::Signed(value)) => ConstCounter::new(value as f64).encode(sample),
        (MetricType::Counter, Value::Real(value)) => ConstCounter::new(value).encode(sample),
        (_, Value::Count(value)) => ConstGauge::new(value).encode(sample),
        (_, Value::Signed(value)) => ConstGauge::new(value).encode(sample),
        (_, Value::Real(value)) => ConstGauge::new(value).encode(sample),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_openmetrics() {
        let mut page = Page::default();
        page.family("weir_a_total", Kind::Counter, "What was counted.");
        page.sample(&[("name", "quoted \"and\" \\ broken\n")], 7_u64);
        page.sample(&[("name", "other")], 1.5);
        page.single("weir_b", Kind::Gauge, "how much", -3_i64);
        let histogram = Histogram {
            sum: 2.25,
            buckets: vec![(0.1, 2), (1.0, 1), (f64::INFINITY, 1)],
        };
        page.histograms("weir_c_seconds", "how long", [([("of", "x")], histogram)]);
        let expected = [
            "# HELP weir_a What was counted.",
            "# TYPE weir_a counter",
            r#"weir_a_total{name="quoted \"and\" \\ broken\n"} 7"#,
            r#"weir_a_total{name="other"} 1.5"#,
            "# HELP weir_b how much",
            "# TYPE weir_b gauge",
            "weir_b -3",
            "# HELP weir_c_seconds how long",
            "# TYPE weir_c_seconds histogram",
            r#"weir_c_seconds_sum{of="x"} 2.25"#,
            r#"weir_c_seconds_count{of="x"} 4"#,
            r#"weir_c_seconds_bucket{le="0.1",of="x"} 2"#,
            r#"weir_c_seconds_bucket{le="1.0",of="x"} 3"#,
            r#"weir_c_seconds_bucket{le="+Inf",of="x"} 4"#,
            "# EOF",
            "",
        ];
        assert_eq!(page.text().split('\n').collect::<Vec<_>>(), expected);
    }
}
