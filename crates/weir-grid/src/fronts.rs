//! Relays in front of doors: those of the grid's own services, and those of other programs on this machine.
//!
//! A door of another program keeps its address, so its relay has another port of the same address. The name in the URL stays,
//! and with it the certificate that clients accept. The relay is asked for what goes through the URL of the grid: a server that
//! redirects sends its clients past it.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use weir_model::{Grid, GridIssuer, RseKind};
use weir_network::relay::Relay;

use crate::GridError;
use crate::addresses::Door;
use crate::description::{GridDescription, origin};

/// The name of the issuer among the doors.
pub const ISSUER: &str = "service:issuer";
/// The name of the transfer service among the doors.
pub const TRANSFER: &str = "service:transfer";
/// The name of the catalogue among the doors.
pub const CATALOG: &str = "service:catalog";

/// Longest wait for the addresses of one name.
const RESOLVING: Duration = Duration::from_secs(5);

/// Relays by the names of their doors.
pub type Relays = BTreeMap<String, Relay>;

/// Starts the relay in front of a door.
pub(crate) fn relay(name: &str, door: Door) -> Result<Relay, GridError> {
    let bind = |source| GridError::Bind {
        door: name.to_owned(),
        address: door.public,
        source,
    };
    let listener = weir_http::bind(door.public).map_err(bind)?;
    let seed = u64::from(door.listen.port());
    Relay::start(listener, door.listen, seed).map_err(bind)
}

/// The doors of other programs on this machine, by RSE or [service](ISSUER), with their addresses.
///
/// Without storages and transfer service if another program is the catalogue, which knows both by their own addresses.
///
/// The address of a door is the first of its name that this machine has, one of IPv4 if there is one. A name that cannot be
/// resolved within five seconds is not on this machine.
pub async fn doors_here(grid: &Grid) -> BTreeMap<String, SocketAddr> {
    let mut doors = BTreeMap::new();
    for (door, url) in external(grid) {
        if let Some(address) = here(&url).await {
            doors.insert(door, address);
        }
    }
    doors
}

/// The doors of other programs, and their URLs.
fn external(grid: &Grid) -> Vec<(String, String)> {
    let catalog = grid.catalog.as_ref().and_then(|catalog| catalog.service.as_ref());
    let mut doors: Vec<(String, String)> = Vec::new();
    for rse in &grid.rses {
        // Another program's catalogue goes by the addresses that it knows, to the transfer service too.
        if let (RseKind::External { url, .. }, None) = (&rse.kind, catalog) {
            doors.push((rse.name.to_string(), url.clone()));
        }
    }
    if let GridIssuer::External(issuer) = &grid.issuer {
        doors.push((ISSUER.to_owned(), issuer.url.clone()));
    }
    if let (Some(service), None) = (&grid.transfer_service, catalog) {
        doors.push((TRANSFER.to_owned(), service.url.clone()));
    }
    doors.extend(catalog.map(|service| (CATALOG.to_owned(), service.url.clone())));
    doors
}

/// The address of a URL, if this machine has it.
async fn here(url: &str) -> Option<SocketAddr> {
    let uri: http::Uri = url.parse().ok()?;
    let host = uri.host()?.trim_matches(['[', ']']);
    let port = uri.port_u16().unwrap_or(443);
    let found = tokio::time::timeout(RESOLVING, tokio::net::lookup_host((host, port))).await;
    let mut found: Vec<SocketAddr> = found.ok()?.ok()?.collect();
    found.sort_by_key(SocketAddr::is_ipv6);
    found.into_iter().find(|address| is_own(address.ip()))
}

/// Whether an address is one of this machine's: no program can listen at another's.
fn is_own(ip: IpAddr) -> bool {
    std::net::TcpListener::bind(SocketAddr::new(ip, 0)).is_ok()
}

/// Puts relays in front of the storages, the transfer service and the catalogue of other programs on this machine; gives the
/// grid with the URLs of the relays. Names, paths and audiences stay.
pub(crate) async fn in_front_of_others(grid: &Grid, relays: &mut Relays) -> Result<Grid, GridError> {
    let mut seen = grid.clone();
    for (door, address) in doors_here(grid).await {
        if door == ISSUER {
            // The storages compare the URL of an issuer with its tokens. Its relay is at the endpoint that gives these.
            continue;
        }
        let port = start(&door, address, relays)?;
        match door.as_str() {
            TRANSFER => {
                if let Some(service) = &mut seen.transfer_service {
                    service.url = at_port(&service.url, port);
                }
            }
            CATALOG => {
                if let Some(service) = seen.catalog.as_mut().and_then(|catalog| catalog.service.as_mut()) {
                    if origin(&service.auth_url) == origin(&service.url) {
                        service.auth_url = at_port(&service.auth_url, port);
                    }
                    service.url = at_port(&service.url, port);
                }
            }
            name => {
                let rse = seen.rses.iter_mut().find(|rse| rse.name.as_str() == name);
                if let Some(RseKind::External { url, .. }) = rse.map(|rse| &mut rse.kind) {
                    *url = at_port(url, port);
                }
            }
        }
    }
    Ok(seen)
}

/// Names each storage of another program in tokens as it knows itself, whatever stands in front of it.
pub(crate) fn keep_audiences(grid: &Grid, description: &mut GridDescription) {
    for (rse, shown) in grid.rses.iter().zip(&mut description.rses) {
        if let RseKind::External { url, .. } = &rse.kind {
            origin(url).clone_into(&mut shown.audience);
        }
    }
}

/// Puts a relay in front of the endpoint of another program's issuer that gives tokens; gives the URL of the relay.
pub(crate) async fn in_front_of_issuer(token_url: &str, relays: &mut Relays) -> Result<String, GridError> {
    match here(token_url).await {
        Some(address) => Ok(at_port(token_url, start(ISSUER, address, relays)?)),
        None => Ok(token_url.to_owned()),
    }
}

/// Starts a relay in front of an address that another program has; gives the port of the relay.
fn start(door: &str, address: SocketAddr, relays: &mut Relays) -> Result<u16, GridError> {
    let public = SocketAddr::new(address.ip(), 0);
    let relay = relay(door, Door::at(public).behind(address))?;
    let port = relay.address().port();
    relays.insert(door.to_owned(), relay);
    Ok(port)
}

/// A URL with another port.
fn at_port(url: &str, port: u16) -> String {
    let origin = origin(url);
    let host = origin.find("://").map_or(0, |scheme| scheme + 3);
    // An address of IPv6 has colons in its brackets.
    let end = origin[host..].find(']').map_or(host, |bracket| host + bracket);
    let name = origin[end..].find(':').map_or(origin, |colon| &origin[..end + colon]);
    format!("{name}:{port}{}", &url[origin.len()..])
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    /// A client would ask another server, or for another path.
    #[test]
    fn a_relay_changes_the_port_alone() {
        for (url, changed) in [
            ("https://host.example:1094/data/vo", "https://host.example:7/data/vo"),
            ("https://host.example/data:1", "https://host.example:7/data:1"),
            ("https://[fd00::1]:1094", "https://[fd00::1]:7"),
            ("https://[fd00::1]/x", "https://[fd00::1]:7/x"),
            ("http://127.0.0.1:80", "http://127.0.0.1:7"),
        ] {
            assert_eq!(at_port(url, 7), changed);
        }
    }

    /// A relay would be started where it cannot stand, or a fault be refused that can be made.
    #[tokio::test]
    async fn doors_on_this_machine_are_told_from_others() {
        let text = "name = \"g\"\n[[rse]]\nname = \"A\"\n[[rse]]\nname = \"X\"\nurl = \"https://127.0.9.1:1094/data\"\n\
                    [[rse]]\nname = \"Y\"\nurl = \"https://192.0.2.1/data\"\n[[rse]]\nname = \"L\"\nurl = \"https://localhost:99/data\"\n";
        let grid = Grid::parse(text, "grid.toml".as_ref()).unwrap();
        let doors = doors_here(&grid).await;
        let of = |name: &str| doors.get(name).map(ToString::to_string);
        assert_eq!(of("X").unwrap(), "127.0.9.1:1094");
        assert_eq!(of("L").unwrap(), "127.0.0.1:99");
        assert_eq!(doors.len(), 2, "{doors:?}");
    }

    /// The grid would go past the relay, or its tokens not be taken behind it.
    #[tokio::test]
    async fn the_grid_sees_the_relay_of_another_programs_storage() {
        let text =
            "name = \"g\"\n[[rse]]\nname = \"A\"\n[[rse]]\nname = \"X\"\nurl = \"https://127.0.9.1:1094/data\"\n";
        let grid = Grid::parse(text, "grid.toml".as_ref()).unwrap();
        let mut relays = Relays::new();
        let seen = in_front_of_others(&grid, &mut relays).await.unwrap();
        let RseKind::External { url, .. } = &seen.rses[1].kind else {
            panic!("it is external")
        };
        let relay = relays["X"].address();
        assert_eq!(url, &format!("https://{relay}/data"));
        assert_ne!(relay.port(), 1094);
    }
}
