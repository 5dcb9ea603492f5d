//! Clients' certificates at the door, and where attributes of VOs come from.

mod error;

pub(crate) mod voms;

use std::{sync::Arc, time::SystemTime};

pub use error::CertificatesError;
use voms::Voms;
use weir_auth::x509::{ClientCertificates, Door, Identity};
use weir_http::TrustRoots;
use weir_transfer::config::{TransferConfig, X509Config};

/// The loaded files of `[x509]`.
#[derive(Debug)]
pub(crate) struct Certificates {
    pub(crate) clients: ClientCertificates,
    /// Where users' attributes are asked for, if they are.
    pub(crate) voms: Option<Voms>,
    door: Door,
}

impl Certificates {
    /// Loads the files of `[x509]`, if there is that table.
    pub(crate) fn named_by(config: &TransferConfig) -> Result<Option<Arc<Self>>, CertificatesError> {
        let Some(x509) = &config.x509 else { return Ok(None) };
        let read = Self::open(x509, config.trust.roots(), SystemTime::now())?;
        Ok(Some(Arc::new(read)))
    }

    /// Reads directories and files. VOMS servers are trusted as `trust` says, too.
    pub(crate) fn open(config: &X509Config, trust: TrustRoots, now: SystemTime) -> Result<Self, CertificatesError> {
        let door = Door::open(config, now)?;
        let clients = door.clients().clone();
        let voms = config.vomses.as_ref();
        let voms = voms.map(|vomses| Voms::open(vomses, trust, &config.authorities, clients.clone()));
        Ok(Self {
            clients,
            voms: voms.transpose()?,
            door,
        })
    }

    /// The VO that VOMS names, or the grid-mapfile.
    pub(crate) fn vo(&self, identity: &Identity) -> Option<String> {
        self.door.vo(identity)
    }

    /// Reads the grid-mapfile again, and changed directories. Unreadable ones keep their former content.
    pub(crate) fn look(&self) -> Result<(), String> {
        let looked = self.door.look(SystemTime::now());
        looked.map_err(|error| weir_auth::error_chain(&error))
    }
}
