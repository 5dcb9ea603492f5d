//! Settings of administrators while the service runs: kept in the store in the shape in which clients write them, one
//! row for each link, storage element, share, group and ban.
//!
//! The core's settings follow from all rows together, which override the configuration file. A change is applied as the
//! difference between two such plans: removing a row restores the value of the file.

mod audit;
mod configured;
mod door;
mod kind;
mod named;
mod rows;
#[cfg(test)]
mod tests;
mod values;

use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;

use crate::store::{Change, Store, StoreError};

pub use audit::Audit;
pub use configured::configured;
pub use door::DoorView;
pub use named::{Key, NamedSetting, Place, Plan, Worth, difference};
pub use rows::{GLOBAL_KEYS, ends, normal_activities, normal_group, normal_link, normal_share};
pub use values::{Invalid, Object, se_name, stands_for, storage_name, yes_or_no};

use kind::Rows;
pub use kind::{Kind, RowKey};
use values::Checked;

/// See the module.
#[derive(Debug, Default)]
pub struct Settings {
    /// The settings of the configuration file.
    base: Plan,
    rows: Mutex<Rows>,
    door: Mutex<Arc<DoorView>>,
    /// The audit log.
    pub audit: Audit,
    /// Held from reading rows until the change is durable: changes are serialised.
    pub changing: tokio::sync::Mutex<()>,
}

/// A change that was checked.
#[derive(Debug, Clone)]
pub struct SettingsDraft {
    rows: Vec<(RowKey, Option<Object>)>,
    /// For the core.
    pub settings: Vec<NamedSetting>,
    /// For the store.
    pub changes: Vec<Change>,
}

impl Settings {
    /// Reads the rows of the store. An unreadable row is logged, and has no effect.
    pub fn load(store: &dyn Store, base: Plan) -> Result<Self, StoreError> {
        let rows = read(store)?;
        Ok(Self {
            base,
            door: Mutex::new(Arc::new(DoorView::of(&rows))),
            rows: Mutex::new(rows),
            audit: Audit::load(store)?,
            changing: tokio::sync::Mutex::default(),
        })
    }

    /// Reads them again: another node may have changed them.
    pub fn follow(&self, store: &dyn Store) -> Result<(), StoreError> {
        let now = read(store)?;
        let mut rows = self.rows.lock();
        if *rows != now {
            *self.door.lock() = Arc::new(DoorView::of(&now));
            *rows = now;
        }
        Ok(())
    }

    /// All rows of a kind, by name.
    pub fn all(&self, kind: Kind) -> Vec<(String, Object)> {
        let rows = self.rows.lock();
        let matching = rows.iter().filter(|((of, _), _)| *of == kind);
        matching.map(|((_, name), row)| (name.clone(), row.clone())).collect()
    }

    /// One row.
    pub fn get(&self, kind: Kind, name: &str) -> Option<Object> {
        self.rows.lock().get(&(kind, name.to_owned())).cloned()
    }

    /// The core's settings at a start.
    pub fn plan(&self) -> Plan {
        plan_of(&self.base, &self.rows.lock())
    }

    /// Checks new values of rows (`None`: removed). Nothing is changed yet.
    pub fn draft(&self, rows: Vec<(RowKey, Option<Object>)>) -> Checked<SettingsDraft> {
        let mut after = self.rows.lock().clone();
        let before = plan_of(&self.base, &after);
        for (key, row) in &rows {
            match row {
                Some(row) => {
                    effects(key, row)?;
                    after.insert(key.clone(), row.clone());
                }
                None => drop(after.remove(key)),
            }
        }
        let settings = named::difference(&before, &plan_of(&self.base, &after));
        let change = |((kind, name), row): &(RowKey, Option<Object>)| Change::Setting {
            key: format!("{}{name}", kind.prefix()),
            value: row.as_ref().map(|row| Value::Object(row.clone()).to_string()),
        };
        let changes = rows.iter().map(change).collect();
        Ok(SettingsDraft {
            rows,
            settings,
            changes,
        })
    }

    /// Notes a change, after the store has it.
    pub fn note(&self, draft: SettingsDraft) {
        let mut rows = self.rows.lock();
        for (key, row) in draft.rows {
            match row {
                Some(row) => rows.insert(key, row),
                None => rows.remove(&key),
            };
        }
        *self.door.lock() = Arc::new(DoorView::of(&rows));
    }

    /// The door's view for submissions.
    pub fn door(&self) -> Arc<DoorView> {
        self.door.lock().clone()
    }
}

fn read(store: &dyn Store) -> Result<Rows, StoreError> {
    let mut rows = Rows::new();
    for kind in Kind::ALL {
        for (key, value) in store.settings(kind.prefix())? {
            let name = key[kind.prefix().len()..].to_owned();
            let row = serde_json::from_str::<Value>(&value).ok();
            if let Some(Value::Object(row)) = row {
                rows.insert((kind, name), row);
            } else {
                tracing::error!(key, "a setting in the store cannot be read; it is passed over");
            }
        }
    }
    Ok(rows)
}

/// The core's settings of a row.
fn effects((kind, name): &RowKey, row: &Object) -> Checked<rows::Effects> {
    match kind {
        Kind::Link => rows::link(row),
        Kind::Storage => rows::storage(name, row),
        Kind::Global => rows::global(name, row),
        Kind::Share => rows::vo_share(row),
        Kind::Activities => rows::activities(name, row),
        Kind::Group => rows::group(name, row),
        Kind::BannedStorage => rows::banned(name, row),
        Kind::BannedUser => Ok(Vec::new()),
        Kind::Drain => Ok(vec![(Key::Hold, Worth::Yes)]),
    }
}

/// All rows, laid over the configuration file in the order of their kinds.
fn plan_of(base: &Plan, rows: &Rows) -> Plan {
    let mut plan = base.clone();
    for (key, row) in rows {
        match effects(key, row) {
            Ok(effects) => plan.extend(effects),
            Err(error) => tracing::error!(?key, %error, "a setting in the store makes no sense; it has no effect"),
        }
    }
    plan
}
