//! What an operator says about copies and tokens: tables of the service's configuration.

mod copy;
mod redirect;
mod tokens;

pub use copy::CopyConfig;
pub use redirect::{NoHost, RedirectHost};
pub use tokens::{BrokerConfig, IssuerConfig, TokensConfig};
