//! A VOMS server with a REST interface, which gives whatever it is told to give.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use parking_lot::Mutex;
use rustls_pki_types::CertificateDer;
use weir_http::{
    Body, CertificateError, ChainCheck, Identity, PeerCertificates, RunningServer, ServerLimits, bind, body, serve,
    server_config_asking,
};

/// Its answer.
#[derive(Debug, Clone)]
pub(crate) enum Says {
    /// This attribute certificate, in two lines of base64, with a warning.
    Gives(Vec<u8>),
    /// This status, and this body.
    Text(u16, String),
    /// 200, and a body without an end.
    Endless,
    /// This attribute certificate, after some time.
    Late(Duration, Vec<u8>),
}

impl Says {
    /// As vomsd refuses.
    pub(crate) fn refuses(code: &str, message: &str) -> Self {
        let xml = format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\
             <voms><error><code>{code}</code><message>{message}</message></error></voms>"
        );
        Self::Text(403, xml)
    }

    fn response(self) -> Response<Body> {
        let (status, body) = match self {
            Self::Gives(certificate) | Self::Late(_, certificate) => {
                let mut text = STANDARD.encode(certificate);
                text.insert(64, '\n');
                let warning = "<warning>WARNING: dune : the validity was shortened</warning>";
                let xml = format!("<?xml version=\"1.0\"?><voms><ac>{text}</ac>{warning}</voms>");
                (200, body::full(xml))
            }
            Self::Text(status, text) => (status, body::full(text)),
            Self::Endless => {
                let spaces = Bytes::from(vec![b' '; 16 * 1024]);
                (
                    200,
                    body::stream(futures_util::stream::repeat_with(move || Ok(spaces.clone()))),
                )
            }
        };
        let mut response = Response::new(body);
        *response.status_mut() = StatusCode::from_u16(status).unwrap();
        response
    }
}

/// Takes every certificate: the caller is on record.
#[derive(Debug)]
struct All;

impl ChainCheck for All {
    fn check(&self, _: &[CertificateDer<'_>]) -> Result<(), CertificateError> {
        Ok(())
    }
}

/// A request that came.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    /// Path and query.
    pub(crate) target: String,
    /// The client's own certificate, in DER; empty: none.
    pub(crate) by: Vec<u8>,
}

/// See the module. It stops when it is dropped.
pub(crate) struct VomsStub {
    says: Arc<Mutex<Says>>,
    asked: Arc<Mutex<Vec<Asked>>>,
    server: RunningServer,
}

impl VomsStub {
    /// With this certificate, which must be for `127.0.0.1`.
    pub(crate) fn start(identity: &Identity) -> Self {
        let says = Arc::new(Mutex::new(Says::refuses("InternalError", "nothing to say yet")));
        let asked: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let (saying, asking) = (says.clone(), asked.clone());
        let service = tower::service_fn(move |request: Request<Incoming>| {
            let peer = request.extensions().get::<PeerCertificates>();
            asking.lock().push(Asked {
                target: request.uri().to_string(),
                by: peer.map(|chain| chain.0[0].to_vec()).unwrap_or_default(),
            });
            let says = saying.lock().clone();
            async move {
                if let Says::Late(time, _) = &says {
                    tokio::time::sleep(*time).await;
                }
                Ok::<_, Infallible>(says.response())
            }
        });
        let tls = server_config_asking(identity, Arc::new(All)).unwrap();
        let listener = bind("127.0.0.1:0".parse().unwrap()).unwrap();
        Self {
            says,
            asked,
            server: serve(listener, Some(tls), ServerLimits::default(), service).unwrap(),
        }
    }

    pub(crate) fn say(&self, says: Says) {
        *self.says.lock() = says;
    }

    /// The requests since the last time.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        std::mem::take(&mut self.asked.lock())
    }

    /// Its line in `vomses`.
    pub(crate) fn line(&self, alias: &str, subject: &str, vo: &str) -> String {
        let port = self.server.address().port();
        format!("\"{alias}\" \"127.0.0.1\" \"{port}\" \"{subject}\" \"{vo}\"\n")
    }

    /// As errors name it.
    pub(crate) fn name(&self) -> String {
        self.server.address().to_string()
    }
}
