//! VOMS servers, queried for attributes under the name of users who delegated a proxy.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use weir_auth::{
    Secret,
    x509::{
        AttributeRequest, ClientCertificates, EndowError, VomsClient, Vomses, VomsesError, delegation::Credential,
        endow,
    },
};
use weir_http::{Client, ClientConfig, TrustRoots};

use super::CertificatesError;
use weir_executor::places::Places;
use weir_service::time;

/// How many calls are served at once: each costs a TLS connection, and servers that do not answer keep it for long.
const PLACES: usize = 8;
/// Of which one user may have so many.
const PLACES_OF_ONE: usize = 2;
/// How long a user waits for all servers.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long one server may take to let us in, and for all of its answer. VOMS's own clients wait 2 and 5 s.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const SERVER_PATIENCE: Duration = Duration::from_secs(15);

/// Asks the servers of a `vomses`, which is read anew each time: a server that was added counts at once.
#[derive(Debug)]
pub(crate) struct Voms {
    client: VomsClient,
    vomses: PathBuf,
    places: Places,
}

/// Why a user gets no attributes.
#[derive(Debug, thiserror::Error)]
pub(crate) enum VomsFailure {
    #[error(transparent)]
    Servers(#[from] EndowError),
    #[error("the list of VOMS servers cannot be used")]
    Vomses(#[from] VomsesError),
    #[error("no answer of the VOMS servers within {} s", PATIENCE.as_secs())]
    Timeout,
    #[error("too many requests for VOMS attributes are under way here; try again later")]
    Busy,
}

impl Voms {
    /// Servers are trusted as all others are, and under the authorities of users too.
    ///
    /// # Errors
    /// If the list or the authorities cannot be read.
    pub(crate) fn open(
        vomses: &Path,
        trust: TrustRoots,
        authorities: &Path,
        certificates: ClientCertificates,
    ) -> Result<Self, CertificatesError> {
        let servers = Vomses::load(vomses)?.servers().len();
        tracing::info!(servers, vomses = %vomses.display(), "VOMS servers are asked for attributes");
        let mut config = ClientConfig::new(trust.and(TrustRoots {
            files: Vec::new(),
            directories: vec![authorities.to_owned()],
        }));
        config.connect_timeout = CONNECT_TIMEOUT;
        config.connections = Some(PLACES);
        Ok(Self {
            client: VomsClient::new(Client::new(config)?, certificates, SERVER_PATIENCE),
            vomses: vomses.to_owned(),
            places: Places::new(PLACES, PLACES_OF_ONE),
        })
    }

    /// A proxy below the user's delegated one, with all requested attributes.
    pub(crate) async fn endow(
        &self,
        user: &str,
        delegated: &Secret,
        requests: &[AttributeRequest],
    ) -> Result<Credential, VomsFailure> {
        let _place = self.places.enter(user, 1).ok_or(VomsFailure::Busy)?;
        let work = async {
            let path = self.vomses.clone();
            let vomses = tokio::task::spawn_blocking(move || Vomses::load(&path)).await;
            let vomses = vomses.map_err(|_| EndowError::Stopped)??;
            Ok::<_, VomsFailure>(endow(&self.client, &vomses, delegated, requests, time::system()).await?)
        };
        tokio::time::timeout(PATIENCE, work)
            .await
            .unwrap_or(Err(VomsFailure::Timeout))
    }
}
