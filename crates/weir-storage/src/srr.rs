//! The space report: sizes, usage and VOs of the areas (WLCG Storage Resource Reporting, version 4).

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::{
    area::{Area, ReadOnly},
    service::Endpoint,
};

/// The current report. On the blocking pool: it queries the file systems.
///
/// An area's size is its quota, or its files and the free space of its file system. Areas without a quota on one file
/// system each count all of its free space.
pub(crate) fn report(endpoint: &Endpoint) -> Value {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs();
    let config = &endpoint.config.srr;
    let host = endpoint.url.split("://").last().unwrap_or_default();
    let (mut total, mut used) = (0_u64, 0_u64);
    let shares: Vec<Value> = endpoint
        .names
        .areas()
        .iter()
        .map(|area| {
            let size = size(area);
            let usage = area.usage();
            total = total.saturating_add(size);
            used = used.saturating_add(usage.bytes);
            json!({
                "name": area.name,
                "timestamp": now,
                "totalsize": size,
                "usedsize": usage.bytes,
                "numberoffiles": usage.files,
                "path": [area.prefix.to_string()],
                "vos": endpoint.policy.vos_of(&area.prefix),
                "assignedendpoints": ["all"],
                "servingstate": state(area),
                "accesslatency": "online",
                "retentionpolicy": "replica",
            })
        })
        .collect();
    json!({ "storageservice": {
        "name": config.name.as_deref().unwrap_or(host),
        "id": config.id.as_deref().unwrap_or(host),
        "servicetype": "weir",
        "implementation": "weir",
        "implementationversion": env!("CARGO_PKG_VERSION"),
        "qualitylevel": config.quality,
        "capabilities": ["data.management.transfer", "data.management.storage"],
        "latestupdate": now,
        "storagecapacity": { "online": { "totalsize": total, "usedsize": used } },
        "storageendpoints": [{
            "name": "https",
            "endpointurl": endpoint.url,
            "interfacetype": "https",
            "qualitylevel": config.quality,
            "assignedshares": ["all"],
        }],
        "storageshares": shares,
    } })
}

fn size(area: &Area) -> u64 {
    area.quota().unwrap_or_else(|| {
        let (available, used) = area.room();
        available.saturating_add(used)
    })
}

fn state(area: &Area) -> &'static str {
    match area.read_only {
        None => "open",
        Some(ReadOnly::Configured | ReadOnly::Uncounted) => "draining",
    }
}
