//! Client and server, as rustls tells them apart.

use rustls::{
    Error, ExtractedSecrets,
    client::{ClientConnectionData, UnbufferedClientConnection},
    kernel::KernelConnection,
    server::{ServerConnectionData, UnbufferedServerConnection},
    unbuffered::{UnbufferedConnectionCommon, UnbufferedStatus},
};
use std::ops::DerefMut;

/// One of the two ends of a connection.
pub(crate) trait Role: Sized + Send + Unpin + 'static {
    /// rustls's data of this end.
    type Data: Send + Sync + 'static;
    /// The connection until its handshake is over, and after it where records are left to rustls.
    type Connection: DerefMut<Target = UnbufferedConnectionCommon<Self::Data>> + Send + Unpin;

    /// Works on records that came in.
    fn process<'c, 'i>(
        connection: &'c mut UnbufferedConnectionCommon<Self::Data>,
        incoming: &'i mut [u8],
    ) -> UnbufferedStatus<'c, 'i, Self::Data>;

    /// Gives up the connection for its keys.
    fn keys(connection: Self::Connection) -> Result<(ExtractedSecrets, KernelConnection<Self::Data>), Error>;

    /// Whether this end is given session tickets.
    const TICKETS: bool;

    /// Takes the body of a session ticket.
    fn ticket(kernel: &mut KernelConnection<Self::Data>, body: &[u8]) -> Result<(), Error>;
}

pub(crate) struct ServerSide;

impl Role for ServerSide {
    type Data = ServerConnectionData;
    type Connection = UnbufferedServerConnection;

    fn process<'c, 'i>(
        connection: &'c mut UnbufferedConnectionCommon<Self::Data>,
        incoming: &'i mut [u8],
    ) -> UnbufferedStatus<'c, 'i, Self::Data> {
        connection.process_tls_records(incoming)
    }

    fn keys(connection: Self::Connection) -> Result<(ExtractedSecrets, KernelConnection<Self::Data>), Error> {
        connection.dangerous_into_kernel_connection()
    }

    const TICKETS: bool = false;

    fn ticket(_: &mut KernelConnection<Self::Data>, _: &[u8]) -> Result<(), Error> {
        Err(Error::General("a ticket from a client".to_owned()))
    }
}

pub(crate) struct ClientSide;

impl Role for ClientSide {
    type Data = ClientConnectionData;
    type Connection = UnbufferedClientConnection;

    fn process<'c, 'i>(
        connection: &'c mut UnbufferedConnectionCommon<Self::Data>,
        incoming: &'i mut [u8],
    ) -> UnbufferedStatus<'c, 'i, Self::Data> {
        connection.process_tls_records(incoming)
    }

    fn keys(connection: Self::Connection) -> Result<(ExtractedSecrets, KernelConnection<Self::Data>), Error> {
        connection.dangerous_into_kernel_connection()
    }

    const TICKETS: bool = true;

    fn ticket(kernel: &mut KernelConnection<Self::Data>, body: &[u8]) -> Result<(), Error> {
        kernel.handle_new_session_ticket(body)
    }
}
