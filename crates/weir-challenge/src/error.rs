//! Why a challenge could not run.

use std::io;
use std::path::PathBuf;

use weir_units::Bytes;

/// The reason why a challenge could not run. Errors within a started run are in its report instead.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// There is not enough space for the data areas.
    #[error("the run needs {needed} at {path}, where {free} are free")]
    Space {
        /// Where the data areas would be.
        path: PathBuf,
        /// The needed space.
        needed: Bytes,
        /// The free space.
        free: Bytes,
    },
    /// The run folder could not be written.
    #[error("could not write {path}")]
    Folder {
        /// The folder or file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A fault of the plan cannot be made with real services.
    #[error("the fault \"{name}\" ({kind} at {place}) cannot be made in a real run: {reason}")]
    Fault {
        /// Why not.
        reason: String,
        /// Its name.
        name: String,
        /// Its kind.
        kind: String,
        /// Its place.
        place: String,
    },
    /// The run has a network of its own, and needs a door outside of it.
    #[error("{door} cannot be reached from a network namespace")]
    Outside {
        /// The door.
        door: String,
    },
    /// The grid does not start.
    #[error("could not start the grid")]
    Grid(#[from] weir_grid::GridError),
    /// The running grid has no door for an RSE of the plan.
    #[error("the grid has no door for {rse}")]
    NoDoor {
        /// The RSE.
        rse: String,
    },
    /// A storage of the plan lacks abilities that the plan needs.
    #[error("{failures} checks of storage failed before the start, the first: {first}")]
    Sites {
        /// How many.
        failures: usize,
        /// The first of them.
        first: String,
    },
    /// The certificate of the grid file could not be delegated.
    #[error("could not delegate the certificate to the transfer service")]
    Delegation(#[source] crate::inject::injection::InjectionError),
    /// The catalogue did not take the source files.
    #[error("the source files could not be registered in the catalogue")]
    Catalog(#[from] crate::inject::injection::InjectionError),
    /// The run was interrupted before its start.
    #[error("interrupted before the challenge began")]
    Interrupted,
}

impl RunError {
    /// Returns the remedy, if there is one.
    pub fn remedy(&self) -> Option<&'static str> {
        match self {
            Self::Space { .. } => {
                Some("free space, choose another place with --out, or a smaller --scale or --duration")
            }
            Self::Folder { .. } => Some("choose another place with --out"),
            Self::Grid(error) => error.remedy(),
            Self::Sites { .. } => Some("mend what the table names, or run without the preflight: --preflight none"),
            Self::Catalog(_) => Some("see what the catalogue says, or write inject = \"transfers\" into the workloads"),
            Self::Delegation(_) => {
                Some("see [transfer] of the grid file, and whether the service trusts the authority of the certificate")
            }
            Self::Fault { .. } => Some("remove it, or run the challenge with weir sim run"),
            Self::Outside { .. } => Some("run without --namespace, or let it start with the grid"),
            Self::NoDoor { .. } | Self::Interrupted => None,
        }
    }
}
