//! The database server, and the role of a node.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use weir_store::postgres::Address;

/// A database on a PostgreSQL server (13 or newer), made beforehand, with encoding UTF8 and owned by `user`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PostgresConfig {
    /// A host name, as in the server's certificate; or the directory of a local socket, such as `/run/postgresql`. Several, of a primary and
    /// its standbys, with commas between them: they are tried in this order.
    pub host: String,
    /// Its port; the same for all servers.
    #[serde(default = "postgres_port")]
    pub port: u16,
    /// The database.
    pub database: String,
    /// User name at the server.
    pub user: String,
    /// A file of mode 0600 with the password. Default: none is sent.
    #[serde(default)]
    pub password_file: Option<PathBuf>,
    /// PEM files of the authorities that the server's certificate is checked against. Default: those of `[trust]`.
    #[serde(default)]
    pub authorities: Vec<PathBuf>,
    /// The kind of server to use among several. Default: among several the one that accepts writes, a single one
    /// whatever its kind.
    #[serde(default)]
    pub target_session_attrs: Option<SessionAttrs>,
    /// The part of this node in the shared work of nodes on one database. Default: all.
    #[serde(default)]
    pub role: Role,
}

/// The kind of server to use, in libpq's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SessionAttrs {
    /// The first that answers.
    Any,
    /// The first that answers and takes changes: no standby.
    ReadWrite,
}

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

fn postgres_port() -> u16 {
    5432
}

impl PostgresConfig {
    /// The database for a client of it.
    pub fn address(&self) -> Address {
        Address {
            hosts: self.hosts().map(str::to_owned).collect(),
            port: self.port,
            database: self.database.clone(),
            user: self.user.clone(),
            password_file: self.password_file.clone(),
            tls: !self.authorities.is_empty(),
            writable_only: self.wants_changes(),
            application: "weir-transfer".to_owned(),
        }
    }

    /// The servers, in their order.
    pub(crate) fn hosts(&self) -> impl Iterator<Item = &str> {
        self.host.split(',').map(str::trim).filter(|host| !host.is_empty())
    }

    /// Whether only a server that takes changes is of use.
    pub(crate) fn wants_changes(&self) -> bool {
        match self.target_session_attrs {
            Some(wanted) => wanted == SessionAttrs::ReadWrite,
            None => self.hosts().count() > 1,
        }
    }
}

impl std::fmt::Display for PostgresConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} at {} port {}", self.database, self.host, self.port)
    }
}
