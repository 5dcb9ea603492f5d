//! Settings of the configuration file.

use super::{Key, Place, Plan, Worth};
use crate::config::TransferConfig;

/// The settings before administrators change them.
pub fn configured(config: &TransferConfig) -> Plan {
    let limits = &config.limits;
    let se = |name: &str| name.trim().trim_end_matches('/').to_owned();
    let slots = |place: Place, limit: u32| (Key::Slots(place), Worth::Number(limit));
    let mut plan = Plan::from([
        (Key::EveryLink, Worth::Number(limits.link)),
        (Key::EveryInbound, Worth::Number(limits.inbound)),
        (Key::EveryOutbound, Worth::Number(limits.outbound)),
        (Key::EveryStaging, Worth::Number(limits.staging)),
    ]);
    plan.extend(limits.links.iter().filter_map(|(link, limit)| {
        let (source, destination) = link.split_once('>')?;
        Some(slots(Place::Link((se(source), se(destination))), *limit))
    }));
    let inbounds = limits.inbounds.iter();
    plan.extend(inbounds.map(|(name, limit)| slots(Place::Inbound(se(name)), *limit)));
    let outbounds = limits.outbounds.iter();
    plan.extend(outbounds.map(|(name, limit)| slots(Place::Outbound(se(name)), *limit)));
    plan
}
