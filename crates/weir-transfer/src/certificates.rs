//! Clients' certificates at the door: whom they speak for, and of which VO that one is.

use std::{
    collections::BTreeMap,
    fmt, fs,
    path::PathBuf,
    sync::{Arc, PoisonError, RwLock},
    time::{Duration, SystemTime},
};

use tokio_util::sync::CancellationToken;
use weir_auth::x509::{ClientCertificates, Gridmap, GridmapError, Identity, VomsesError, X509Error, short_fqan};
use weir_http::{TlsError, TrustRoots};

use crate::{config::X509Config, executor::chain, voms::Voms};

/// How often the grid-mapfile is looked at; as the directories of authorities are.
const LOOK_EVERY: Duration = Duration::from_secs(60);

/// What `[x509]` names, read.
pub(crate) struct Certificates {
    pub(crate) clients: ClientCertificates,
    /// Where users' attributes are asked for, if they are.
    pub(crate) voms: Option<Voms>,
    gridmap: Option<PathBuf>,
    map: RwLock<Arc<Gridmap>>,
    accounts: BTreeMap<String, String>,
}

/// Why certificates cannot be taken.
#[derive(Debug, thiserror::Error)]
pub enum CertificatesError {
    /// The directories cannot be used.
    #[error(transparent)]
    Trust(#[from] X509Error),
    /// The list of VOMS servers cannot be used.
    #[error(transparent)]
    Vomses(#[from] VomsesError),
    /// The authorities cannot be used for VOMS servers.
    #[error(transparent)]
    Tls(#[from] TlsError),
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

impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificates").finish_non_exhaustive()
    }
}

impl Certificates {
    /// Reads directories and files. VOMS servers are trusted as `trust` says, too.
    pub(crate) fn open(config: &X509Config, trust: TrustRoots, now: SystemTime) -> Result<Self, CertificatesError> {
        let clients = ClientCertificates::open(config.clients(), now)?;
        let voms = config.vomses.as_ref();
        let voms = voms.map(|vomses| Voms::open(vomses, trust, &config.authorities, clients.clone()));
        let opened = Self {
            clients,
            voms: voms.transpose()?,
            gridmap: config.gridmap.clone(),
            map: RwLock::default(),
            accounts: config.accounts.clone(),
        };
        opened.read_gridmap()?;
        Ok(opened)
    }

    /// The VO that VOMS names, or the grid-mapfile.
    pub(crate) fn vo(&self, identity: &Identity) -> Option<String> {
        let map = self.map.read().unwrap_or_else(PoisonError::into_inner).clone();
        let by_name = || map.vo(&identity.subject, &self.accounts);
        identity.vo().or_else(by_name).map(str::to_owned)
    }

    fn read_gridmap(&self) -> Result<(), CertificatesError> {
        let Some(path) = &self.gridmap else { return Ok(()) };
        let text = fs::read_to_string(path).map_err(|source| CertificatesError::Gridmap {
            path: path.clone(),
            source,
        })?;
        let map = Gridmap::parse(&text).map_err(|source| CertificatesError::GridmapLine {
            path: path.clone(),
            source,
        })?;
        *self.map.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(map);
        Ok(())
    }

    /// Reads the grid-mapfile again and again. One that cannot be read leaves in force what was read before.
    pub(crate) async fn keep_up(self: Arc<Self>, stop: CancellationToken) {
        if self.gridmap.is_none() {
            return;
        }
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
            let this = self.clone();
            if let Ok(Err(error)) = tokio::task::spawn_blocking(move || this.read_gridmap()).await {
                tracing::warn!(error = chain(&error), "the grid-mapfile is left as it was");
            }
        }
    }
}

/// The roles in FQANs, each once, in their order.
pub(crate) fn roles<'a>(fqans: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
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
