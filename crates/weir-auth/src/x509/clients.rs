//! The trust of a door in its clients' certificates: read from directories, kept up to date, asked per request.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use aws_lc_rs::digest::{Context, SHA256};
use parking_lot::{Mutex, RwLock};
use rustls_pki_types::CertificateDer;
use weir_http::{CertificateError, ChainCheck, PeerCertificates};

use super::authorities::Authorities;
use super::error::X509Error;
use super::folder::{Entry, list};
use super::identity::Identity;
use super::name::slash_form;
use super::proxy::bearer;
use super::revocation::RevocationCheck;
use super::voms::lsc::Servers;
use super::voms::{Trust, VomsAttributes, attributes, judge};

/// How often the directories are looked at. `fetch-crl` runs every six hours; a minute is soon enough and costs a
/// millisecond.
const LOOK_EVERY: Duration = Duration::from_secs(60);
/// How long a verified chain is taken without being verified again.
const TAKEN_FOR: Duration = Duration::from_secs(60);
/// Verified chains kept in mind, some 2 kB each. A full cache is emptied.
const CHAINS_KEPT: usize = 4096;

/// The directories of a door's trusted authorities and VOMS servers; an operator sets them in the table
/// [`super::DoorConfig`].
#[derive(Debug, Clone)]
pub struct ClientCertificatesConfig {
    /// Directory of authorities as the IGTF distributes it, usually `/etc/grid-security/certificates`: `*.0` and `*.pem`,
    /// revocation lists `*.r0`, and `*.signing_policy` where an authority has one.
    pub authorities: PathBuf,
    /// Directory of VOMS servers, usually `/etc/grid-security/vomsdir`, with `<vo>/<host>.lsc`. None: VOMS attributes are
    /// not looked at.
    pub vomsdir: Option<PathBuf>,
    /// How much revocation lists matter.
    pub revocation: RevocationCheck,
    /// Our own names, for VOMS attributes that are meant for certain hosts only.
    pub host_names: Vec<String>,
    /// Whether a bad certificate ends the TLS handshake. False by default: the client then gets an answer with the
    /// error, and a client that also has a token is accepted by that.
    pub refuse_in_handshake: bool,
}

impl ClientCertificatesConfig {
    /// The defaults, for this directory of authorities.
    pub fn new(authorities: impl Into<PathBuf>) -> Self {
        Self {
            authorities: authorities.into(),
            vomsdir: None,
            revocation: RevocationCheck::default(),
            host_names: Vec::new(),
            refuse_in_handshake: false,
        }
    }
}

/// Verifies clients' certificates. Clones are cheap and share everything.
#[derive(Clone)]
pub struct ClientCertificates(Arc<Inner>);

struct Inner {
    config: ClientCertificatesConfig,
    reading: RwLock<Arc<ClientTrust>>,
    looked: Mutex<Instant>,
    is_looking: AtomicBool,
    known: Mutex<HashMap<[u8; 32], Known>>,
}

/// The content of the directories.
struct ClientTrust {
    files: Files,
    authorities: Authorities,
    servers: Servers,
}

#[derive(PartialEq, Eq)]
struct Files {
    authorities: Vec<Entry>,
    vomsdir: Vec<Entry>,
}

/// A chain that was verified a moment ago.
struct Known {
    identity: Arc<Identity>,
    by: Arc<ClientTrust>,
    at: SystemTime,
}

impl Known {
    fn is_good(&self, reading: &Arc<ClientTrust>, now: SystemTime) -> bool {
        let age = now.duration_since(self.at);
        Arc::ptr_eq(&self.by, reading) && age.is_ok_and(|age| age < TAKEN_FOR) && now <= self.identity.not_after
    }
}

impl fmt::Debug for ClientCertificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientCertificates")
            .field("config", &self.0.config)
            .finish_non_exhaustive()
    }
}

impl ClientCertificates {
    /// Reads the directories.
    ///
    /// # Errors
    /// [`X509Error::Trust`] if one cannot be read, or there is no authority in the first.
    pub fn open(config: ClientCertificatesConfig, now: SystemTime) -> Result<Self, X509Error> {
        let files = Files::list(&config)?;
        let reading = ClientTrust::load(&config, files, now)?;
        Ok(Self::new(config, reading))
    }

    fn new(config: ClientCertificatesConfig, reading: ClientTrust) -> Self {
        Self(Arc::new(Inner {
            config,
            reading: RwLock::new(Arc::new(reading)),
            looked: Mutex::new(Instant::now()),
            is_looking: AtomicBool::new(false),
            known: Mutex::default(),
        }))
    }

    /// Without directories.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn of(authorities: Authorities, servers: Servers) -> Self {
        let files = Files {
            authorities: Vec::new(),
            vomsdir: Vec::new(),
        };
        let reading = ClientTrust {
            files,
            authorities,
            servers,
        };
        Self::new(ClientCertificatesConfig::new("/nonexistent"), reading)
    }

    /// The identity of a request's client certificate; `None` if the client showed no certificate.
    ///
    /// # Errors
    /// The reason why the certificate is refused. A door refuses the request with [`X509Error::status`], unless it
    /// carries a token: then the token decides.
    pub fn identity(&self, extensions: &http::Extensions, now: SystemTime) -> Result<Option<Arc<Identity>>, X509Error> {
        let Some(PeerCertificates(chain)) = extensions.get() else {
            return Ok(None);
        };
        self.verify(chain, now).map(Some)
    }

    /// The identity of a chain: the client's own certificate first, then the others in any order.
    ///
    /// The caller must know that the client holds the key: [`ClientCertificates::identity`] knows it from TLS.
    ///
    /// # Errors
    /// The reason why the chain is refused.
    pub fn verify(&self, chain: &[CertificateDer<'_>], now: SystemTime) -> Result<Arc<Identity>, X509Error> {
        self.look_now_and_then();
        let reading = self.reading();
        let hash = hash(chain);
        if let Some(known) = self
            .0
            .known
            .lock()
            .get(&hash)
            .filter(|known| known.is_good(&reading, now))
        {
            return Ok(known.identity.clone());
        }
        let identity = Arc::new(reading.verify(chain, &self.0.config.host_names, now)?);
        let entry = Known {
            identity: identity.clone(),
            by: reading,
            at: now,
        };
        let mut known = self.0.known.lock();
        if known.len() >= CHAINS_KEPT {
            known.clear();
        }
        known.insert(hash, entry);
        Ok(identity)
    }

    /// Checks the directories for changes, and reads them if there are any; returns whether there were. While clients
    /// come, a thread checks them once a minute without being told.
    ///
    /// # Errors
    /// [`X509Error::Trust`]; the earlier content stays in force.
    pub fn refresh(&self, now: SystemTime) -> Result<bool, X509Error> {
        let files = Files::list(&self.0.config)?;
        if files == self.reading().files {
            return Ok(false);
        }
        let reading = Arc::new(ClientTrust::load(&self.0.config, files, now)?);
        *self.0.reading.write() = reading;
        self.0.known.lock().clear();
        Ok(true)
    }

    /// The attributes of one attribute certificate for the end entity of a client's chain, or the reason why it is
    /// refused.
    pub(crate) fn judge(
        &self,
        chain: &[CertificateDer<'_>],
        certificate: &[u8],
        now: SystemTime,
    ) -> Result<VomsAttributes, String> {
        let reading = self.reading();
        let chain: Vec<&[u8]> = chain.iter().map(AsRef::as_ref).collect();
        let described = |error: X509Error| crate::error_chain(&error);
        let verified = reading.authorities.verify_client(&chain, now).map_err(described)?;
        let parsed = verified.parsed().map_err(described)?;
        let bearer = bearer(&parsed).map_err(described)?;
        judge(
            certificate,
            &parsed[bearer.place],
            reading.trust(&self.0.config.host_names),
            now,
        )
    }

    /// The name, in slash form, of a server whose chain leads to an authority: its own certificate first.
    ///
    /// # Errors
    /// The reason why the chain is refused.
    pub(crate) fn server_name(&self, chain: &[CertificateDer<'_>], now: SystemTime) -> Result<String, X509Error> {
        let chain: Vec<&[u8]> = chain.iter().map(AsRef::as_ref).collect();
        let verified = self.reading().authorities.verify_server(&chain, now)?;
        let parsed = verified.parsed()?;
        Ok(parsed
            .first()
            .map(|server| slash_form(server.subject()))
            .unwrap_or_default())
    }

    fn reading(&self) -> Arc<ClientTrust> {
        self.0.reading.read().clone()
    }

    /// Starts a look at the directories if the last one was long ago and none is under way.
    fn look_now_and_then(&self) {
        {
            let mut looked = self.0.looked.lock();
            if looked.elapsed() < LOOK_EVERY || self.0.is_looking.swap(true, Ordering::AcqRel) {
                return;
            }
            *looked = Instant::now();
        }
        let certificates = self.clone();
        let started = std::thread::Builder::new()
            .name("weir-authorities".to_owned())
            .spawn(move || {
                match certificates.refresh(SystemTime::now()) {
                    Ok(true) => tracing::info!("authorities read again"),
                    Ok(false) => {}
                    Err(error) => tracing::warn!(error = %crate::error_chain(&error), "authorities left as they were"),
                }
                certificates.0.is_looking.store(false, Ordering::Release);
            });
        if started.is_err() {
            self.0.is_looking.store(false, Ordering::Release);
        }
    }
}

impl ChainCheck for ClientCertificates {
    /// In the handshake, a bad chain is logged, and refused if so configured. The result is not reused:
    /// [`ClientCertificates::identity`] judges each request anew.
    fn check(&self, chain: &[CertificateDer<'_>]) -> Result<(), CertificateError> {
        let Err(error) = self.verify(chain, SystemTime::now()) else {
            return Ok(());
        };
        tracing::info!(error = %crate::error_chain(&error), "client certificate refused");
        if self.0.config.refuse_in_handshake {
            Err(error.alert())
        } else {
            Ok(())
        }
    }
}

impl Files {
    fn list(config: &ClientCertificatesConfig) -> Result<Self, X509Error> {
        Ok(Self {
            authorities: list(&config.authorities, 0)?,
            vomsdir: config
                .vomsdir
                .as_deref()
                .map_or_else(|| Ok(Vec::new()), |dir| list(dir, 1))?,
        })
    }
}

impl ClientTrust {
    fn load(config: &ClientCertificatesConfig, files: Files, now: SystemTime) -> Result<Self, X509Error> {
        let authorities = Authorities::load(&files.authorities, config.revocation, now)?;
        if authorities.is_empty() {
            let none = io::Error::new(io::ErrorKind::NotFound, "it holds no authority that is valid now");
            return Err(X509Error::trust(&config.authorities)(none));
        }
        let vomsdir = config.vomsdir.as_deref();
        let servers = vomsdir
            .map(|dir| Servers::load(dir, &files.vomsdir))
            .unwrap_or_default();
        Ok(Self {
            files,
            authorities,
            servers,
        })
    }

    fn trust<'a>(&'a self, host_names: &'a [String]) -> Trust<'a> {
        Trust {
            authorities: &self.authorities,
            servers: &self.servers,
            host_names,
        }
    }

    fn verify(
        &self,
        chain: &[CertificateDer<'_>],
        host_names: &[String],
        now: SystemTime,
    ) -> Result<Identity, X509Error> {
        let chain: Vec<&[u8]> = chain.iter().map(AsRef::as_ref).collect();
        let verified = self.authorities.verify_client(&chain, now)?;
        let parsed = verified.parsed()?;
        let bearer = bearer(&parsed)?;
        let end_entity = &parsed[bearer.place];
        Ok(Identity {
            subject: slash_form(end_entity.subject()),
            issuer: slash_form(end_entity.issuer()),
            not_after: verified.not_after,
            n_proxies: bearer.place,
            is_limited: bearer.is_limited,
            voms: attributes(&parsed, bearer.place, self.trust(host_names), now),
            certificate: verified.chain[bearer.place].clone(),
        })
    }
}

/// The SHA-256 of a chain, lengths included.
fn hash(chain: &[CertificateDer<'_>]) -> [u8; 32] {
    let mut context = Context::new(&SHA256);
    for certificate in chain {
        context.update(&certificate.len().to_be_bytes());
        context.update(certificate);
    }
    let mut hash = [0; 32];
    hash.copy_from_slice(context.finish().as_ref());
    hash
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]
mod tests {
    use super::*;
    use crate::ca::{CertificateAuthority, read_certificates};

    /// A new authority would count only after an explicit reload.
    #[test]
    fn a_change_is_found_while_clients_come() {
        let dir = tempfile::tempdir().unwrap();
        let authority = |name: &str| CertificateAuthority::create(&dir.path().join(name)).unwrap();
        let (first, second) = (authority("first"), authority("second"));
        let chain = second.issue(&[], "Ada").unwrap().chain_pem;
        let chain = read_certificates(&chain, dir.path()).unwrap();

        let trusted = dir.path().join("certificates");
        std::fs::create_dir(&trusted).unwrap();
        std::fs::copy(first.file(), trusted.join("first.pem")).unwrap();
        let now = SystemTime::now();
        let certificates = ClientCertificates::open(ClientCertificatesConfig::new(&trusted), now).unwrap();
        certificates.verify(&chain, now).unwrap_err();

        std::fs::copy(second.file(), trusted.join("second.pem")).unwrap();
        certificates.verify(&chain, now).unwrap_err();
        *certificates.0.looked.lock() = Instant::now().checked_sub(LOOK_EVERY).unwrap();
        let wait = (0..500).find(|_| {
            std::thread::sleep(Duration::from_millis(20));
            certificates.verify(&chain, now).is_ok()
        });
        assert!(wait.is_some(), "not within ten seconds");
    }
}
