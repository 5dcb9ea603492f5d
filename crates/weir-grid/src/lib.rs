//! The embedded grid: every room in one process, spoken to through its doors.
//!
//! A grid file becomes a running grid. It has a certificate authority made for it, an issuer, a storage endpoint for each
//! embedded RSE on a loopback address of its own, and a transfer service. On request it has a catalogue that knows the RSEs.
//! They share a process and nothing else: they talk over loopback TLS with tokens, so that a test covers the deployed
//! paths. On request the storages of each site have a process of their own. `weir grid up` and `weir challenge run` are
//! built on it.
//!
//! Invariants:
//! - Two RSEs never share a host, because clients tell storage elements apart by `scheme://host`.
//! - `grid.json` appears when every door answers and goes when the grid stops; it names secrets' files and holds none.
//! - One directory has one grid at a time; authority, keys, addresses and data in it outlive the process.
//! - Data moves on a runtime of its own, so that control never stalls.
//!
//! Deliberately absent: the work of the services, and any way to reach them but their doors.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use weir_grid::{EmbeddedGrid, GridOptions};
//! let text = "name = \"two\"\n[[rse]]\nname = \"ALPHA\"\n[[rse]]\nname = \"BETA\"\n";
//! let grid = weir_model::Grid::parse(text, "two.toml".as_ref()).map_err(|problems| problems[0].clone())?;
//! let running = EmbeddedGrid::start(&grid, "scratch".as_ref(), GridOptions::default()).await?;
//! println!("{}", running.description().transfer.url);
//! running.shutdown().await?;
//! # Ok(()) }
//! ```

mod access;
mod addresses;
mod catalog;
mod configure;
mod credentials;
mod description;
mod disk;
mod doors;
mod embedded;
mod error;
mod fronts;
mod ground;
mod issuer;
mod limits;
mod lock;
mod processes;
mod reach;
mod runtime;
mod site;
mod site_process;
mod user;

pub use access::{CatalogAccess, TransferAccess, TransferCredential};
pub use addresses::RSES_MAX;
pub use credentials::GridCredentials;
pub use description::{
    CaDescription, CatalogDescription, ClientDescription, DoorDescription, FILE_NAME, GridDescription, KindDescription,
    ProcessDescription, RseDescription, SCHEMA, UserDescription, origin,
};
pub use disk::{Disk, DiskFailure, SlowDisk};
pub use doors::{DoorStatus, knock, operator_token, renew_token_file};
pub use embedded::{EmbeddedGrid, GridOptions};
pub use error::GridError;
pub use fronts::{CATALOG as CATALOG_DOOR, ISSUER as ISSUER_DOOR, Relays, TRANSFER as TRANSFER_DOOR, doors_here};
pub use ground::{LOG_NAME, prepare_directory};
pub use limits::StorageLimits;
pub use lock::GridProcess;
pub use processes::{Processes, running_sites, stop_sites};
pub use site::SiteStorages;
pub use site_process::{SiteFigures, SiteOrder, SiteProgram, clock_library};
pub use weir_storage::backend::Obstacle;
