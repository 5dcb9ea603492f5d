//! Ways to the database: address, password, TLS.

use std::{
    io,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    runtime::Runtime,
};
use tokio_postgres::{
    AsyncMessage, Client, Config,
    config::{SslMode, TargetSessionAttrs},
    tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream},
};
use tokio_util::sync::CancellationToken;
use weir_http::TrustRoots;

use super::Address;
use crate::error::StoreError;

/// How long a connection may take to come about.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The same for each of several servers.
const CONNECT_TIMEOUT_EACH: Duration = Duration::from_millis(1_500);

/// Opens sessions with a database.
pub struct Connector {
    config: Config,
    tls: Tls,
    /// Sockets live here; callers wait outside of it, so that they may be anywhere.
    runtime: Option<Runtime>,
}

impl Connector {
    /// Reads password and authorities; nothing is connected yet.
    ///
    /// # Errors
    /// [`StoreError::Database`]: the password file or the authorities cannot be used.
    pub fn new(address: &Address, trust: &TrustRoots) -> Result<Self, StoreError> {
        let problem = |reason: String| StoreError::Database {
            database: address.to_string(),
            source: reason.into(),
        };
        let mut config = Config::new();
        config.user(&address.user).dbname(&address.database).port(address.port);
        config
            .application_name(&address.application)
            .connect_timeout(CONNECT_TIMEOUT);
        config
            .keepalives_idle(Duration::from_secs(10))
            .tcp_user_timeout(Duration::from_secs(30));
        for host in &address.hosts {
            config.host(host);
        }
        if address.hosts.len() > 1 {
            // A frozen server must leave time for the others: heartbeats have four seconds.
            config.connect_timeout(CONNECT_TIMEOUT_EACH);
        }
        if address.writable_only {
            config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        }
        config.ssl_mode(if address.is_encrypted() {
            SslMode::Require
        } else {
            SslMode::Disable
        });
        if let Some(path) = &address.password_file {
            config.password(password(path).map_err(problem)?);
        }
        let tls = weir_http::client_config(trust).map_err(|error| problem(error.to_string()))?;
        let mut tls = rustls::ClientConfig::clone(&tls);
        tls.alpn_protocols = vec![b"postgresql".to_vec()];
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("weir-postgres")
            .enable_all()
            .build()
            .map_err(|error| problem(error.to_string()))?;
        Ok(Self {
            config,
            tls: Tls(tokio_rustls::TlsConnector::from(Arc::new(tls))),
            runtime: Some(runtime),
        })
    }

    /// Listens for notifications on a session of its own, until it breaks or is stopped. Passes on the text of each,
    /// and at the beginning an empty one, as earlier ones were missed. Blocks.
    ///
    /// # Errors
    /// The session ended.
    pub fn listen(
        &self,
        channel: &str,
        stop: CancellationToken,
        heard: impl Fn(&str) + Send + 'static,
    ) -> Result<(), StoreError> {
        let Some(runtime) = &self.runtime else {
            return Err(StoreError::Unavailable("the store is closing".into()));
        };
        let (config, tls) = (self.config.clone(), self.tls.clone());
        let text = format!("LISTEN {channel}");
        let listening = runtime.spawn(async move {
            let (client, mut connection) = config.connect(tls).await?;
            let messages = futures_util::stream::poll_fn(move |context| connection.poll_message(context));
            let mut messages = std::pin::pin!(messages);
            let asking = client.batch_execute(&text);
            let mut asking = std::pin::pin!(asking);
            let mut asked = false;
            loop {
                tokio::select! {
                    () = stop.cancelled() => return Ok(()),
                    answer = &mut asking, if !asked => {
                        answer?;
                        asked = true;
                        // Notifications before this moment were missed.
                        heard("");
                    }
                    message = futures_util::StreamExt::next(&mut messages) => match message {
                        Some(Ok(AsyncMessage::Notification(note))) => heard(note.payload()),
                        Some(Ok(_)) => {}
                        Some(Err(error)) => return Err(error),
                        None => return Ok(()),
                    },
                }
            }
        });
        let ended = super::wait::wait(listening, Duration::from_secs(u64::from(u32::MAX)))?;
        match ended {
            Ok(outcome) => Ok(outcome?),
            Err(_) => Err(StoreError::Unavailable("the store is closing".into())),
        }
    }

    /// A new session, within this time or twice that of a connection. The task that carries its bytes ends with the
    /// handle.
    pub(super) fn connect(&self, patience: Duration) -> Result<(Client, Carrier), StoreError> {
        let Some(runtime) = &self.runtime else {
            return Err(StoreError::Unavailable("the store is closing".into()));
        };
        let (config, tls) = (self.config.clone(), self.tls.clone());
        let connecting = runtime.spawn(async move {
            let (client, connection) = config.connect(tls).await?;
            let carrier = tokio::spawn(async move { drop(connection.await) });
            Ok::<_, tokio_postgres::Error>((client, Carrier(carrier.abort_handle())))
        });
        let connected = super::wait::wait(connecting, patience.min(CONNECT_TIMEOUT * 2))?;
        Ok(connected.map_err(|error| StoreError::Unavailable(error.into()))??)
    }
}

impl Drop for Connector {
    fn drop(&mut self) {
        // A runtime that is dropped where tasks run would panic.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// The task behind a session: without it the socket is closed at once, even if the database says nothing any more.
pub(crate) struct Carrier(tokio::task::AbortHandle);

impl Drop for Carrier {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The password in a file that is its owner's alone.
fn password(path: &Path) -> Result<String, String> {
    let problem = |reason: String| format!("could not use the password file {}: {reason}", path.display());
    let mode = std::fs::metadata(path)
        .map_err(|error| problem(error.to_string()))?
        .permissions()
        .mode()
        & 0o777;
    if mode & 0o077 != 0 {
        return Err(problem(format!(
            "its mode is {mode:04o}; make it 0600, or replace the password if others read it"
        )));
    }
    let text = std::fs::read_to_string(path).map_err(|error| problem(error.to_string()))?;
    Ok(text.trim_end_matches(['\n', '\r']).to_owned())
}

/// TLS of our own house for the database client.
#[derive(Clone)]
struct Tls(tokio_rustls::TlsConnector);

/// One handshake, and its server.
struct Handshake {
    connector: tokio_rustls::TlsConnector,
    name: rustls::pki_types::ServerName<'static>,
}

struct Encrypted<S>(tokio_rustls::client::TlsStream<S>);

type Made<S> = Pin<Box<dyn Future<Output = io::Result<Encrypted<S>>> + Send>>;

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> MakeTlsConnect<S> for Tls {
    type Stream = Encrypted<S>;
    type TlsConnect = Handshake;
    type Error = rustls::pki_types::InvalidDnsNameError;

    fn make_tls_connect(&mut self, host: &str) -> Result<Handshake, Self::Error> {
        // A directory is a local socket, where nothing is encrypted; the name is never asked for.
        let host = if host.is_empty() || host.starts_with('/') {
            "localhost"
        } else {
            host
        };
        Ok(Handshake {
            connector: self.0.clone(),
            name: rustls::pki_types::ServerName::try_from(host)?.to_owned(),
        })
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> TlsConnect<S> for Handshake {
    type Stream = Encrypted<S>;
    type Error = io::Error;
    type Future = Made<S>;

    fn connect(self, stream: S) -> Made<S> {
        Box::pin(async move { Ok(Encrypted(self.connector.connect(self.name, stream).await?)) })
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for Encrypted<S> {
    /// The certificate was verified against its name: no intermediary can exist to bind against.
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Encrypted<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, to: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, to)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Encrypted<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
