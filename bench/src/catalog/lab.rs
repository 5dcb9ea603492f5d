//! The contenders, each with a database of its own.

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use weir_tests::{Daemon, Postgres, RucioHome, free_port, wait_for, weir_binary, write_private};

use super::caller::Caller;
use crate::service::cpu;

/// The name of the peer.
pub(crate) const RUCIO: &str = "Rucio 41.5.1";

const PATIENCE: Duration = Duration::from_secs(120);

/// RSEs of each catalogue.
pub(crate) const RSES: [&str; 3] = ["S", "A", "B"];

/// A catalogue that runs.
pub(crate) struct Contender {
    pub(crate) name: &'static str,
    pub(crate) caller: Caller,
    server: Daemon,
    postgres: Option<Postgres>,
    folder: tempfile::TempDir,
}

impl Contender {
    /// Weir on SQLite and on PostgreSQL, and Rucio.
    pub(crate) async fn all() -> Result<Vec<Self>> {
        let all = vec![
            Self::weir("Weir, SQLite", None).await?,
            Self::weir("Weir, PostgreSQL", Some(Postgres::durable()?)).await?,
            Self::rucio().await?,
        ];
        for one in &all {
            one.prepare().await?;
        }
        Ok(all)
    }

    /// Whether it is ours.
    pub(crate) fn is_weir(&self) -> bool {
        self.name != RUCIO
    }

    async fn weir(name: &'static str, postgres: Option<Postgres>) -> Result<Self> {
        Self::weir_with(name, postgres, "").await
    }

    /// Weir's catalogue with further tables of its configuration.
    pub(crate) async fn weir_with(name: &'static str, postgres: Option<Postgres>, tables: &str) -> Result<Self> {
        // Beside the other databases: on the disk.
        let folder = tempfile::Builder::new()
            .prefix("weir-bench-")
            .tempdir_in(std::env::current_dir()?)?;
        let port = free_port()?;
        let store = match &postgres {
            None => "store = \"catalog.db\"\n".to_owned(),
            Some(postgres) => {
                let host = postgres.socket().display();
                format!("[postgres]\nhost = \"{host}\"\ndatabase = \"weir\"\nuser = \"weir\"\n")
            }
        };
        let config = format!(
            "listen = \"127.0.0.1:{port}\"\n{store}[root]\nuser = \"lab\"\npassword_file = \"password\"\n{tables}"
        );
        write_private(&folder.path().join("password"), "lab\n")?;
        let file = folder.path().join("catalog.toml");
        std::fs::write(&file, config)?;
        let server = serve(folder.path(), port)?;
        Ok(Self {
            name,
            caller: Caller::login(&format!("http://127.0.0.1:{port}"), "lab", "lab").await?,
            server,
            postgres,
            folder,
        })
    }

    async fn rucio() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let (postgres, port) = (Postgres::durable()?, free_port()?);
        let home = RucioHome::lay(folder.path().to_owned(), postgres.socket(), port, SECTIONS)?;
        let server = home.server(&["-w", "2", "-k", "gthread", "--threads", "8"])?;
        Ok(Self {
            name: RUCIO,
            caller: Caller::login(&format!("http://127.0.0.1:{port}"), "lab", "lab").await?,
            server,
            postgres: Some(postgres),
            folder,
        })
    }

    /// Scope, RSEs and links.
    pub(crate) async fn prepare(&self) -> Result<()> {
        let ask = |method: &'static str, path: String, content: Value| async move {
            self.caller.ask(method, &path, Some(&content)).await
        };
        ask("POST", format!("/accounts/{}/scopes/mc", "root"), json!({})).await?;
        for rse in RSES {
            ask("POST", format!("/rses/{rse}"), json!({ "deterministic": true })).await?;
            let protocol = json!({
                "hostname": format!("{}.example.org", rse.to_lowercase()), "port": 443, "prefix": "/data/",
                "impl": "rucio.rse.protocols.webdav.Default", "domains": {
                    "lan": { "read": 1, "write": 1, "delete": 1 },
                    "wan": { "read": 1, "write": 1, "delete": 1, "third_party_copy_read": 1, "third_party_copy_write": 1 },
                },
            });
            ask("POST", format!("/rses/{rse}/protocols/davs"), protocol).await?;
            let limit = format!("/accounts/{}/limits/local/{rse}", "root");
            ask("POST", limit, json!({ "bytes": 5_000_000_000_000_000_u64 })).await?;
        }
        for (from, to) in [("S", "A"), ("S", "B")] {
            ask("POST", format!("/rses/{from}/distances/{to}"), json!({ "distance": 1 })).await?;
        }
        Ok(())
    }

    /// Stops the server and starts it again; gives the time from the start until it answers.
    pub(crate) async fn restart(&mut self) -> Result<Duration> {
        let port: u16 = self.caller.port().context("a port")?;
        self.server.terminate(PATIENCE)?;
        let begun = std::time::Instant::now();
        self.server = serve(self.folder.path(), port)?;
        self.caller = Caller::login(&format!("http://127.0.0.1:{port}"), "lab", "lab").await?;
        Ok(begun.elapsed())
    }

    /// The most memory that the server has held since its start, in bytes.
    pub(crate) fn memory_max(&self) -> Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.server.pid()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kibibytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        Ok(kibibytes.context("the system tells no memory")? << 10)
    }

    /// Seconds of processor that server and database have used.
    pub(crate) fn cpu(&self) -> f64 {
        let database = self.postgres.iter().flat_map(Postgres::processes);
        let database = database.map(|pid| pid.as_raw_nonzero().get().unsigned_abs());
        let all = descendants(self.server.pid()).into_iter().chain(database);
        // A process that ended meanwhile is not counted.
        all.filter_map(|pid| cpu(pid).ok()).sum()
    }
}

/// Starts the server of a folder, and waits until it listens.
fn serve(folder: &Path, port: u16) -> Result<Daemon> {
    let mut weir = Command::new(weir_binary());
    weir.args(["serve", "catalog", "--log-level", "warn", "--config"])
        .arg(folder.join("catalog.toml"));
    let mut server = Daemon::start(weir, &folder.join("log"))?;
    wait_for(PATIENCE, || {
        ensure!(server.ended()?.is_none(), "the catalogue ended: {}", server.said());
        Ok(std::net::TcpStream::connect(("127.0.0.1", port)).ok())
    })?;
    Ok(server)
}

/// A process and those that it started.
fn descendants(pid: u32) -> Vec<u32> {
    let path = PathBuf::from(format!("/proc/{pid}/task/{pid}/children"));
    let children = std::fs::read_to_string(path).unwrap_or_default();
    let children = children.split_whitespace().filter_map(|pid| pid.parse().ok());
    let mut all = vec![pid];
    all.extend(children.flat_map(descendants));
    all
}

/// Errors only.
const SECTIONS: &str = "loglevel = ERROR\n";
