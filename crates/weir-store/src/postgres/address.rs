//! The address of a database, and the login.

use std::path::PathBuf;

/// A database on a PostgreSQL server (13 or newer), made beforehand, with encoding UTF8 and owned by `user`.
#[derive(Debug, Clone)]
pub struct Address {
    /// Host names, as in the servers' certificates; or the directory of a local socket, such as `/run/postgresql`. Of several, a primary and
    /// its standbys, the first that answers is taken.
    pub hosts: Vec<String>,
    /// The port of all of them.
    pub port: u16,
    /// The database.
    pub database: String,
    /// The user.
    pub user: String,
    /// A file of mode 0600 with the password. `None`: none is sent.
    pub password_file: Option<PathBuf>,
    /// TLS also where nothing leaves this machine.
    pub tls: bool,
    /// Only a server that takes changes is of use: no standby.
    pub writable_only: bool,
    /// The name of this program at the server, such as `weir-transfer`.
    pub application: String,
}

impl Address {
    /// One server at its usual port, without a password.
    pub fn new(host: &str, database: &str, user: &str) -> Self {
        Self {
            hosts: vec![host.to_owned()],
            port: 5432,
            database: database.to_owned(),
            user: user.to_owned(),
            password_file: None,
            tls: false,
            writable_only: false,
            application: "weir".to_owned(),
        }
    }

    /// Whether bytes travel encrypted: always, but on a local socket and to loopback.
    pub fn is_encrypted(&self) -> bool {
        let is_here = |host: &String| {
            let loopback = host.parse::<std::net::IpAddr>();
            host.starts_with('/') || host == "localhost" || loopback.is_ok_and(|address| address.is_loopback())
        };
        self.tls || !self.hosts.iter().all(is_here)
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} at {} port {}", self.database, self.hosts.join(","), self.port)
    }
}
