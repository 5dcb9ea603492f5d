//! A STOMP 1.2 broker, such as ActiveMQ. The last message of a batch asks for a receipt: with it the broker has them all.
//!
//! As FTS3 sends them since 3.6: a text of JSON that ends with a space, the VO in the header `vo`, persistent, with a time to live. <https://stomp.github.io/stomp-specification-1.2.html>

use std::{fmt::Write as _, io, time::Duration};

use tokio::{io::AsyncWriteExt as _, time::timeout};
use weir_auth::Secret;
use weir_http::TrustRoots;
use weir_service::time;

use super::{SinkError, Undelivered, secret};
use crate::{
    config::StompSinkConfig,
    lines::Message,
    stomp::{Broker, Connected, Frame, REFUSED, escape, refused},
};

/// Limit for each answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// A connection that has rested for so long is made anew: the broker may have dropped it without a word.
const REST_MAX: Duration = Duration::from_secs(60);

struct Connection {
    wire: Connected,
    used: tokio::time::Instant,
}

pub(super) struct Stomp {
    broker: Broker,
    destinations: [String; 3],
    time_to_live: Duration,
    connection: Option<Connection>,
    receipts: u64,
}

impl Stomp {
    pub(super) fn new(config: &StompSinkConfig, roots: &TrustRoots) -> Result<Self, SinkError> {
        let password = config.password_file.as_deref().map(secret).transpose()?;
        let login = config.user.clone().map(|user| (user, password.map(Secret::new)));
        let broker = Broker::new(&config.address, config.tls.then_some(roots), login)?;
        Ok(Self {
            broker,
            destinations: [&config.start, &config.complete, &config.state].map(Clone::clone),
            time_to_live: config.time_to_live,
            connection: None,
            receipts: 0,
        })
    }

    pub(super) async fn deliver(&mut self, batch: &[Message<'_>]) -> Result<(), Undelivered> {
        let Some((last, others)) = batch.split_last() else {
            return Ok(());
        };
        self.receipts += 1;
        let receipt = format!("weir-{}", self.receipts);
        let expires = expiry(self.time_to_live);
        let mut frames = Vec::new();
        for message in others {
            self.frame(&mut frames, message, expires, None);
        }
        self.frame(&mut frames, last, expires, Some(&receipt));
        let usable = |held: &Connection| held.used.elapsed() < REST_MAX;
        let mut connection = if let Some(held) = self.connection.take().filter(usable) {
            held
        } else {
            let wire = self.broker.connect("0,0").await;
            Connection {
                wire: wire.map_err(|error| Undelivered::Later(self.told(&error)))?,
                used: tokio::time::Instant::now(),
            }
        };
        let exchange = async {
            connection.wire.write_all(&frames).await?;
            connection.wire.flush().await?;
            loop {
                let frame = Frame::read(&mut connection.wire).await?;
                match frame.command.as_str() {
                    "RECEIPT" if frame.header("receipt-id") == Some(&receipt) => return Ok(()),
                    "ERROR" => return Err(refused(&frame)),
                    _ => {}
                }
            }
        };
        let outcome = timeout(PATIENCE, exchange).await;
        let outcome = outcome.unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::TimedOut, "no receipt came")));
        if let Err(error) = outcome {
            let why = self.told(&error);
            return Err(if is_about_messages(&error) {
                Undelivered::Refused(why)
            } else {
                Undelivered::Later(why)
            });
        }
        connection.used = tokio::time::Instant::now();
        self.connection = Some(connection);
        Ok(())
    }

    fn told(&self, error: &io::Error) -> String {
        format!("broker {}: {}", self.broker.address(), weir_auth::error_chain(error))
    }

    fn frame(&self, out: &mut Vec<u8>, message: &Message<'_>, expires: u128, receipt: Option<&str>) {
        let destination = &self.destinations[message.kind as usize];
        let length = message.json.len() + 1;
        let mut head = format!(
            "SEND\ndestination:{}\npersistent:true\nexpires:{expires}\ncontent-type:application/json\nvo:{}\n",
            escape(destination),
            escape(message.vo),
        );
        if let Some(receipt) = receipt {
            let _ = writeln!(head, "receipt:{receipt}");
        }
        // ActiveMQ makes a text of a message without a length, as FTS3's are, and bytes of one with; a text has no NUL in it.
        if message.json.contains(&0) {
            let _ = writeln!(head, "content-length:{length}");
        }
        out.extend_from_slice(head.as_bytes());
        out.push(b'\n');
        out.extend_from_slice(message.json);
        out.extend_from_slice(b" \0");
    }
}

/// Whether a broker's error may concern the message sent: not our login, and not the network.
fn is_about_messages(error: &io::Error) -> bool {
    let text = error.to_string().to_ascii_lowercase();
    let ours = ["auth", "permi", "denied", "login", "credential", "access"];
    error.kind() == REFUSED && !ours.iter().any(|word| text.contains(word))
}

fn expiry(time_to_live: Duration) -> u128 {
    u128::try_from(time::now()).unwrap_or_default() + time_to_live.as_millis()
}
