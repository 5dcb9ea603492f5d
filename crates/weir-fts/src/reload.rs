//! The reloadable part of the service: callers and its certificate, from its configuration; and files that other
//! programs renew. The rest of the configuration waits for a restart.

use std::{path::PathBuf, sync::Arc, time::SystemTime};

use weir_auth::Verifier;
use weir_http::{ChainCheck, Reloadable, ServerTls, TlsError};
use weir_service::{
    reload::{Files, Part, Reloads, Renew, look, look_at},
    tls::TlsFiles,
};
use weir_transfer::{
    Outbound,
    config::{TransferConfig, X509Config},
};

use crate::{
    access::{callers::Callers, certificates::Certificates},
    error::{OpenError, StartError},
    state::Door,
};

/// A service with the files that it has loaded.
pub(crate) struct Reloading {
    door: Arc<Door>,
    tls: ServerTls,
    /// As it is in force.
    config: Reloadable<TransferConfig>,
}

/// How connections are encrypted, and when the certificate ends that clients are shown.
pub(crate) fn server_tls(
    config: &TransferConfig,
    certificates: Option<&Arc<Certificates>>,
) -> Result<(ServerTls, Option<SystemTime>), TlsError> {
    let Some(files) = &config.tls else {
        return Ok((ServerTls::default(), None));
    };
    files.serve(certificates.map(|certificates| Arc::new(certificates.clients.clone()) as Arc<dyn ChainCheck>))
}

impl Reloading {
    /// `seen`: the files of the configuration, looked at before they were read.
    pub(crate) fn new(door: Arc<Door>, config: TransferConfig, seen: Files, tls: ServerTls) -> Self {
        door.reloads.have_read(seen);
        Self {
            door,
            tls,
            config: Arc::new(config).into(),
        }
    }

    /// See [`crate::Running::reload`].
    pub(crate) async fn reload(self: &Arc<Self>, config: TransferConfig) -> Result<Vec<String>, StartError> {
        let taken = {
            let _turn = self.door.reloads.turn().await;
            let this = self.clone();
            // It reads files.
            let taken = tokio::task::spawn_blocking(move || this.exchange(&config)).await;
            taken.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
        };
        self.door.reloads.took(&taken);
        // Authorities of others are no part of the exchange.
        look(self.clone()).await;
        taken
    }

    fn exchange(&self, config: &TransferConfig) -> Result<Vec<String>, StartError> {
        weir_service::config::check(config)?;
        let door = &self.door;
        let (config, waiting) = settle(&self.config.get(), config);
        let mut seen = look_at(files(&config));
        seen.remove(&Part::Trust);
        let certificates = Certificates::named_by(&config).map_err(OpenError::Certificates)?;
        let (tls, end) = server_tls(&config, certificates.as_ref())?;
        let before = door.callers.get();
        let client = door.outbound.client.clone();
        let callers = Callers::new(&config, &door.url, client, certificates, Some(&before));
        let refresher = door
            .refresher
            .prepare(callers.verifier.clone(), &config.issuers, &config.brokers)?;
        // From here on nothing can fail.
        self.tls.renew(&tls);
        door.reloads.shows_certificate(end);
        door.callers.set(Arc::new(callers));
        refresher();
        self.config.set(Arc::new(config));
        door.reloads.have_read(seen);
        Ok(waiting)
    }

    pub(crate) fn verifier(&self) -> Verifier {
        self.door.callers.get().verifier.clone()
    }

    pub(crate) fn refuse(&self, why: &str) {
        self.door.reloads.told(Part::Configuration, Err(why));
    }
}

impl Renew for Reloading {
    fn reloads(&self) -> &Reloads {
        &self.door.reloads
    }

    fn files(&self) -> Vec<(Part, Vec<PathBuf>)> {
        files(&self.config.get())
    }

    fn take(&self, part: Part) -> Result<(), String> {
        let certificates = self.door.callers.get().certificates.clone();
        match part {
            Part::Configuration => Ok(()),
            Part::Certificate => {
                let read = server_tls(&self.config.get(), certificates.as_ref());
                let (tls, end) = read.map_err(|error| weir_auth::error_chain(&error))?;
                self.tls.renew(&tls);
                self.door.reloads.shows_certificate(end);
                Ok(())
            }
            Part::Trust => self.door.outbound.renew(),
            Part::Clients => match certificates {
                Some(certificates) => certificates.look(),
                None => Ok(()),
            },
        }
    }
}

/// The files of a configuration that others renew.
pub(crate) fn files(config: &TransferConfig) -> Vec<(Part, Vec<PathBuf>)> {
    let x509 = config.x509.as_ref();
    vec![
        (Part::Certificate, config.tls.iter().flat_map(TlsFiles::files).collect()),
        (Part::Trust, Outbound::files(config)),
        (Part::Clients, x509.map(X509Config::files).unwrap_or_default()),
    ]
}

/// The configuration to serve from now on, and a sentence for each key of the new one that needs a restart.
fn settle(now: &TransferConfig, new: &TransferConfig) -> (TransferConfig, Vec<String>) {
    let mut settled = TransferConfig {
        audiences: new.audiences.clone(),
        any_audience: new.any_audience,
        required_scope: new.required_scope.clone(),
        issuers: new.issuers.clone(),
        brokers: new.brokers.clone(),
        user_level: new.user_level,
        admins: new.admins.clone(),
        metrics_allow: new.metrics_allow.clone(),
        ..now.clone()
    };
    // Whether connections are encrypted stays as it is.
    if now.tls.is_some() && new.tls.is_some() {
        settled.tls.clone_from(&new.tls);
        settled.x509.clone_from(&new.x509);
    }
    let waiting = weir_service::config::waiting(&settled, new);
    (settled, waiting)
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_executor::config::IssuerConfig;

    #[test]
    fn a_key_that_needs_a_restart_stays_and_is_named() {
        // An operator would believe in a limit that is not in force.
        let mut now = TransferConfig::new(([127, 0, 0, 1], 0).into());
        now.issuers = vec![IssuerConfig::new("https://one", "vo")];
        let mut new = now.clone();
        new.issuers.push(IssuerConfig::new("https://two", "vo"));
        new.limits.link = 7;
        new.plain_http = true;
        new.tls = Some(TlsFiles {
            certificate: "cert".into(),
            key: "key".into(),
        });
        let (settled, waiting) = settle(&now, &new);
        let keys: Vec<_> = waiting.iter().filter_map(|text| text.split(' ').next()).collect();
        assert_eq!(keys, ["limits", "plain_http", "tls"]);
        assert_eq!(settled.issuers.len(), 2);
        assert_eq!(settled.limits.link, now.limits.link);
        assert!(settled.tls.is_none());
        assert_eq!(settle(&now, &now).1, Vec::<String>::new());
    }
}
