//! A watch on the steps by which a client comes to a connection.

use std::{fmt, sync::Arc};

/// A step on the way to a connection for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectStep {
    /// The request waits for the right to one more connection ([`crate::ClientConfig::connections`]).
    Place,
    /// The host's name is being resolved.
    Resolve,
    /// TCP connects.
    Connect,
    /// The TLS handshake.
    Handshake,
    /// The steps are over, whether or not they led to a connection. A request on a kept connection has no step at all.
    Over,
}

/// A function that is called as each step begins. It must return at once: the connection waits for it.
///
/// A request that its caller drops may never come to [`ConnectStep::Over`].
#[derive(Clone)]
pub struct ConnectWatch(Arc<dyn Fn(ConnectStep) + Send + Sync>);

impl ConnectWatch {
    /// Calls this function.
    pub fn new(tell: impl Fn(ConnectStep) + Send + Sync + 'static) -> Self {
        Self(Arc::new(tell))
    }

    pub(crate) fn tell(watch: Option<&Self>, step: ConnectStep) {
        if let Some(watch) = watch {
            (watch.0)(step);
        }
    }
}

impl fmt::Debug for ConnectWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectWatch").finish_non_exhaustive()
    }
}
