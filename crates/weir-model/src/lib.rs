//! The words of a grid: sites, RSEs, links, data identifiers, and the file that describes a grid.
//!
//! Second room of the house: it knows the quantities of `weir-units` and nothing else. A grid file (TOML) is read into a valid [`Grid`] or
//! refused with every [`Problem`] in it, each with file, line, key and remedy.
//!
//! Invariants:
//! - A value of a type of this crate is valid: no two RSEs share a name, every site that is mentioned exists, every limit is above zero.
//!   Rooms below need not check again.
//! - Paths are joined with the folder of the file that names them.
//! - Deliberately absent: input and output beyond reading a file, wire formats, the clock.
//!
//! ```
//! let text = r#"
//!     name = "two"
//!     [[rse]]
//!     name = "ALPHA"
//!     [[rse]]
//!     name = "BETA"
//!     quota = "5"
//! "#;
//! let problems = weir_model::Grid::parse(text, "two.toml".as_ref()).unwrap_err();
//! assert_eq!(problems[0].to_string(), r#"two.toml:7: rse.quota: size "5" has no unit; add a unit, such as "5 GB""#);
//! ```

pub mod catalog;
pub mod file;
mod grid;
mod grid_file;
mod names;
mod pattern;
mod place;
mod redirect_host;
mod services;

pub use file::Problem;
pub use grid::{Broker, Durability, Grid, Rse, RseKind, Site, StorageDefaults, TokenFrom, TransferLimits};
pub use grid_file::{GRID, GRID_TABLES};
pub use names::{GridName, Link, NameError, RseName, SiteName, VoName, variable};
pub use pattern::{LinkPattern, Pattern};
pub use place::Place;
pub use redirect_host::{NoHost, RedirectHost};
pub use services::{
    CatalogLogin, ClientCertificate, EmbeddedIssuer, ExternalCatalog, ExternalIssuer, ExternalTransfer, GridCatalog,
    GridIssuer, TransferTokens,
};
