//! From a challenge to a file that reads back to the same challenge, wherever it is put.

use toml::{Table, Value};
use weir_units::duration;

use crate::fault;
use crate::spec::{Challenge, MatrixSpec, RampSpec, RateSpec, RatesSpec, WorkloadSpec};
use crate::threshold::{Comparison, Subject, Threshold, Unit};

/// Writes the challenge with its grid and tables in place, so that it depends on no other file.
pub(crate) fn challenge(challenge: &Challenge) -> String {
    let mut table = Table::new();
    put(&mut table, "name", challenge.name.as_str());
    put(&mut table, "description", challenge.description.as_str());
    put(&mut table, "seed", i64::try_from(challenge.seed).unwrap_or(i64::MAX));
    put(&mut table, "scale", challenge.scale);
    put(&mut table, "grid", challenge.grid.to_toml());
    let mut phases = Table::new();
    put(&mut phases, "ramp", duration::format(challenge.phases.ramp));
    put(&mut phases, "hold", duration::format(challenge.phases.hold));
    put(&mut phases, "drain", duration::format(challenge.phases.drain));
    put(&mut table, "phases", phases);
    put(
        &mut table,
        "workload",
        challenge.workloads.iter().map(workload).collect::<Vec<_>>(),
    );
    put(
        &mut table,
        "threshold",
        challenge.thresholds.iter().map(threshold).collect::<Vec<_>>(),
    );
    if !challenge.faults.is_empty() {
        let faults: Vec<Table> = challenge.faults.iter().map(fault::write).collect();
        put(&mut table, "fault", faults);
    }
    if let Some(sim) = &challenge.sim {
        put(&mut table, "sim", sim.content().clone());
    }
    toml::to_string(&table).expect("a table of texts and numbers can be written")
}

fn put(table: &mut Table, key: &str, value: impl Into<Value>) {
    table.insert(key.to_owned(), value.into());
}

fn workload(spec: &WorkloadSpec) -> Table {
    let mut table = match spec {
        WorkloadSpec::Rates(spec) => rates(spec),
        WorkloadSpec::Matrix(spec) => matrix(spec),
        WorkloadSpec::Ramp(spec) => ramp(spec),
    };
    put(&mut table, "kind", spec.kind());
    put(&mut table, "name", spec.name());
    table
}

fn rates(spec: &RatesSpec) -> Table {
    let mut table = Table::new();
    put(&mut table, "activity", spec.activity.as_str());
    let rate = |spec: &RateSpec| {
        let mut entry = Table::new();
        put(&mut entry, "source", spec.link.source.as_str());
        put(&mut entry, "destination", spec.link.destination.as_str());
        put(&mut entry, "rate", spec.rate.to_string());
        entry
    };
    put(&mut table, "rates", spec.rates.iter().map(rate).collect::<Vec<_>>());
    put(&mut table, "file_size_min", spec.sizes.min.to_string());
    put(&mut table, "file_size_max", spec.sizes.max.to_string());
    put(&mut table, "files_min", spec.sizes.files_min);
    put(&mut table, "inject", spec.inject.as_str());
    if let Some(files) = spec.source_files {
        put(&mut table, "source_files", files);
    }
    if spec.is_loop {
        put(&mut table, "loop", true);
    }
    put(&mut table, "lifetime", duration::format(spec.lifetime));
    put(&mut table, "cycle", duration::format(spec.cycle));
    put(&mut table, "start", duration::format(spec.start));
    if let Some(length) = spec.length {
        put(&mut table, "length", duration::format(length));
    }
    table
}

fn matrix(spec: &MatrixSpec) -> Table {
    let mut table = Table::new();
    put(&mut table, "activity", spec.activity.as_str());
    put(&mut table, "links", texts(&spec.links));
    put(&mut table, "modes", texts(&spec.modes));
    put(&mut table, "sizes", texts(&spec.sizes));
    put(&mut table, "repeat", spec.repeat);
    put(&mut table, "at_once", spec.at_once);
    put(&mut table, "timeout", duration::format(spec.timeout));
    table
}

fn ramp(spec: &RampSpec) -> Table {
    let mut table = Table::new();
    put(&mut table, "activity", spec.activity.as_str());
    put(&mut table, "links", texts(&spec.links));
    put(&mut table, "parallel", spec.parallel.clone());
    put(&mut table, "file_size", spec.file_size.to_string());
    put(&mut table, "source_files", spec.source_files);
    put(&mut table, "repeat", spec.repeat);
    if let Some(mode) = spec.mode {
        put(&mut table, "mode", mode.as_str());
    }
    put(&mut table, "timeout", duration::format(spec.timeout));
    table
}

fn texts<T: ToString>(items: &[T]) -> Vec<String> {
    items.iter().map(ToString::to_string).collect()
}

fn threshold(threshold: &Threshold) -> Table {
    let mut table = Table::new();
    match &threshold.subject {
        Subject::Total => put(&mut table, "total", true),
        Subject::Site(site) => put(&mut table, "site", site.as_str()),
        Subject::Link(link) => put(&mut table, "link", link.to_string()),
        Subject::Workload(name) => put(&mut table, "workload", name.as_str()),
    }
    put(&mut table, "metric", threshold.metric.as_str());
    let bound = if threshold.comparison == Comparison::AtLeast {
        "min"
    } else {
        "max"
    };
    match threshold.metric.measure() {
        Unit::Rate => put(&mut table, bound, format!("{} b/s", threshold.asked)),
        Unit::Time => put(&mut table, bound, format!("{} s", threshold.asked)),
        Unit::Share | Unit::Ratio | Unit::Variation | Unit::Count => put(&mut table, bound, threshold.asked),
    }
    table
}
