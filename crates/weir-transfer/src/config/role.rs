//! The role of a node among those that share a database.

use serde::{Deserialize, Serialize};

/// The table `[postgres]`.
pub type PostgresConfig = weir_store::postgres::PostgresConfig<Role>;

/// The tasks of a node beside serving its door.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// May become the scheduler, and copies.
    #[default]
    Any,
    /// May become the scheduler; copies only while no other node does.
    Scheduler,
    /// Copies.
    Executor,
    /// Nothing.
    Door,
}

impl Role {
    /// Whether it may become the scheduler.
    pub(crate) fn stands(self) -> bool {
        matches!(self, Self::Any | Self::Scheduler)
    }

    /// Whether it is given copies.
    pub(crate) fn copies(self) -> bool {
        matches!(self, Self::Any | Self::Executor)
    }

    /// As written.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Any => "any",
            Self::Scheduler => "scheduler",
            Self::Executor => "executor",
            Self::Door => "door",
        }
    }
}
