//! Protocols of RSEs: where their files are reached, and for what.

use std::collections::BTreeMap;

use weir_database::{Row, Session, Value, values};
use weir_rules::ids::RseId;
use weir_store::StoreError;

use crate::refusal::{Class, Refusal};

/// A way to an RSE's files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Protocol {
    /// Where it is: unique at its RSE.
    pub endpoint: Endpoint,
    /// The folder of the RSE's files.
    pub prefix: String,
    /// The class of Rucio's client that speaks it.
    pub implementation: String,
    /// Extended attributes: a JSON value.
    pub extended: Option<String>,
    /// Its priority for each use.
    pub priorities: Priorities,
}

/// Where a protocol is spoken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// `davs`, `https`, `root` and the like.
    pub scheme: String,
    /// The host.
    pub hostname: String,
    /// The port; 0: the scheme's own.
    pub port: u16,
}

/// The priority of a protocol for each use: 1 is the best, `None` that it is not for this use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Priorities {
    /// To be read, from the same site.
    pub lan_read: Option<u32>,
    /// To be written, from the same site.
    pub lan_write: Option<u32>,
    /// To be deleted, from the same site.
    pub lan_delete: Option<u32>,
    /// To be read, from elsewhere.
    pub wan_read: Option<u32>,
    /// To be written, from elsewhere.
    pub wan_write: Option<u32>,
    /// To be deleted, from elsewhere.
    pub wan_delete: Option<u32>,
    /// As the source of a third-party copy.
    pub tpc_read: Option<u32>,
    /// As the destination of a third-party copy.
    pub tpc_write: Option<u32>,
}

impl Priorities {
    fn columns(self) -> [Option<u32>; 8] {
        [
            self.lan_read,
            self.lan_write,
            self.lan_delete,
            self.wan_read,
            self.wan_write,
            self.wan_delete,
            self.tpc_read,
            self.tpc_write,
        ]
    }
}

fn columns(rse: RseId, protocol: &Protocol) -> Vec<Value> {
    let Endpoint { scheme, hostname, port } = &protocol.endpoint;
    let mut values = values![
        rse.0,
        scheme.as_str(),
        hostname.as_str(),
        u32::from(*port),
        protocol.prefix.as_str(),
        protocol.implementation.as_str(),
        protocol.extended.as_deref(),
    ]
    .to_vec();
    values.extend(protocol.priorities.columns().map(Value::from));
    values
}

const COLUMNS: &str =
    "scheme, hostname, port, prefix, impl, extended, lan_read, lan_write, lan_delete, wan_read, wan_write, wan_delete,
    tpc_read, tpc_write";

const BEST_FIRST: &str = "coalesce(tpc_read, wan_read, lan_read, 1000), scheme, hostname, port";

fn protocol(row: &Row) -> Result<Protocol, StoreError> {
    let priority = |column| Ok::<_, StoreError>(row.optional(column, Row::size)?.map(|priority| priority as u32));
    Ok(Protocol {
        endpoint: Endpoint {
            scheme: row.text(0)?.to_owned(),
            hostname: row.text(1)?.to_owned(),
            port: row.size(2)? as u16,
        },
        prefix: row.text(3)?.to_owned(),
        implementation: row.text(4)?.to_owned(),
        extended: row.optional(5, Row::text)?.map(str::to_owned),
        priorities: Priorities {
            lan_read: priority(6)?,
            lan_write: priority(7)?,
            lan_delete: priority(8)?,
            wan_read: priority(9)?,
            wan_write: priority(10)?,
            wan_delete: priority(11)?,
            tpc_read: priority(12)?,
            tpc_write: priority(13)?,
        },
    })
}

/// Adds a protocol.
///
/// # Errors
/// [`Class::Duplicate`].
pub fn add(session: &mut dyn Session, rse: RseId, protocol: &Protocol) -> Result<(), StoreError> {
    let text = "INSERT INTO rse_protocols (rse_id, scheme, hostname, port, prefix, impl, extended, lan_read, lan_write, lan_delete,
        wan_read, wan_write, wan_delete, tpc_read, tpc_write)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
        ON CONFLICT (rse_id, scheme, hostname, port) DO NOTHING";
    if session.execute(text, &columns(rse, protocol))? == 0 {
        let Endpoint { scheme, hostname, port } = &protocol.endpoint;
        let message = format!("Protocol '{scheme}' on port {port} already registered for '{hostname}'");
        return Err(Refusal::new(Class::Duplicate, message).into());
    }
    Ok(())
}

/// Changes a protocol, found by its endpoint.
///
/// # Errors
/// [`Class::RseProtocolNotSupported`].
pub fn change(session: &mut dyn Session, rse: RseId, protocol: &Protocol) -> Result<(), StoreError> {
    let text = "UPDATE rse_protocols SET prefix = $5, impl = $6, extended = $7, lan_read = $8, lan_write = $9, lan_delete = $10,
        wan_read = $11, wan_write = $12, wan_delete = $13, tpc_read = $14, tpc_write = $15
        WHERE rse_id = $1 AND scheme = $2 AND hostname = $3 AND port = $4";
    found(
        session.execute(text, &columns(rse, protocol))?,
        &protocol.endpoint.scheme,
    )
}

fn found(n_rows: u64, scheme: &str) -> Result<(), StoreError> {
    if n_rows == 0 {
        let message = format!("The RSE has no protocol '{scheme}' at this host and port");
        return Err(Refusal::new(Class::RseProtocolNotSupported, message).into());
    }
    Ok(())
}

/// Removes the protocols of a scheme, at one host and port if these are given.
///
/// # Errors
/// [`Class::RseProtocolNotSupported`].
pub fn remove(
    session: &mut dyn Session,
    rse: RseId,
    scheme: &str,
    (hostname, port): (Option<&str>, Option<u16>),
) -> Result<(), StoreError> {
    let text = "DELETE FROM rse_protocols WHERE rse_id = $1 AND scheme = $2 AND ($3 = '' OR hostname = $3) AND ($4 < 0 OR port = $4)";
    let port = port.map_or(-1, i64::from);
    let values = values![rse.0, scheme, hostname.unwrap_or_default(), port];
    found(session.execute(text, &values)?, scheme)
}

/// The protocols of all RSEs, in the order of [`of`].
pub fn all(session: &mut dyn Session) -> Result<BTreeMap<RseId, Vec<Protocol>>, StoreError> {
    let text = format!("SELECT {COLUMNS}, rse_id FROM rse_protocols ORDER BY {BEST_FIRST}");
    let mut all = BTreeMap::<_, Vec<_>>::new();
    for row in session.query(&text, &[])? {
        all.entry(super::rse_id(&row, 14)?).or_default().push(protocol(&row)?);
    }
    Ok(all)
}

/// The protocols of an RSE, the best for third-party reading first.
pub fn of(session: &mut dyn Session, rse: RseId) -> Result<Vec<Protocol>, StoreError> {
    let text = format!("SELECT {COLUMNS} FROM rse_protocols WHERE rse_id = $1 ORDER BY {BEST_FIRST}");
    let rows = session.query(&text, &values![rse.0])?;
    rows.iter().map(protocol).collect()
}
