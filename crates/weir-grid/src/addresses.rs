//! The addresses of doors.
//!
//! Clients and transfer services tell storage elements apart by `scheme://host`, without the port. So each RSE has a
//! loopback address of its own: 127.0.1.1, 127.0.1.2, … The system assigns the port. Both are kept in the grid's
//! directory by the door's name. So URLs in clients, tokens and queued transfers are still good after a restart, even
//! with RSEs added or removed.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use weir_auth::files::read_own;
use weir_http::Reservation;
use weir_model::Place;

use crate::GridError;

/// Most RSEs of one embedded grid: 127.0.1.1 to 127.0.250.250.
pub const RSES_MAX: usize = 250 * 250;

/// Addresses in each /24 that are used: 1 to 250.
const PER_NETWORK: usize = 250;

/// The addresses of one door: where everybody finds it, and where it listens, which is elsewhere behind a relay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Door {
    pub(crate) public: SocketAddr,
    pub(crate) listen: SocketAddr,
}

impl Door {
    /// A door without a relay.
    pub(crate) fn at(address: SocketAddr) -> Self {
        Self {
            public: address,
            listen: address,
        }
    }

    /// The same, with a relay at its public address.
    pub(crate) fn behind(self, listen: SocketAddr) -> Self {
        Self { listen, ..self }
    }

    pub(crate) fn has_relay(self) -> bool {
        self.public != self.listen
    }
}

/// The name under which the address of a door behind its relay is kept.
pub(crate) fn behind(door: &str) -> String {
    format!("{door} behind its relay")
}

/// The addresses of all doors, by name; kept in a file.
#[derive(Debug)]
pub(crate) struct Addresses {
    path: PathBuf,
    known: BTreeMap<String, SocketAddr>,
    /// One for each door that was given an address: no other program gets its port before its service binds it, nor
    /// while that service restarts.
    reserved: BTreeMap<String, Reservation>,
}

impl Addresses {
    /// Reads the addresses that an earlier start on this directory has used.
    pub(crate) fn load(dir: &Path) -> Result<Self, GridError> {
        let path = dir.join("addresses.json");
        let known = match read_own(&path) {
            Ok(text) => serde_json::from_str(&text).map_err(|source| GridError::Description {
                path: path.clone(),
                message: source.to_string(),
            })?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => BTreeMap::new(),
            Err(source) => return Err(GridError::Access { path, source }),
        };
        Ok(Self {
            path,
            known,
            reserved: BTreeMap::new(),
        })
    }

    /// A free address for a door on this host: its former one, or else any port. It stays reserved for the door.
    pub(crate) fn choose(&mut self, door: &str, host: IpAddr) -> Result<SocketAddr, GridError> {
        let before = self.known.get(door).filter(|address| address.ip() == host).copied();
        let any = SocketAddr::new(host, 0);
        if let Some(before) = before {
            match self.reserve(door, before) {
                Ok(address) => return Ok(address),
                Err(error) => tracing::warn!(door, %error, "the port of the last start is taken: URLs change"),
            }
        }
        self.reserve(door, any)
    }

    /// The address of a door that other hosts reach: the port that is asked for, else as [`Self::choose`].
    pub(crate) fn place(&mut self, door: &str, place: &Place) -> Result<SocketAddr, GridError> {
        match place.port {
            Some(port) => self.reserve(door, SocketAddr::new(place.listen, port)),
            None => self.choose(door, place.listen),
        }
    }

    fn reserve(&mut self, door: &str, address: SocketAddr) -> Result<SocketAddr, GridError> {
        let reservation = Reservation::new(address).map_err(|source| GridError::Bind {
            door: door.to_owned(),
            address,
            source,
        })?;
        let address = reservation.address();
        self.reserved.insert(door.to_owned(), reservation);
        self.known.insert(door.to_owned(), address);
        Ok(address)
    }

    /// Forgets a door that the grid does not have this time.
    pub(crate) fn forget(&mut self, door: &str) {
        self.known.remove(door);
    }

    /// The address that a door had at the last start.
    pub(crate) fn known(&self, door: &str) -> Option<SocketAddr> {
        self.known.get(door).copied()
    }

    /// The loopback address of an RSE: the one it had, else the first that no door ever had.
    pub(crate) fn host_of(&self, rse: &str) -> Result<IpAddr, GridError> {
        // A storage that listened elsewhere before has no such address.
        if let Some(address) = self.known.get(rse).filter(|address| address.ip().is_loopback()) {
            return Ok(address.ip());
        }
        let taken: BTreeSet<IpAddr> = self.known.values().map(SocketAddr::ip).collect();
        let free = (0..RSES_MAX).map(rse_host).find(|host| !taken.contains(host));
        free.ok_or_else(|| GridError::TooManyRses {
            n_rses: taken.len(),
            max: RSES_MAX,
        })
    }

    /// Keeps them for the next start.
    pub(crate) fn save(&self) -> Result<(), GridError> {
        let text = serde_json::to_vec_pretty(&self.known).expect("plain data can be written as JSON");
        weir_auth::files::write_private(&self.path, &text).map_err(|source| GridError::Access {
            path: self.path.clone(),
            source,
        })
    }
}

/// The loopback address at this place, counted from 0.
fn rse_host(place: usize) -> IpAddr {
    let octet = |number: usize| u8::try_from(number + 1).expect("the number of RSEs was checked");
    Ipv4Addr::new(127, 0, octet(place / PER_NETWORK), octet(place % PER_NETWORK)).into()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn every_rse_has_a_host_of_its_own() {
        // Two RSEs on one host would be one storage element to every client.
        assert_eq!(rse_host(0).to_string(), "127.0.1.1");
        assert_eq!(rse_host(249).to_string(), "127.0.1.250");
        assert_eq!(rse_host(250).to_string(), "127.0.2.1");
        assert_eq!(rse_host(RSES_MAX - 1).to_string(), "127.0.250.250");
        let hosts: std::collections::BTreeSet<_> = (0..2000).map(rse_host).collect();
        assert_eq!(hosts.len(), 2000);
    }

    /// Where a place in the file made the address, one RSE more moved the doors of all behind it, and queued transfers
    /// pointed nowhere.
    #[tokio::test]
    async fn an_rse_keeps_its_host_whatever_comes_before_it() {
        let dir = tempfile::tempdir().unwrap();
        let mut addresses = Addresses::load(dir.path()).unwrap();
        for name in ["RAL", "GLA"] {
            let host = addresses.host_of(name).unwrap();
            addresses.choose(name, host).unwrap();
        }
        addresses.save().unwrap();
        let addresses = Addresses::load(dir.path()).unwrap();
        assert_eq!(addresses.host_of("GLA").unwrap(), rse_host(1));
        assert_eq!(addresses.host_of("NEW").unwrap(), rse_host(2));
    }

    #[tokio::test]
    async fn a_door_keeps_its_port_over_restarts() {
        let dir = tempfile::tempdir().unwrap();
        let mut addresses = Addresses::load(dir.path()).unwrap();
        let first = addresses.choose("RAL", rse_host(0)).unwrap();
        addresses.save().unwrap();
        let mut addresses = Addresses::load(dir.path()).unwrap();
        assert_eq!(addresses.choose("RAL", rse_host(0)).unwrap(), first);
        let _holder = std::net::TcpListener::bind(first).unwrap();
        let mut addresses = Addresses::load(dir.path()).unwrap();
        assert_ne!(addresses.choose("RAL", rse_host(0)).unwrap(), first);
    }

    /// Another process was once assigned the port between the choice of the address and the start of the service.
    #[tokio::test]
    async fn a_chosen_port_is_the_services_alone() {
        let dir = tempfile::tempdir().unwrap();
        let mut addresses = Addresses::load(dir.path()).unwrap();
        let address = addresses.choose("RAL", rse_host(0)).unwrap();
        // As Linux's choice of a port for a connection: without SO_REUSEADDR.
        let other = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        let refused = other.bind(&address.into()).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AddrInUse);
        let service = weir_http::bind(address).unwrap();
        assert_eq!(service.local_addr().unwrap(), address);
    }
}
