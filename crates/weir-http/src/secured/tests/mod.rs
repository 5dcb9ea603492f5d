#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod messages;
mod others;
mod records;

use std::sync::Arc;

use bytes::BytesMut;
use rustls::{
    CipherSuite, ClientConfig, ServerConfig, SupportedProtocolVersion, client::UnbufferedClientConnection,
    crypto::aws_lc_rs, server::UnbufferedServerConnection,
};

use super::{
    established::{Came, Established},
    handshake::{Handshaking, Write},
    incoming::Incoming,
    outgoing::Outgoing,
    records::Fault,
    role::{ClientSide, Role, ServerSide},
};

pub(super) const SUITES: [CipherSuite; 3] = [
    CipherSuite::TLS13_AES_128_GCM_SHA256,
    CipherSuite::TLS13_AES_256_GCM_SHA384,
    CipherSuite::TLS13_CHACHA20_POLY1305_SHA256,
];

/// Configurations of both ends that agree on one suite, or on the usual one.
pub(super) fn configs(
    suite: Option<CipherSuite>,
    version: &'static SupportedProtocolVersion,
) -> (Arc<ServerConfig>, Arc<ClientConfig>) {
    let mut provider = aws_lc_rs::default_provider();
    provider
        .cipher_suites
        .retain(|one| suite.is_none_or(|suite| one.suite() == suite));
    let provider = Arc::new(provider);
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = rcgen::CertificateParams::new(vec!["localhost".to_owned()])
        .unwrap()
        .self_signed(&key)
        .unwrap();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate.der().clone()).unwrap();
    let key = rustls::pki_types::PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let server = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[version])
        .unwrap();
    let mut server = server
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .unwrap();
    let client = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[version])
        .unwrap();
    let mut client = client.with_root_certificates(roots).with_no_client_auth();
    (server.enable_secret_extraction, client.enable_secret_extraction) = (true, true);
    (Arc::new(server), Arc::new(client))
}

/// Both ends after a handshake without any network.
pub(super) fn pair(suite: Option<CipherSuite>) -> (End<ServerSide>, End<ClientSide>) {
    let (server, client, behind) = pair_with(suite, |_| Vec::new());
    assert!(behind == (Vec::new(), false));
    (server, client)
}

/// As [`pair`], where the client sends bytes together with the last message of the handshake; also returns the bytes
/// that the server received.
pub(super) fn pair_with(
    suite: Option<CipherSuite>,
    behind: impl FnOnce(&mut End<ClientSide>) -> Vec<u8>,
) -> (End<ServerSide>, End<ClientSide>, (Vec<u8>, bool)) {
    let (server, client) = configs(suite, &rustls::version::TLS13);
    let name = "localhost".try_into().unwrap();
    let server = UnbufferedServerConnection::new(server).unwrap();
    let client = UnbufferedClientConnection::new(client, name).unwrap();
    let mut server = Handshaking::<ServerSide>::new(server, true);
    let mut client = Handshaking::<ClientSide>::new(client, true);
    let (mut at_server, mut at_client) = (Incoming::default(), Incoming::default());
    let mut plain = BytesMut::new();
    let mut out = Outgoing::default();
    while client.connection.is_handshaking() {
        client
            .turn((&mut at_client, &mut plain), Write::Nothing, &mut out)
            .unwrap();
        if client.connection.is_handshaking() {
            at_server.push(&out.take());
            server
                .turn((&mut at_server, &mut plain), Write::Nothing, &mut out)
                .unwrap();
            at_client.push(&out.take());
        }
    }
    let mut client = End {
        keyed: Established::new(client.connection).unwrap(),
        incoming: at_client,
    };
    let behind = behind(&mut client);
    at_server.push(&[out.take(), behind].concat());
    server
        .turn((&mut at_server, &mut plain), Write::Nothing, &mut out)
        .unwrap();
    // Tickets.
    client.incoming.push(&out.take());
    assert!(plain.is_empty() && !server.connection.is_handshaking());
    let mut server = End {
        keyed: Established::new(server.connection).unwrap(),
        incoming: at_server,
    };
    let heard = server.hears(&[]).unwrap();
    (server, client, heard)
}

/// One end without a socket.
pub(super) struct End<S: Role> {
    pub(super) keyed: Established<S>,
    pub(super) incoming: Incoming,
}

impl<S: Role> End<S> {
    /// Records of these bytes.
    pub(super) fn says(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut out = Outgoing::default();
        let slices = [std::io::IoSlice::new(bytes)];
        self.keyed
            .seal(super::Pieces::new(&slices), bytes.len(), &mut out)
            .unwrap();
        out.take()
    }

    /// A record that no honest end makes.
    pub(super) fn crafts(&mut self, kind: u8, bytes: &[u8]) -> Vec<u8> {
        let mut out = Outgoing::default();
        self.keyed.sealer().seal_message(kind, bytes, &mut out).unwrap();
        out.take()
    }

    /// The result of these bytes: data, and whether it was the end.
    pub(super) fn hears(&mut self, bytes: &[u8]) -> Result<(Vec<u8>, bool), Fault> {
        self.incoming.push(bytes);
        let mut heard = Vec::new();
        loop {
            let (memory, unopened) = self.incoming.parts();
            match self.keyed.next(memory, unopened)? {
                Came::Data(plain) => heard.extend_from_slice(&memory[plain]),
                Came::Part => return Ok((heard, false)),
                Came::End => return Ok((heard, true)),
            }
        }
    }
}
