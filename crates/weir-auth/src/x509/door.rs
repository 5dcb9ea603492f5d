//! A door's configuration for client certificates: an operator's `[x509]` table, and the files that it names.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use parking_lot::RwLock;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::{
    ClientCertificates, ClientCertificatesConfig, Gridmap, GridmapError, Identity, RevocationCheck, X509Error,
    short_fqan,
};

/// The `[x509]` table: client certificates. Without it none is requested.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DoorConfig {
    /// Directory of authorities as the IGTF distributes it, usually `/etc/grid-security/certificates`.
    pub authorities: PathBuf,
    /// Directory of VOMS servers, usually `/etc/grid-security/vomsdir`. Default: VOMS attributes are not looked at.
    #[serde(default)]
    pub vomsdir: Option<PathBuf>,
    /// The list of VOMS servers that are asked for attributes, a file or a folder, usually `/etc/vomses`. Default: none
    /// is asked. Doors that never ask refuse it.
    #[serde(default)]
    pub vomses: Option<PathBuf>,
    /// How much revocation lists matter.
    #[serde(default)]
    pub revocation: RevocationCheck,
    /// Our names, for VOMS attributes that are meant for certain hosts.
    #[serde(default)]
    pub host_names: Vec<String>,
    /// Whether a bad certificate ends the TLS handshake; by default the request is answered with the error.
    #[serde(default)]
    pub refuse_in_handshake: bool,
    /// A grid-mapfile, for users without VOMS attributes. Default: they have no VO.
    #[serde(default)]
    pub gridmap: Option<PathBuf>,
    /// VOs of the grid-mapfile's accounts; a pool (`.atlas`) is one by its name.
    #[serde(default)]
    pub accounts: BTreeMap<String, String>,
}

impl DoorConfig {
    /// The defaults, for this directory of authorities.
    pub fn new(authorities: impl Into<PathBuf>) -> Self {
        Self {
            authorities: authorities.into(),
            vomsdir: None,
            vomses: None,
            revocation: RevocationCheck::default(),
            host_names: Vec::new(),
            refuse_in_handshake: false,
            gridmap: None,
            accounts: BTreeMap::new(),
        }
    }

    /// Files and directories that [`Door::look`] reads, to be watched.
    pub fn files(&self) -> Vec<PathBuf> {
        let authorities = [&self.authorities].into_iter();
        authorities.chain(&self.vomsdir).chain(&self.gridmap).cloned().collect()
    }

    /// Every path in it, to be resolved against the folder of the file that it came from.
    pub fn paths(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        [&mut self.authorities]
            .into_iter()
            .chain(&mut self.vomsdir)
            .chain(&mut self.vomses)
            .chain(&mut self.gridmap)
    }

    fn clients(&self) -> ClientCertificatesConfig {
        ClientCertificatesConfig {
            authorities: self.authorities.clone(),
            vomsdir: self.vomsdir.clone(),
            revocation: self.revocation,
            host_names: self.host_names.clone(),
            refuse_in_handshake: self.refuse_in_handshake,
        }
    }
}

/// Why certificates cannot be taken.
#[derive(Debug, Error)]
pub enum DoorError {
    /// The directories cannot be used.
    #[error(transparent)]
    Trust(#[from] X509Error),
    /// The grid-mapfile cannot be read.
    #[error("could not read {path}")]
    Gridmap {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The grid-mapfile cannot be understood.
    #[error("could not understand {path}")]
    GridmapLine {
        /// The file.
        path: PathBuf,
        /// Where and why.
        #[source]
        source: GridmapError,
    },
}

/// Knows users by their certificates, and their VO.
#[derive(Debug)]
pub struct Door {
    clients: ClientCertificates,
    gridmap: Option<PathBuf>,
    map: RwLock<Arc<Gridmap>>,
    accounts: BTreeMap<String, String>,
}

impl Door {
    /// Reads directories and files.
    ///
    /// # Errors
    /// [`DoorError`]: which of them cannot be used.
    pub fn open(config: &DoorConfig, now: SystemTime) -> Result<Self, DoorError> {
        let opened = Self {
            clients: ClientCertificates::open(config.clients(), now)?,
            gridmap: config.gridmap.clone(),
            map: RwLock::default(),
            accounts: config.accounts.clone(),
        };
        opened.read_gridmap()?;
        Ok(opened)
    }

    /// Verifies chains.
    pub fn clients(&self) -> &ClientCertificates {
        &self.clients
    }

    /// The VO that VOMS names, or the grid-mapfile.
    pub fn vo(&self, identity: &Identity) -> Option<String> {
        let map = self.map.read().clone();
        let by_name = || map.vo(&identity.subject, &self.accounts);
        identity.vo().or_else(by_name).map(str::to_owned)
    }

    /// Reads the grid-mapfile, and the directories if anything in them has changed. Unreadable ones keep their former
    /// content.
    ///
    /// # Errors
    /// [`DoorError`]: the first that cannot be read.
    pub fn look(&self, now: SystemTime) -> Result<(), DoorError> {
        let directories = self.clients.refresh(now);
        self.read_gridmap()?;
        directories?;
        Ok(())
    }

    fn read_gridmap(&self) -> Result<(), DoorError> {
        let Some(path) = &self.gridmap else { return Ok(()) };
        let text = fs::read_to_string(path).map_err(|source| DoorError::Gridmap {
            path: path.clone(),
            source,
        })?;
        let map = Gridmap::parse(&text).map_err(|source| DoorError::GridmapLine {
            path: path.clone(),
            source,
        })?;
        *self.map.write() = Arc::new(map);
        Ok(())
    }
}

/// The roles in FQANs, each once, in their order.
pub fn roles<'a>(fqans: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut roles = Vec::new();
    for role in fqans.filter_map(|fqan| short_fqan(fqan).split_once("/Role=")) {
        if !roles.contains(&role.1) {
            roles.push(role.1);
        }
    }
    roles
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_are_read_from_fqans() {
        let fqans = [
            "/testvo/Role=NULL/Capability=NULL",
            "/testvo/Role=lcgadmin/Capability=NULL",
            "/testvo/group/Role=lcgadmin",
            "/testvo",
        ];
        assert_eq!(roles(fqans.into_iter()), ["lcgadmin"]);
    }
}
