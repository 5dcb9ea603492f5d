//! The orders about faults that a run has carried out, in its folder: the report of a killed run has their faults, too.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_measure::Measurement;
use weir_plan::fault::{Course, Fault};

use super::orders::Order;

/// The file.
const FILE: &str = "faults.jsonl";

/// Bytes that are read of it: a thousand orders of the largest size.
const SIZE_MAX: u64 = 64 << 20;

/// An order, and when it was carried out.
#[derive(Debug, Serialize, Deserialize)]
struct Obeyed {
    /// Seconds from the start of the run.
    at_s: f64,
    #[serde(flatten)]
    order: Order,
}

/// Keeps an order that was carried out. Each line is one write, so that a killed run leaves whole lines.
pub(super) fn keep(run: &Path, at: Duration, order: Order) -> io::Result<()> {
    let obeyed = Obeyed {
        at_s: at.as_secs_f64(),
        order,
    };
    let mut line = serde_json::to_string(&obeyed).map_err(io::Error::other)?;
    line.push('\n');
    let mut file = OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(run.join(FILE))?;
    file.write_all(line.as_bytes())
}

/// A fault as it was ordered: it begins at a moment of the run.
pub(super) fn begun(plan: &weir_plan::Plan, at: Duration) -> Option<(Fault, Course)> {
    let mut fault = plan.faults.last()?.clone();
    fault.at = at;
    let course = fault.course(plan.seed, plan.phases.end() + plan.phases.drain);
    Some((fault, course))
}

/// Gives a measurement the faults that were ordered in the run of a folder. Gives the lines that say nothing.
pub(crate) fn replay(run: &Path, challenge: &str, measurement: &mut Measurement) -> Vec<String> {
    let Ok(file) = File::open(run.join(FILE)) else {
        return Vec::new();
    };
    let lines = BufReader::new(file.take(SIZE_MAX)).lines().map_while(Result::ok);
    let obey = |line: String| replay_line(&line, challenge, measurement).map_err(|reason| format!("{FILE}: {reason}"));
    lines.map(obey).filter_map(Result::err).collect()
}

fn replay_line(line: &str, challenge: &str, measurement: &mut Measurement) -> Result<(), String> {
    let obeyed: Obeyed = serde_json::from_str(line).map_err(|error| error.to_string())?;
    let at = Duration::try_from_secs_f64(obeyed.at_s).map_err(|error| error.to_string())?;
    match obeyed.order {
        Order::Add(text) => {
            let plan = super::orders::read(challenge, &text).map_err(|problems| super::orders::words(&problems))?;
            if let Some((fault, course)) = begun(&plan, at) {
                measurement.add_fault(fault, course);
            }
        }
        Order::Clear(name) => measurement.end_fault(&name, at),
    }
    Ok(())
}
