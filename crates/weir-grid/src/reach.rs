//! The addresses that the services of a grid may connect to for users: those of its storages, and no others.

use std::collections::BTreeSet;
use std::net::IpAddr;

use weir_http::Network;
use weir_model::{Grid, RedirectHost, RseKind};

/// The addresses of a grid's storages. Embedded ones have the given addresses. The names of external ones, and of their
/// nodes in the grid file, are resolved now. Any other server to which an external storage redirects is accepted or
/// refused by its own address.
pub(crate) async fn storages(grid: &Grid, embedded: impl IntoIterator<Item = IpAddr>) -> Vec<Network> {
    let mut addresses: BTreeSet<IpAddr> = embedded
        .into_iter()
        .filter(|address| !address.is_unspecified())
        .collect();
    for rse in &grid.rses {
        for host in hosts(&rse.kind) {
            let found = of_host(&host).await;
            if found.is_empty() {
                tracing::warn!(rse = %rse.name, host, "its name has no address: if it is a private one, copies are refused");
            }
            addresses.extend(found);
        }
    }
    let alone = |address: IpAddr| address.to_string().parse().expect("an address is a range of one");
    let named = grid.reach.iter().filter_map(|network| match network.parse() {
        Ok(network) => Some(network),
        Err(error) => {
            tracing::warn!(network, %error, "a network of the grid file is left out");
            None
        }
    });
    addresses.into_iter().map(alone).chain(named).collect()
}

/// The hosts of a storage; none for an embedded one that other hosts cannot reach.
fn hosts(kind: &RseKind) -> Vec<String> {
    match kind {
        RseKind::External {
            url, redirect_hosts, ..
        } => {
            let uri: Option<http::Uri> = url.parse().ok();
            let own = uri.as_ref().and_then(http::Uri::host);
            let nodes = redirect_hosts.iter().filter_map(RedirectHost::host);
            own.into_iter().chain(nodes).map(str::to_owned).collect()
        }
        RseKind::Embedded { place, .. } => place.iter().map(|place| place.host.clone()).collect(),
    }
}

async fn of_host(host: &str) -> Vec<IpAddr> {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    match tokio::net::lookup_host((host, 443)).await {
        Ok(found) => found.map(|address| address.ip().to_canonical()).collect(),
        Err(_) => Vec::new(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    /// A stranger's copy could reach every service of the machine, or a storage of the grid not be reached.
    #[tokio::test]
    async fn storages_are_reached_and_nothing_beside_them() {
        let text = "name = \"g\"\n[[rse]]\nname = \"A\"\n[[rse]]\nname = \"X\"\nurl = \"https://127.0.9.1:1094/data\"\nredirect_hosts = [\"127.0.9.7\", \"fd00::7\", \"*.example.org\"]\n\
                    [[rse]]\nname = \"Y\"\nurl = \"https://[fd00::5]/data\"\n";
        let grid = Grid::parse(text, "grid.toml".as_ref()).unwrap();
        let networks = storages(&grid, ["127.0.1.1".parse().unwrap()]).await;
        let reached = |address: &str| {
            networks
                .iter()
                .any(|network| network.contains(address.parse().unwrap()))
        };
        for address in ["127.0.1.1", "127.0.9.1", "127.0.9.7", "fd00::5", "fd00::7"] {
            assert!(reached(address), "{address}");
        }
        for address in ["127.0.0.1", "127.0.1.2", "127.0.9.2", "::1", "10.0.0.1", "fd00::6"] {
            assert!(!reached(address), "{address}");
        }
    }
}
