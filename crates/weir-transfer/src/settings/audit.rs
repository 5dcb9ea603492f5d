//! The audit log: author, time and content of each change.

use std::collections::VecDeque;

use parking_lot::Mutex;
use weir_fts_api::AuditEntry;
use weir_service::time::{self, Millis};

use crate::store::{Change, Store, StoreError};

const PREFIX: &str = "audit/";

/// Entries that are kept; older ones leave as new ones come.
const KEPT: usize = 10_000;

#[derive(Debug, Default)]
struct AuditLog {
    /// By number, oldest first.
    entries: VecDeque<(u64, AuditEntry)>,
    next: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Audit {
    book: Mutex<AuditLog>,
}

fn key(number: u64) -> String {
    format!("{PREFIX}{number:020}")
}

impl Audit {
    /// Reads the entries of the store.
    pub(super) fn load(store: &dyn Store) -> Result<Self, StoreError> {
        let read = |(key, value): (String, String)| {
            let number = key.strip_prefix(PREFIX)?.parse::<u64>().ok()?;
            Some((number, serde_json::from_str(&value).ok()?))
        };
        let entries: VecDeque<(u64, AuditEntry)> = store.settings(PREFIX)?.into_iter().filter_map(read).collect();
        let next = entries.back().map_or(0, |(number, _)| number + 1);
        Ok(Self {
            book: Mutex::new(AuditLog { entries, next }),
        })
    }

    /// Reads it again: another node may have written to it.
    pub fn follow(&self, store: &dyn Store) -> Result<(), StoreError> {
        let now = Self::load(store)?;
        *self.book.lock() = now.book.into_inner();
        Ok(())
    }

    /// The newest entries, newest first.
    pub fn newest(&self, n: usize) -> Vec<AuditEntry> {
        let book = self.book.lock();
        book.entries
            .iter()
            .rev()
            .take(n)
            .map(|(_, entry)| entry.clone())
            .collect()
    }

    /// Makes an entry, with its changes for the store: they go into one transaction with the audited change.
    pub fn draft(&self, at: Millis, who: &str, action: &str, config: String) -> (AuditEntry, Vec<Change>) {
        let entry = AuditEntry {
            datetime: time::format(at),
            dn: who.to_owned(),
            config,
            action: action.to_owned(),
        };
        let book = self.book.lock();
        let surplus = (book.entries.len() + 1).saturating_sub(KEPT);
        let forgotten = book.entries.iter().take(surplus).map(|(oldest, _)| Change::Setting {
            key: key(*oldest),
            value: None,
        });
        let written = Change::Setting {
            key: key(book.next),
            value: serde_json::to_string(&entry).ok(),
        };
        let changes = forgotten.chain([written]).collect();
        (entry, changes)
    }

    /// Adds an entry that the store has written. No other entry may be drafted in between.
    pub fn note(&self, entry: AuditEntry) {
        let mut book = self.book.lock();
        let number = book.next;
        book.next += 1;
        book.entries.push_back((number, entry));
        while book.entries.len() > KEPT {
            book.entries.pop_front();
        }
    }
}
