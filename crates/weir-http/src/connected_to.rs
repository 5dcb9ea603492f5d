//! The connection that a response came on.

use std::{net::SocketAddr, sync::Arc};

use parking_lot::Mutex;

use crate::{Buffers, SocketWatch};

/// The connection that a response came on; found in the extensions of every response.
#[derive(Debug, Clone)]
pub struct ConnectedTo {
    /// The other end.
    pub peer: SocketAddr,
    /// Our end.
    pub local: SocketAddr,
    /// The TCP figures of the connection.
    pub socket: SocketWatch,
    /// How much of a body it may hold.
    pub buffers: Buffers,
}

/// A slot for the connection that carries a request, filled when the request is handed to it. Put into the extensions
/// of a request whose body is large.
#[derive(Debug, Clone, Default)]
pub struct CarriedBy(Arc<Mutex<Option<ConnectedTo>>>);

impl CarriedBy {
    /// Moves the bound of the connection that carries the request, if one does by now.
    pub fn bound(&self, bytes: usize) {
        if let Some(to) = &*self.0.lock() {
            to.buffers.bound(bytes);
        }
    }

    /// The connection, long before there is an answer on it.
    pub fn connection(&self) -> Option<ConnectedTo> {
        self.0.lock().clone()
    }

    pub(crate) fn is(&self, to: &ConnectedTo) {
        *self.0.lock() = Some(to.clone());
    }
}
