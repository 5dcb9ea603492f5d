//! The plan of a tree's copy, made before any part of it is copied.

use http::StatusCode;
use weir_auth::StoragePath;

use super::Order;
use crate::{
    area::DEPTH_MAX,
    backend::{BackendError, Meta},
    refusal::Refusal,
};

/// The most files and directories that one request copies: their names are in memory meanwhile.
const ENTRIES_MAX: usize = 10_000;

/// Entries that are read from a directory at once.
const BATCH: usize = 256;

/// The files and directories, each directory before its contents.
pub(super) struct Plan {
    nodes: Vec<Node>,
    bytes: u64,
}

/// Something that is copied.
struct Node {
    /// The directory that holds it, by its number; of the first one, itself.
    parent: usize,
    name: String,
    directory: bool,
}

impl Plan {
    /// Walks the source of the order, with this metadata. On the blocking pool.
    pub(super) fn of(order: &Order, meta: &Meta) -> Result<Self, Refusal> {
        let first = Node {
            parent: 0,
            name: String::new(),
            directory: meta.directory,
        };
        let mut plan = Self {
            nodes: vec![first],
            bytes: meta.size,
        };
        let mut number = 0;
        while !order.shallow && number < plan.nodes.len() {
            if plan.nodes[number].directory {
                plan.look_into(number, order)?;
            }
            number += 1;
        }
        Ok(plan)
    }

    /// Of all files together.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether each is a directory, by their numbers.
    pub(super) fn directories(&self) -> impl Iterator<Item = bool> {
        self.nodes.iter().map(|node| node.directory)
    }

    /// Where one is, if the first is here.
    pub(super) fn path(&self, number: usize, first: &StoragePath) -> StoragePath {
        let names = self.names(number).into_iter();
        names.fold(first.clone(), |path, name| {
            path.join(&named(name).expect("only names were taken"))
        })
    }

    /// The names that lead to one from the first.
    fn names(&self, number: usize) -> Vec<&str> {
        let mut names = Vec::new();
        let mut at = number;
        while at != 0 {
            names.push(self.nodes[at].name.as_str());
            at = self.nodes[at].parent;
        }
        names.reverse();
        names
    }

    fn look_into(&mut self, number: usize, order: &Order) -> Result<(), Refusal> {
        let path = self.path(number, &order.from);
        let copy = self.path(number, &order.destination);
        let mut listing = order.area.backend.list(&path).map_err(BackendError::looking)?;
        loop {
            let entries = listing.next(BATCH)?;
            if entries.is_empty() {
                return Ok(());
            }
            if copy.depth() >= DEPTH_MAX {
                let text = format!(
                    "paths below {} would have more than {DEPTH_MAX} names",
                    order.destination
                );
                return Err(Refusal::bad_request(text));
            }
            for entry in entries {
                // Names that the door would refuse are left out, as in listings.
                if let Some(name) = named(&entry.name) {
                    check_length(&copy.join(&name), order)?;
                    self.add(number, entry.name, &entry.meta);
                }
            }
            if self.nodes.len() > ENTRIES_MAX {
                let text = format!(
                    "{} holds more than {ENTRIES_MAX} files and directories: copy its parts one by one",
                    order.source
                );
                return Err(Refusal::new(StatusCode::FORBIDDEN, text));
            }
        }
    }

    fn add(&mut self, parent: usize, name: String, meta: &Meta) {
        self.bytes += meta.size;
        self.nodes.push(Node {
            parent,
            name,
            directory: meta.directory,
        });
    }
}

/// The path of a name alone.
fn named(name: &str) -> Option<StoragePath> {
    StoragePath::from_plain(&format!("/{name}")).ok()
}

/// A path that no request could name must not be made.
fn check_length(path: &StoragePath, order: &Order) -> Result<(), Refusal> {
    let text = format!("/{}", path.relative());
    match StoragePath::from_plain(&text) {
        Ok(_) => Ok(()),
        Err(error) => Err(Refusal::bad_request(format!(
            "{} cannot be copied there: {error}",
            order.source
        ))),
    }
}
