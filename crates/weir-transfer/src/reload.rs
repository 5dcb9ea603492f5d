//! What the service reads again while it serves: who may call it, and with which certificate it serves, from its configuration; files that
//! other programs renew. All else of the configuration waits for a restart.

use std::{path::PathBuf, sync::Arc, time::SystemTime};

use weir_http::{ChainCheck, Reloadable, ServerTls, TlsError};
use weir_service::{
    reload::{Part, Reloads, Renew, look_at},
    tls::TlsFiles,
};

use crate::{
    callers::Callers,
    certificates::Certificates,
    config::{TransferConfig, X509Config},
    opening::{StartError, certificates},
    servers::ServersTrust,
    service::Service,
};

/// A service with what it read from files.
pub(crate) struct Reloading {
    service: Arc<Service>,
    trust: ServersTrust,
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
    pub(crate) fn new(service: Arc<Service>, trust: ServersTrust, tls: ServerTls) -> Self {
        let config = service.config.clone();
        service.reloads.have_read(look_at(files(&config)));
        Self {
            service,
            trust,
            tls,
            config: Arc::new(config).into(),
        }
    }

    /// See [`crate::Running::reload`].
    pub(crate) async fn reload(self: &Arc<Self>, config: TransferConfig) -> Result<Vec<String>, StartError> {
        let _turn = self.service.reloads.turn().await;
        let this = self.clone();
        // It reads files.
        let taken = tokio::task::spawn_blocking(move || this.exchange(&config)).await;
        let taken = taken.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()));
        self.service.reloads.took(&taken);
        taken
    }

    fn exchange(&self, config: &TransferConfig) -> Result<Vec<String>, StartError> {
        weir_service::config::check(config)?;
        let service = &self.service;
        let (config, waiting) = settle(&self.config.get(), config);
        let seen = look_at(files(&config));
        let certificates = certificates(&config)?;
        let (tls, end) = server_tls(&config, certificates.as_ref())?;
        let before = service.callers.get();
        let client = service.client.clone();
        let callers = Callers::new(&config, &service.url, client, certificates, Some(&before));
        let refresher = service
            .keeper
            .prepare(callers.verifier.clone(), &config.issuers, &config.brokers)?;
        // From here on nothing can fail.
        self.tls.renew(&tls);
        service.reloads.shows_certificate(end);
        service.callers.set(Arc::new(callers));
        refresher();
        self.config.set(Arc::new(config));
        service.reloads.have_read(seen);
        Ok(waiting)
    }

    pub(crate) fn refuse(&self, why: &str) {
        self.service.reloads.told(Part::Configuration, Err(why));
    }
}

impl Renew for Reloading {
    fn reloads(&self) -> &Reloads {
        &self.service.reloads
    }

    fn files(&self) -> Vec<(Part, Vec<PathBuf>)> {
        files(&self.config.get())
    }

    fn take(&self, part: Part) -> Result<(), String> {
        let certificates = self.service.callers.get().certificates.clone();
        match part {
            Part::Configuration => Ok(()),
            Part::Certificate => {
                let read = server_tls(&self.config.get(), certificates.as_ref());
                let (tls, end) = read.map_err(|error| weir_auth::error_chain(&error))?;
                self.tls.renew(&tls);
                self.service.reloads.shows_certificate(end);
                Ok(())
            }
            Part::Trust => self.trust.renew(&self.service.client),
            Part::Clients => match certificates {
                Some(certificates) => certificates.look(),
                None => Ok(()),
            },
        }
    }
}

/// The files of a configuration that others renew.
fn files(config: &TransferConfig) -> Vec<(Part, Vec<PathBuf>)> {
    let x509 = config.x509.as_ref();
    let mut trust = config.trust.files();
    trust.extend(ServersTrust::directories(config));
    vec![
        (Part::Certificate, config.tls.iter().flat_map(TlsFiles::files).collect()),
        (Part::Trust, trust),
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
    fn what_needs_a_restart_stays_and_is_named() {
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
