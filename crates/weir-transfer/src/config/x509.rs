//! The `[x509]` table.

use std::{collections::BTreeMap, path::PathBuf};

use serde::{Deserialize, Serialize};
use weir_auth::x509::{DoorConfig, RevocationCheck};

/// Clients' certificates. Without this table nobody is asked for one.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct X509Config {
    /// Directory of authorities as the IGTF distributes it, usually `/etc/grid-security/certificates`.
    pub authorities: PathBuf,
    /// Directory of VOMS servers, usually `/etc/grid-security/vomsdir`. Default: VOMS attributes are not looked at.
    #[serde(default)]
    pub vomsdir: Option<PathBuf>,
    /// The list of VOMS servers that are asked for attributes, a file or a folder, usually `/etc/vomses`. Default: none is asked.
    #[serde(default)]
    pub vomses: Option<PathBuf>,
    /// How much revocation lists matter.
    #[serde(default)]
    pub revocation: RevocationCheck,
    /// Our names, for VOMS attributes that are meant for certain hosts.
    #[serde(default)]
    pub host_names: Vec<String>,
    /// Whether a bad certificate ends the TLS handshake; by default the request is answered with what is wrong.
    #[serde(default)]
    pub refuse_in_handshake: bool,
    /// A grid-mapfile, for users without VOMS attributes. Default: they have no VO, and are not let in.
    #[serde(default)]
    pub gridmap: Option<PathBuf>,
    /// VOs of the grid-mapfile's accounts; a pool (`.atlas`) is one by its name.
    #[serde(default)]
    pub accounts: BTreeMap<String, String>,
}

impl X509Config {
    /// Without what only a service that asks VOMS servers has.
    pub(crate) fn door(&self) -> DoorConfig {
        DoorConfig {
            authorities: self.authorities.clone(),
            vomsdir: self.vomsdir.clone(),
            revocation: self.revocation,
            host_names: self.host_names.clone(),
            refuse_in_handshake: self.refuse_in_handshake,
            gridmap: self.gridmap.clone(),
            accounts: self.accounts.clone(),
        }
    }

    pub(super) fn paths(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        [&mut self.authorities]
            .into_iter()
            .chain(&mut self.vomsdir)
            .chain(&mut self.vomses)
            .chain(&mut self.gridmap)
    }
}
