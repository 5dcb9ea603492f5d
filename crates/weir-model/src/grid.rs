//! A grid: its sites, its RSEs, and the limits of the services between them.

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use weir_units::{Algorithm, BitRate, Bytes};

use crate::names::{GridName, RseName, SiteName, VoName};
use crate::place::Place;
use crate::redirect_host::RedirectHost;
use crate::services::{ExternalTransfer, GridCatalog, GridIssuer, TransferTokens};

/// A valid grid, as a grid file describes it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Grid {
    /// The grid's name.
    pub name: GridName,
    /// The VO whose data moves.
    pub vo: VoName,
    /// The sites, in the order of the file; each RSE's site is among them, no two share a name.
    pub sites: Vec<Site>,
    /// The RSEs, in the order of the file; at least one, no two share a name.
    pub rses: Vec<Rse>,
    /// The folder of the certificate authority that signs the grid's certificates, made if it is not there; without it a
    /// grid makes one of its own. Storage that runs elsewhere has to trust it before it can read from the grid.
    pub authority: Option<PathBuf>,
    /// The issuer of the grid's tokens.
    pub issuer: GridIssuer,
    /// Networks of private addresses to which storages and transfer service may connect, beside the addresses of the RSEs:
    /// `address/prefix`, or an address alone.
    pub reach: Vec<String>,
    /// The transfer service, if it does not start with the grid.
    pub transfer_service: Option<ExternalTransfer>,
    /// The files that share the tokens with which challenges submit their transfers.
    pub transfer_tokens: TransferTokens,
    /// Limits of the transfer service. A service that runs elsewhere has its own limits; they are repeated here for simulations and plans.
    pub transfer: TransferLimits,
    /// Defaults of all embedded RSEs; already applied to [`Grid::rses`].
    pub storage: StorageDefaults,
    /// The catalogue through which challenges go; without it they ask the transfer service themselves.
    pub catalog: Option<GridCatalog>,
    /// The broker that receives messages about transfers; `None` sends none.
    pub broker: Option<Broker>,
}

/// A STOMP broker that is sent FTS3's messages about transfers, which Rucio's receiver reads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Broker {
    /// `host:port`.
    pub address: String,
    /// Whether TLS is spoken.
    pub tls: bool,
    /// The user name of the login.
    pub user: Option<String>,
    /// A file whose first line is the password.
    pub password_file: Option<PathBuf>,
    /// The certificates that vouch for it; without this the grid's own authorities do.
    pub ca: Option<PathBuf>,
}

/// An institute with storage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Site {
    /// The site's name.
    pub name: SiteName,
    /// The tier, from 0 to 3.
    pub tier: u8,
}

/// A storage element.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Rse {
    /// The RSE's name.
    pub name: RseName,
    /// The site that runs it.
    pub site: SiteName,
    /// Whether Weir runs the storage, or it runs elsewhere.
    pub kind: RseKind,
}

/// Where a storage element comes from.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum RseKind {
    /// Started with the grid, on this machine.
    Embedded {
        /// Most bytes that it holds.
        quota: Bytes,
        /// Whether it refuses to write.
        read_only: bool,
        /// Checksums taken on the way in; at least one, none twice.
        checksums: Vec<Algorithm>,
        /// The condition for a file to count as stored.
        durability: Durability,
        /// Most that all its transfers together read and write in a second; no limit if absent.
        bandwidth: Option<BitRate>,
        /// Where it answers; on a loopback address of its own if absent.
        place: Option<Place>,
    },
    /// Runs elsewhere and speaks WebDAV and HTTP-TPC.
    External {
        /// The folder under which the grid keeps its files; `https://`, without a slash at the end.
        url: String,
        /// The certificates that vouch for it, in PEM; the system's own if absent.
        ca: Option<PathBuf>,
        /// How the grid gets a token for it.
        token: TokenFrom,
        /// The path at which the scopes of tokens begin, with a slash before and none at the end (empty for the root); the path of `url` if
        /// absent. `url` is at it or below.
        base_path: Option<String>,
        /// Its own nodes, to which it may redirect a copy together with the tokens of both sides.
        redirect_hosts: Vec<RedirectHost>,
    },
}

impl RseKind {
    /// Says whether the RSE is started with the grid.
    pub fn is_embedded(&self) -> bool {
        matches!(self, RseKind::Embedded { .. })
    }
}

/// Where the token for an external RSE comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenFrom {
    /// From the grid's own issuer, which the storage must trust.
    Grid,
    /// From a file, read anew when it is needed.
    File(PathBuf),
    /// From another issuer, by client credentials.
    Issuer {
        /// The issuer's token endpoint.
        token_url: String,
        /// The client that asks.
        client_id: String,
        /// The file that holds its secret.
        secret_file: PathBuf,
        /// The certificates that vouch for the issuer, in PEM; the system's own if absent.
        ca: Option<PathBuf>,
    },
}

/// The condition for a file to count as stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// It is on the disk (`fsync` of file and folder).
    Full,
    /// It is in the system's cache; a power cut may lose it.
    Cache,
}

impl Durability {
    /// Gives the word of the grid file: `full`, `cache`.
    pub fn as_str(self) -> &'static str {
        match self {
            Durability::Full => "full",
            Durability::Cache => "cache",
        }
    }
}

/// Limits of the transfer service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TransferLimits {
    /// Most transfers at once into one RSE; above zero.
    pub max_active_per_rse_in: u32,
    /// Most transfers at once out of one RSE; above zero.
    pub max_active_per_rse_out: u32,
    /// Most transfers at once on one link; above zero.
    pub max_active_per_link: u32,
    /// Attempts after the first.
    pub retries: u32,
    /// Pause before the first of them.
    #[serde(with = "weir_units::duration")]
    pub retry_delay: Duration,
}

impl Default for TransferLimits {
    /// 100 into and out of each RSE, 20 on a link. That is enough to fill a 10 Gb/s path at 100 ms with 8 MiB windows, and few
    /// enough for a laptop's file descriptors. Two retries, one second apart.
    fn default() -> TransferLimits {
        TransferLimits {
            max_active_per_rse_in: 100,
            max_active_per_rse_out: 100,
            max_active_per_link: 20,
            retries: 2,
            retry_delay: Duration::from_secs(1),
        }
    }
}

/// Defaults of all embedded RSEs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StorageDefaults {
    /// Most bytes that an RSE holds.
    pub quota: Bytes,
    /// The condition for a file to count as stored.
    pub durability: Durability,
    /// Checksums taken on the way in.
    pub checksums: Vec<Algorithm>,
    /// Most that all transfers of an RSE together read and write in a second.
    pub bandwidth: Option<BitRate>,
}

impl Default for StorageDefaults {
    /// 10 GB per RSE, durable before success, adler32 and crc32c, no limit on bandwidth.
    fn default() -> StorageDefaults {
        StorageDefaults {
            quota: Bytes(10_000_000_000),
            durability: Durability::Full,
            checksums: vec![Algorithm::Adler32, Algorithm::Crc32c],
            bandwidth: None,
        }
    }
}

impl Grid {
    /// Finds an RSE by name.
    pub fn rse(&self, name: &RseName) -> Option<&Rse> {
        self.rses.iter().find(|rse| rse.name == *name)
    }

    /// Gives the site of an RSE.
    pub fn site_of(&self, name: &RseName) -> Option<&SiteName> {
        self.rse(name).map(|rse| &rse.site)
    }
}
