//! Asks VOMS servers for attributes: their REST interface, as `voms-proxy-init` of today uses it, with the user's proxy as the
//! client's certificate of the TLS connection.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use http::{Request, header};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use thiserror::Error;
use weir_http::{BodyError, CertificateError, ChainCheck, Client, ClientError, Identity, TlsError, body};

use super::super::clients::ClientCertificates;
use super::answer::{self, AnswerError, Given};
use super::request::AttributeRequest;
use super::vomses::{VomsServer, Vomses};
use super::{VomsAttributes, short_fqan};
use crate::error::error_chain;
use crate::secret::Secret;

/// Most bytes of an answer that are read: an attribute certificate has some 5 kB, a few hundred groups make it 50.
const ANSWER_MAX: usize = 256 * 1024;

/// Why there are no attributes.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum VomsError {
    /// No line of `vomses` is about this VO.
    #[error("no VOMS server of {0} is known: vomses has no line for it")]
    UnknownVo(String),
    /// The user's proxy cannot be shown.
    #[error("the proxy cannot be shown to VOMS servers")]
    Proxy(#[from] TlsError),
    /// All servers of the VO were asked in vain.
    #[error("no attributes of {vo}: {}", failures.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Servers {
        /// As it was asked for.
        vo: String,
        /// In the order in which they were asked; never empty.
        failures: Vec<ServerFailure>,
    },
}

/// Why one server gave nothing that can be used.
#[derive(Debug)]
pub struct ServerFailure {
    /// `host:port`.
    pub server: String,
    reason: Reason,
}

impl fmt::Display for ServerFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.server, error_chain(&self.reason))
    }
}

#[derive(Debug, Error)]
enum Reason {
    #[error("its certificate is not the one that vomses names: {0}")]
    OtherServer(String),
    #[error("it could not be asked")]
    Ask(#[source] ClientError),
    #[error("it did not answer within {} s", .0.as_secs_f64())]
    Timeout(Duration),
    #[error("its answer could not be read")]
    Body(#[source] BodyError),
    #[error("HTTP {status}, {error}")]
    Answer { status: u16, error: AnswerError },
    #[error("its attributes are not taken: {0}")]
    NotTaken(String),
    #[error("it gave no {fqan}{}", warnings.iter().map(|text| format!(" ({text})")).collect::<String>())]
    Lacks { fqan: String, warnings: Vec<String> },
}

/// A client of VOMS servers. Clones share connections and authorities.
#[derive(Debug, Clone)]
pub struct VomsClient {
    client: Client,
    certificates: ClientCertificates,
    patience: Duration,
}

/// A granted attribute certificate that we would also accept from a client.
#[derive(Debug, Clone)]
pub(crate) struct GrantedAttributes {
    pub(crate) certificate: Vec<u8>,
    pub(crate) attributes: VomsAttributes,
}

impl VomsClient {
    /// Servers are reached through `client`. They must have their names in `vomses`, under authorities of both `client`
    /// and `certificates`; their attributes are accepted if `certificates` would accept them from a user. `patience`
    /// limits each server's whole answer.
    pub fn new(client: Client, certificates: ClientCertificates, patience: Duration) -> Self {
        Self {
            client,
            certificates,
            patience,
        }
    }

    pub(crate) fn certificates(&self) -> &ClientCertificates {
        &self.certificates
    }

    /// Asks the VO's servers, one after the other, until one grants the request: for `lifetime`, which servers may
    /// shorten.
    ///
    /// # Errors
    /// [`VomsError`].
    pub(crate) async fn ask(
        &self,
        vomses: &Vomses,
        proxy: &Secret,
        request: &AttributeRequest,
        lifetime: Duration,
        now: SystemTime,
    ) -> Result<GrantedAttributes, VomsError> {
        let chain = certificates_of(proxy);
        let shown = Identity {
            chain_pem: proxy.expose().to_owned(),
            key_pem: proxy.expose().to_owned(),
        };
        let client = self.client.showing(&shown)?;
        let mut failures = Vec::new();
        for server in vomses.of(&request.vo) {
            match self.ask_one(&client, server, &chain, request, lifetime, now).await {
                Ok(granted) => return Ok(granted),
                Err(reason) => {
                    let server = format!("{}:{}", server.host, server.port);
                    let failure = ServerFailure { server, reason };
                    tracing::info!(%failure, vo = request.vo, "a VOMS server gave no attributes");
                    failures.push(failure);
                }
            }
        }
        let vo = request.vo.clone();
        Err(if failures.is_empty() {
            VomsError::UnknownVo(vo)
        } else {
            VomsError::Servers { vo, failures }
        })
    }

    async fn ask_one(
        &self,
        client: &Client,
        server: &VomsServer,
        chain: &[CertificateDer<'static>],
        request: &AttributeRequest,
        lifetime: Duration,
        now: SystemTime,
    ) -> Result<GrantedAttributes, Reason> {
        let given = tokio::time::timeout(self.patience, self.exchange(client, server, request, lifetime, now));
        let given = given.await.unwrap_or(Err(Reason::Timeout(self.patience)))?;
        let attributes = self.certificates.judge(chain, &given.certificate, now);
        let attributes = attributes.map_err(Reason::NotTaken)?;
        if attributes.vo != server.vo {
            return Err(Reason::NotTaken(format!("they are of {}", attributes.vo)));
        }
        if attributes.not_after <= now {
            return Err(Reason::NotTaken("they have expired".to_owned()));
        }
        let is_lacking = |wanted: &&String| !attributes.fqans.iter().any(|fqan| short_fqan(fqan) == wanted.as_str());
        if let Some(lacking) = request.fqans.iter().find(is_lacking) {
            return Err(Reason::Lacks {
                fqan: lacking.clone(),
                warnings: given.warnings,
            });
        }
        for warning in &given.warnings {
            tracing::info!(server = server.host, vo = server.vo, warning, "a VOMS server warns");
        }
        let certificate = given.certificate;
        Ok(GrantedAttributes {
            certificate,
            attributes,
        })
    }

    async fn exchange(
        &self,
        client: &Client,
        server: &VomsServer,
        request: &AttributeRequest,
        lifetime: Duration,
        now: SystemTime,
    ) -> Result<Given, Reason> {
        let check = Arc::new(ServerCheck {
            certificates: self.certificates.clone(),
            subject: server.subject.clone(),
            now,
            wrong: OnceLock::new(),
        });
        // A server that is judged for each request keeps no connection for the next.
        let client = client
            .judging(check.clone())
            .map_err(|error| Reason::NotTaken(error_chain(&error)))?;
        let asked = Request::get(url(server, request, lifetime))
            .header(header::ACCEPT, "text/xml, application/xml")
            .header(header::CONNECTION, "close")
            .body(body::empty());
        let asked = asked.map_err(|error| Reason::NotTaken(error.to_string()))?;
        let response = client.send(asked).await.map_err(|error| match check.wrong.get() {
            Some(wrong) => Reason::OtherServer(wrong.clone()),
            None => Reason::Ask(error),
        })?;
        let status = response.status();
        let body = body::read_limited(response.into_body(), ANSWER_MAX, self.patience).await;
        let given = answer::read(&body.map_err(Reason::Body)?);
        given.map_err(|error| Reason::Answer {
            status: status.as_u16(),
            error,
        })
    }
}

/// The request of VOMS's REST interface. Servers take the values as they stand there: nothing is encoded, and nothing needs to be.
pub(crate) fn url(server: &VomsServer, request: &AttributeRequest, lifetime: Duration) -> String {
    let VomsServer { host, port, vo, .. } = server;
    let fqans = if request.fqans.is_empty() {
        format!("/{vo}")
    } else {
        request.fqans.join(",")
    };
    let lifetime = lifetime.as_secs();
    format!("https://{host}:{port}/generate-ac?fqans={fqans}&lifetime={lifetime}")
}

/// The certificates in a proxy file.
pub(crate) fn certificates_of(pem: &Secret) -> Vec<CertificateDer<'static>> {
    let certificates = CertificateDer::pem_slice_iter(pem.expose().as_bytes());
    certificates.filter_map(Result::ok).collect()
}

/// Checks that a server has the name of its line in `vomses`, under an authority of the grid that has not revoked it.
#[derive(Debug)]
struct ServerCheck {
    certificates: ClientCertificates,
    subject: String,
    now: SystemTime,
    /// Why it is not.
    wrong: OnceLock<String>,
}

impl ChainCheck for ServerCheck {
    fn check(&self, chain: &[CertificateDer<'_>]) -> Result<(), CertificateError> {
        let wrong = match self.certificates.server_name(chain, self.now) {
            Ok(name) if name == self.subject => return Ok(()),
            Ok(name) => format!("it is {name}, not {}", self.subject),
            Err(error) => error_chain(&error),
        };
        // The first error ends the handshake.
        let _ = self.wrong.set(wrong);
        Err(CertificateError::ApplicationVerificationFailure)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Servers would not understand the requests.
    #[test]
    fn requests_are_written_as_voms_clients_write_them() {
        let server = VomsServer {
            alias: "d".to_owned(),
            host: "voms.example.org".to_owned(),
            port: 15000,
            subject: "/CN=x".to_owned(),
            vo: "dune".to_owned(),
        };
        let check = |fqans: &[&str], expected: &str| {
            let request = AttributeRequest {
                vo: "d".to_owned(),
                fqans: fqans.iter().map(|fqan| (*fqan).to_owned()).collect(),
            };
            let url = url(&server, &request, Duration::from_secs(43_200));
            assert_eq!(
                url,
                format!("https://voms.example.org:15000/generate-ac?fqans={expected}&lifetime=43200")
            );
        };
        check(&[], "/dune");
        check(&["/dune/Role=pilot"], "/dune/Role=pilot");
        check(&["/dune/Role=pilot", "/dune/it"], "/dune/Role=pilot,/dune/it");
    }
}
