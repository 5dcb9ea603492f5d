//! Faults of a run: each acts on real processes of this machine, without root.
//!
//! | kind | acts by |
//! |---|---|
//! | disks and places of storages | a back end around that of each embedded storage ([`weir_grid::Disk`]) |
//! | traffic of storages, sites, links, segments | relays in front of storages on this machine ([`weir_network::relay`]) |
//! | the issuer, the catalogue, a transfer service of another program | a relay in front of it |
//! | `slots`, `late-decisions`, `outage` of the transfer service | limits and the drain of the service, by its REST API |
//! | `slow-store`, `frozen-store` | the writer's lock of its database |
//! | processes of sites | SIGSTOP, SIGKILL and the clock of libfaketime ([`weir_grid::Processes`]) |
//! | workloads | the injectors |
//! | counters of storages | the run itself, which reads them wrong |
//!
//! `means::cannot` says which fault of a plan has no means here; a run with such a fault does not begin. All of it ends with the
//! run: relays with the grid, locks with their connection.

mod actor;
mod counters;
mod ground;
mod injection;
mod journal;
mod means;
mod operator;
pub mod orders;
mod packets;
mod reach;
mod rules;
mod store;

pub(crate) use actor::{Acted, Acting};
pub use ground::{DiskRates, NetworkGround, SharedPath};
pub(crate) use injection::{Broken, Condition};
pub(crate) use journal::replay;
pub(crate) use means::{cannot, needs_clock, needs_relays, with_processes};
