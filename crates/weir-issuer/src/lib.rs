//! An issuer of WLCG tokens: discovery, key set and client credentials. Its only secrets are its keys.
//!
//! It sits beside the doors: services fetch its public keys (through `weir-auth`'s verifier), programs fetch tokens.
//! Access tokens are signed (ES256), handed out and forgotten: none is stored or logged, only its `jti`.
//!
//! | endpoint | gives |
//! |---|---|
//! | `/.well-known/openid-configuration`, `/.well-known/oauth-authorization-server` | discovery |
//! | `/jwks` | public keys: the current one, the next, and former ones whose tokens still live |
//! | `/token` | a token for a client with its secret: RFC 6749 section 4.4; if it may, RFC 8693 and RFC 6749 section 6 |
//! | `/.well-known/weir/health` | whether it can issue tokens |
//! | `/.well-known/weir/ready` | the same, and whether its certificate is valid |
//! | `/.well-known/weir/metrics` | counters |
//!
//! Invariants: a token never has more rights than its client's configuration allows, nor more than its predecessor. A
//! key signs only after it has been on disk and published. A secret is compared in constant time. Deliberately absent:
//! users, sessions, lists of tokens (a refresh token contains its grant, and is void without the client's secret), and
//! access rules, which are for services to decide.
//!
//! ```no_run
//! # async fn example(identity: weir_http::Identity) -> Result<(), Box<dyn std::error::Error>> {
//! use weir_issuer::{Client, Issuer, IssuerConfig};
//! let secret = weir_auth::Secret::new("at least sixteen random characters");
//! let client = Client::with_secret("grid", &secret, &["storage.read:/"], &["*"]);
//! let config = IssuerConfig::new("127.0.0.1:0".parse()?, "keys", vec![client]);
//! let issuer = Issuer::start(&config, &identity)?;
//! println!("{}", issuer.token_url());
//! issuer.shutdown().await;
//! # Ok(()) }
//! ```

mod config;
mod exchange;
mod figures;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod grant;
mod keys;
mod offer;
pub mod request;
mod service;

pub use config::{Client, ConfigError, IssuerConfig, SECRET_MIN, TlsFiles};
pub use keys::KeyError;
pub use service::{Issuer, OpenError, Running, StartError};
