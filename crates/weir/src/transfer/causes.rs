//! The time of links' transfers by cause, from the waits that a transfer service tells.

use anyhow::Context as _;
use serde_json::{Value, json};
use weir_fts_api::LinkWaits;
use weir_measure::diagnosis::{CauseShare, LinkTimes, time_by_cause};

use super::door::TransferClient;
use crate::failure::Failure;
use crate::output::Output;

/// Causes that are shown, and the least part of the time of one.
const SHOWN: usize = 5;
const PART: f64 = 0.01;

/// The waits of all links since the service's start.
pub(crate) struct ServiceTimes {
    links: Vec<(String, String)>,
    times: Vec<LinkTimes>,
}

impl ServiceTimes {
    /// Reads them. A service of another program tells none.
    pub(crate) async fn read(door: &TransferClient) -> Result<Self, Failure> {
        let told = door.get("/why/waits").await?;
        let told: Vec<LinkWaits<'static>> = serde_json::from_value(told)
            .context("could not read the waits of the transfer service")
            .map_err(Failure::could_not_run)?;
        let links = told
            .iter()
            .map(|link| (link.source_se.to_string(), link.dest_se.to_string()));
        let links = links.collect();
        let times = told.into_iter().map(|link| LinkTimes {
            waits: link
                .waits
                .into_iter()
                .map(|wait| (wait.wait, wait.place, wait.seconds))
                .collect(),
            slots_s: link.slot_seconds,
            way: link.way,
        });
        Ok(Self {
            times: times.collect(),
            links,
        })
    }

    /// The causes of a link's time; none of a link that the service does not know.
    pub(crate) fn of(&self, source: &str, destination: &str) -> Vec<CauseShare> {
        let is_it = |link: &(String, String)| link.0 == source && link.1 == destination;
        let at = self.links.iter().position(is_it);
        at.map(|at| time_by_cause(&self.times[at], &self.times))
            .unwrap_or_default()
    }
}

/// Shows causes below a line that says whose they are.
pub(crate) fn show(causes: &[CauseShare], indent: &str, output: &Output) {
    for cause in causes.iter().filter(|cause| cause.share >= PART).take(SHOWN) {
        let place = cause
            .place
            .as_ref()
            .map_or_else(String::new, |place| format!("  {place}"));
        let class = cause
            .class
            .map_or_else(|| "unexplained".to_owned(), |class| class.to_string());
        output.line(format!("{indent}{:>5.1} %  {class}{place}", cause.share * 100.0));
    }
}

/// The same as data.
pub(crate) fn data(causes: &[CauseShare]) -> Value {
    let one = |cause: &CauseShare| json!({ "class": cause.class, "place": cause.place, "share": cause.share });
    causes.iter().map(one).collect()
}
