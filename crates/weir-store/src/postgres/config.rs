//! The table `[postgres]` of a service's configuration.

use std::{fmt, path::PathBuf};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use weir_http::TrustRoots;

use super::Address;

/// A database on a PostgreSQL server (13 or newer), made beforehand, with encoding UTF8 and owned by `user`.
///
/// `R`: the role of a node among those that share the database; [`NoRole`] where all of them do the same work.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PostgresConfig<R = NoRole>
where
    R: Default,
{
    /// A host name, as in the server's certificate; or the directory of a local socket, such as `/run/postgresql`. Several, of a primary and
    /// its standbys, with commas between them: they are tried in this order.
    pub host: String,
    /// Its port; the same for all servers. Default: 5432.
    #[serde(default = "default_port")]
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
    /// The part of this node in the shared work of nodes on one database.
    #[serde(default)]
    pub role: R,
}

fn default_port() -> u16 {
    5432
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

/// The role of nodes that have none: the key `role` is unknown to their configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NoRole;

impl Serialize for NoRole {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_none()
    }
}

impl<'de> Deserialize<'de> for NoRole {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Option::<serde::de::IgnoredAny>::deserialize(deserializer)? {
            None => Ok(Self),
            Some(_) => Err(D::Error::custom(
                "unknown field `role`: all nodes of this service do the same work",
            )),
        }
    }
}

impl<R: Default> PostgresConfig<R> {
    /// The database for a client of this name.
    pub fn address(&self, application: &str) -> Address {
        Address {
            hosts: self.hosts().map(str::to_owned).collect(),
            port: self.port,
            database: self.database.clone(),
            user: self.user.clone(),
            password_file: self.password_file.clone(),
            tls: !self.authorities.is_empty(),
            writable_only: self.wants_changes(),
            application: application.to_owned(),
        }
    }

    /// The servers, in their order.
    pub fn hosts(&self) -> impl Iterator<Item = &str> {
        self.host.split(',').map(str::trim).filter(|host| !host.is_empty())
    }

    /// Whether only a server that takes changes is of use.
    fn wants_changes(&self) -> bool {
        match self.target_session_attrs {
            Some(wanted) => wanted == SessionAttrs::ReadWrite,
            None => self.hosts().count() > 1,
        }
    }

    /// The authorities that the server is checked against: its own, else those of the service.
    pub fn trust(&self, of_service: TrustRoots) -> TrustRoots {
        if self.authorities.is_empty() {
            return of_service;
        }
        TrustRoots {
            files: self.authorities.clone(),
            directories: Vec::new(),
        }
    }

    /// The paths of the table, for a service that makes them absolute.
    pub fn paths(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        self.authorities.iter_mut().chain(&mut self.password_file)
    }
}

impl<R: Default> fmt::Display for PostgresConfig<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {} port {}", self.database, self.host, self.port)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test may panic")]
    use super::*;

    const TABLE: &str = "host = 'db1, db2'\ndatabase = 'd'\nuser = 'u'\n";

    fn read(more: &str) -> Result<PostgresConfig, toml::de::Error> {
        toml::from_str(&format!("{TABLE}{more}"))
    }

    #[test]
    fn of_several_servers_the_one_that_takes_changes_is_used() {
        let address = read("").unwrap().address("weir-test");
        assert_eq!((address.hosts.len(), address.port), (2, 5432));
        assert!(address.writable_only && !address.tls);
        let any = read("target_session_attrs = 'any'").unwrap();
        assert!(!any.address("weir-test").writable_only);
    }

    #[test]
    fn a_role_is_unknown_where_there_is_none() {
        let error = read("role = 'door'").unwrap_err().to_string();
        assert!(error.contains("unknown field `role`"), "{error}");
        let written = toml::to_string(&read("").unwrap()).unwrap();
        assert!(!written.contains("role"), "{written}");
        toml::from_str::<PostgresConfig>(&written).unwrap();
    }
}
