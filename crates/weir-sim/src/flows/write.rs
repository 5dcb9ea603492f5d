//! The outcome as it is written.

use serde::ser::{Serialize, SerializeStruct, Serializer};

use super::{FlowOutcome, ScenarioOutcome, Stats};
use crate::network::Moment;

impl Serialize for ScenarioOutcome {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut outcome = serializer.serialize_struct("Outcome", 2)?;
        outcome.serialize_field("flows", &self.flows)?;
        outcome.serialize_field("stats", &self.stats)?;
        outcome.end()
    }
}

impl Serialize for FlowOutcome {
    /// Times are decimals in seconds. A flow that took no time has no mean rate: `null`.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let duration = Moment(self.duration).as_seconds();
        let mean = (self.duration > 0).then(|| self.size.as_f64() * 8.0 / duration);
        let mut flow = serializer.serialize_struct("Flow", 4)?;
        flow.serialize_field("id", &self.id)?;
        flow.serialize_field("finish_s", &self.finish.as_seconds())?;
        flow.serialize_field("duration_s", &duration)?;
        flow.serialize_field("mean_bps", &mean)?;
        flow.end()
    }
}

impl Serialize for Stats {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut stats = serializer.serialize_struct("Stats", 6)?;
        stats.serialize_field("flows", &self.flows)?;
        stats.serialize_field("links", &self.links)?;
        stats.serialize_field("classes", &self.classes)?;
        stats.serialize_field("live_max", &self.live_max)?;
        stats.serialize_field("solutions", &self.solutions)?;
        stats.serialize_field("bytes", &(self.bytes as f64))?;
        stats.end()
    }
}
