//! Tables of the service's configuration on copies and tokens.

mod copy;
mod tokens;

pub use copy::CopyConfig;
pub use tokens::{BrokerConfig, IssuerConfig, TokensConfig};
pub use weir_model::{NoHost, RedirectHost};
