//! A subscription at a STOMP broker, to messages about transfers.

use std::{convert::Infallible, io, path::PathBuf, time::Duration};

use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _},
    time::timeout,
};
use weir_auth::Secret;
use weir_http::TrustRoots;

use crate::{
    sinks::{SinkError, secret},
    stomp::{Broker, Frame, escape, refused},
};

/// The broker is asked for a sign of life this often.
const HEART_BEAT: &str = "0,30000";

/// A broker that says nothing for so long is connected to anew.
const SILENCE_MAX: Duration = Duration::from_secs(90);

/// The pause before it is connected to again; doubled up to the limit.
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// A STOMP broker that tells of transfers.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SubscriptionConfig {
    /// `host:port`.
    pub address: String,
    /// Whether TLS is spoken. Without it only a broker on a loopback address may be given a password. Default: yes.
    #[serde(default = "yes")]
    pub tls: bool,
    /// The user to log in as. Default: no login.
    #[serde(default)]
    pub user: Option<String>,
    /// A file whose first line is the password.
    #[serde(default)]
    pub password_file: Option<PathBuf>,
    /// The topic or queue. Default: the one of FTS3's `complete` messages.
    #[serde(default = "complete")]
    pub destination: String,
}

fn yes() -> bool {
    true
}

fn complete() -> String {
    "/topic/transfer.fts_monitoring_complete".to_owned()
}

impl SubscriptionConfig {
    /// A broker with the defaults: TLS, no login, FTS3's topic.
    pub fn new(address: &str) -> Self {
        Self {
            address: address.to_owned(),
            tls: true,
            user: None,
            password_file: None,
            destination: complete(),
        }
    }

    /// Whether a password would go out unencrypted, to another machine.
    pub fn exposes_password(&self) -> bool {
        let host = self
            .address
            .rsplit_once(':')
            .map_or(self.address.as_str(), |(host, _)| host);
        self.password_file.is_some() && !self.tls && !weir_http::is_loopback_host(host)
    }
}

/// A subscription that is not begun.
pub struct Subscription {
    broker: Broker,
    destination: String,
}

impl std::fmt::Debug for Subscription {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Subscription")
            .field("destination", &self.destination)
            .finish_non_exhaustive()
    }
}

impl Subscription {
    /// As the configuration says.
    ///
    /// # Errors
    /// The password or the authorities cannot be read.
    pub fn new(config: &SubscriptionConfig, roots: &TrustRoots) -> Result<Self, SinkError> {
        let password = config.password_file.as_deref().map(secret).transpose()?;
        let login = config.user.clone().map(|user| (user, password.map(Secret::new)));
        Ok(Self {
            broker: Broker::new(&config.address, config.tls.then_some(roots), login)?,
            destination: config.destination.clone(),
        })
    }

    /// Gives each message to `heard`, until it is dropped. A broker that is down is tried again; messages of that time are lost on a
    /// topic, and kept on a queue.
    pub async fn listen<F: Future<Output = ()>>(&self, mut heard: impl FnMut(Vec<u8>) -> F) {
        let mut pause = PAUSE;
        loop {
            let begun = tokio::time::Instant::now();
            let Err(error) = self.session(&mut heard).await;
            tracing::warn!(
                broker = self.broker.address(),
                error = weir_auth::error_chain(&error),
                "a subscription broke off"
            );
            pause = if begun.elapsed() > SILENCE_MAX {
                PAUSE
            } else {
                (pause * 2).min(PAUSE_MAX)
            };
            tokio::time::sleep(pause).await;
        }
    }

    async fn session<F: Future<Output = ()>>(&self, heard: &mut impl FnMut(Vec<u8>) -> F) -> io::Result<Infallible> {
        let mut wire = self.broker.connect(HEART_BEAT).await?;
        let subscribe = format!(
            "SUBSCRIBE\nid:0\ndestination:{}\nack:auto\n\n\0",
            escape(&self.destination)
        );
        wire.write_all(subscribe.as_bytes()).await?;
        wire.flush().await?;
        tracing::info!(
            broker = self.broker.address(),
            destination = self.destination,
            "subscribed"
        );
        loop {
            let silent = || io::Error::new(io::ErrorKind::TimedOut, "the broker gives no sign of life");
            let next = timeout(SILENCE_MAX, wire.fill_buf()).await.map_err(|_| silent())??;
            if next.first().is_some_and(u8::is_ascii_whitespace) {
                // A heart-beat, or the line break after a frame.
                wire.consume(1);
                continue;
            }
            let frame = timeout(SILENCE_MAX, Frame::read(&mut wire))
                .await
                .map_err(|_| silent())??;
            match frame.command.as_str() {
                "MESSAGE" => heard(frame.body).await,
                "ERROR" => return Err(refused(&frame)),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test may panic")]
    use tokio::{
        io::{AsyncBufReadExt as _, BufStream},
        net::TcpListener,
        sync::mpsc,
    };

    use super::*;

    /// A broker that tells one thing to each that subscribes, after a heart-beat, and goes away.
    async fn broker(listener: TcpListener) {
        for n in 0.. {
            let Ok((tcp, _)) = listener.accept().await else { return };
            let mut wire = BufStream::new(tcp);
            let mut said = Vec::new();
            wire.read_until(0, &mut said).await.unwrap();
            assert!(String::from_utf8_lossy(&said).contains("heart-beat:0,30000"));
            wire.write_all(b"CONNECTED\nversion:1.2\n\n\0\n").await.unwrap();
            wire.flush().await.unwrap();
            said.clear();
            wire.read_until(0, &mut said).await.unwrap();
            assert!(String::from_utf8_lossy(&said).contains("destination:/topic/transfer.fts_monitoring_complete\n"));
            let message = format!("\n\nMESSAGE\nsubscription:0\nmessage-id:{n}\n\n{{\"n\": {n}}} \0\n");
            wire.write_all(message.as_bytes()).await.unwrap();
            wire.flush().await.unwrap();
        }
    }

    #[tokio::test]
    async fn messages_are_heard_also_after_the_broker_went_away() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        tokio::spawn(broker(listener));
        let config = SubscriptionConfig {
            tls: false,
            ..SubscriptionConfig::new(&address)
        };
        let subscription = Subscription::new(&config, &TrustRoots::default()).unwrap();
        let (told, mut heard) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            let told = &told;
            let take = |message: Vec<u8>| async move {
                let _ = told.send(String::from_utf8(message).unwrap());
            };
            subscription.listen(take).await;
        });
        for expected in ["{\"n\": 0} ", "{\"n\": 1} "] {
            let next = timeout(Duration::from_secs(20), heard.recv()).await.unwrap();
            assert_eq!(next.as_deref(), Some(expected));
        }
    }

    #[test]
    fn a_password_goes_to_this_machine_or_encrypted() {
        let exposes = |address: &str, tls: bool| {
            let config = SubscriptionConfig {
                tls,
                password_file: Some("p".into()),
                ..SubscriptionConfig::new(address)
            };
            config.exposes_password()
        };
        assert!(exposes("broker.example.org:61613", false));
        assert!(!exposes("broker.example.org:61613", true) && !exposes("[::1]:61613", false));
    }
}
