//! Limits that administrators set while the service runs: kept in the store in the shape in which clients wrote them.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use serde_json::{Map, Value};

use crate::{
    driver::NamedLimit,
    store::{Change, Store, StoreError},
};

const LINK: &str = "link/";
const SE: &str = "se/";

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Settings {
    tables: Mutex<Tables>,
}

#[derive(Debug, Default)]
struct Tables {
    links: BTreeMap<String, Map<String, Value>>,
    ses: BTreeMap<String, Map<String, Value>>,
}

impl Settings {
    pub(crate) fn load(store: &dyn Store) -> Result<Self, StoreError> {
        let read = |prefix: &str| -> Result<BTreeMap<String, Map<String, Value>>, StoreError> {
            let rows = store.settings(prefix)?;
            let parsed = rows.into_iter().filter_map(|(key, value)| {
                Some((key.strip_prefix(prefix)?.to_owned(), serde_json::from_str(&value).ok()?))
            });
            Ok(parsed.collect())
        };
        Ok(Self {
            tables: Mutex::new(Tables {
                links: read(LINK)?,
                ses: read(SE)?,
            }),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn links(&self) -> BTreeMap<String, Map<String, Value>> {
        self.lock().links.clone()
    }

    pub(crate) fn ses(&self) -> BTreeMap<String, Map<String, Value>> {
        self.lock().ses.clone()
    }

    /// Notes a link's settings (`None` forgets them), after the store has them.
    pub(crate) fn note_link(&self, name: &str, value: Option<Map<String, Value>>) {
        note(&mut self.lock().links, name, value);
    }

    /// Notes a storage element's settings.
    pub(crate) fn note_se(&self, name: &str, value: Option<Map<String, Value>>) {
        note(&mut self.lock().ses, name, value);
    }

    /// What the core is told at a start.
    pub(crate) fn limits(&self) -> Vec<NamedLimit> {
        let tables = self.lock();
        let links = tables.links.values().filter_map(link_limit);
        let ses = tables.ses.iter().flat_map(|(se, value)| se_limits(se, value));
        links.chain(ses).collect()
    }
}

fn note(table: &mut BTreeMap<String, Map<String, Value>>, name: &str, value: Option<Map<String, Value>>) {
    match value {
        Some(value) => table.insert(name.to_owned(), value),
        None => table.remove(name),
    };
}

/// The change that keeps a link's settings.
pub(crate) fn link_change(name: &str, value: Option<&Map<String, Value>>) -> Change {
    change(LINK, name, value)
}

/// The change that keeps a storage element's settings.
pub(crate) fn se_change(name: &str, value: Option<&Map<String, Value>>) -> Change {
    change(SE, name, value)
}

fn change(prefix: &str, name: &str, value: Option<&Map<String, Value>>) -> Change {
    let value = value.map(|value| Value::Object(value.clone()).to_string());
    Change::Setting {
        key: format!("{prefix}{name}"),
        value,
    }
}

/// The limit in a link's settings: `max_active` of `source` to `destination`; of every link if both are `*`.
pub(crate) fn link_limit(link: &Map<String, Value>) -> Option<NamedLimit> {
    let text = |key: &str| link.get(key)?.as_str().map(str::to_owned);
    let limit = link
        .get("max_active")?
        .as_u64()
        .map(|limit| limit.min(u64::from(u32::MAX)) as u32)?;
    match (text("source")?, text("destination")?) {
        (source, destination) if source == "*" && destination == "*" => Some(NamedLimit::EveryLink(limit)),
        (source, destination) => Some(NamedLimit::Link(source, destination, Some(limit))),
    }
}

/// The limits in a storage element's settings. A limit of 0 or less goes back to the service's own, as in FTS3.
pub(crate) fn se_limits(se: &str, value: &Map<String, Value>) -> Vec<NamedLimit> {
    let limit = |key: &str| -> Option<Option<u32>> {
        let number = value.get(key)?.as_i64()?;
        Some(u32::try_from(number).ok().filter(|limit| *limit > 0))
    };
    let mut limits = Vec::new();
    if let Some(limit) = limit("inbound_max_active") {
        limits.push(NamedLimit::Inbound(se.to_owned(), limit));
    }
    if let Some(limit) = limit("outbound_max_active") {
        limits.push(NamedLimit::Outbound(se.to_owned(), limit));
    }
    limits
}
