//! Tables of the service's configuration on copies and tokens.

mod copy;
mod redirect;
mod tokens;

pub use copy::CopyConfig;
pub use redirect::{NoHost, RedirectHost};
pub use tokens::{BrokerConfig, IssuerConfig, TokensConfig};
