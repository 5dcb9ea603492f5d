//! The cipher suite that a TLS door chooses, read from its `ServerHello`.

use std::{net::TcpStream, path::Path, sync::Arc, time::Duration};

use anyhow::{Context, Result};
use rustls::{
    CipherSuite, ClientConfig, ClientConnection, RootCertStore,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, ServerName, pem::PemObject as _},
};

use crate::contender::Contender;

/// The suite that all rows with TLS are measured with.
const PINNED: CipherSuite = CipherSuite::TLS13_AES_128_GCM_SHA256;

/// Asks every TLS door, and fails if one chooses another suite than the pinned one.
///
/// Of a peer that copies by itself the doors are offered AES-256 first, as its own client, libcurl over OpenSSL, offers it. Weir's doors
/// are offered what Weir's client offers.
pub(crate) fn check(contenders: &[Contender], ca: &Path) -> Result<()> {
    for who in contenders {
        let first = if who.name == "weir" {
            PINNED
        } else {
            CipherSuite::TLS13_AES_256_GCM_SHA384
        };
        for door in std::iter::once(&who.tls).chain(&who.second) {
            let chosen = chosen(door, ca, first).with_context(|| format!("the TLS door of {} at {door}", who.name))?;
            anyhow::ensure!(
                chosen == PINNED,
                "{} at {door} chooses {chosen:?}, not {PINNED:?}",
                who.name
            );
        }
    }
    println!("cipher suite of every TLS door, from its ServerHello: {PINNED:?}");
    Ok(())
}

/// Returns the suite of TLS 1.3 that a door chooses when `first` is offered before the others.
fn chosen(url: &str, ca: &Path, first: CipherSuite) -> Result<CipherSuite> {
    let url: http::Uri = url.parse()?;
    let (host, port) = (url.host().context("no host")?, url.port_u16().context("no port")?);
    let mut provider = aws_lc_rs::default_provider();
    provider.cipher_suites.sort_by_key(|suite| suite.suite() != first);
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(CertificateDer::pem_file_iter(ca)?.filter_map(Result::ok));
    let config = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let mut connection = ClientConnection::new(Arc::new(config), ServerName::try_from(host.to_owned())?)?;
    let mut tcp = TcpStream::connect((host, port))?;
    tcp.set_read_timeout(Some(Duration::from_secs(10)))?;
    while connection.is_handshaking() {
        connection.complete_io(&mut tcp)?;
    }
    let suite = connection.negotiated_cipher_suite().context("no suite")?;
    Ok(suite.suite())
}
