//! Which addresses the services of a grid may connect to for somebody else: those of its storages, and no others.

use std::collections::BTreeSet;
use std::net::IpAddr;

use weir_http::Network;
use weir_model::{Grid, RseKind};

/// The addresses of a grid's storages: of embedded ones as given, of external ones those that their names have now. What an
/// external storage redirects to counts by its own address.
pub(crate) async fn storages(grid: &Grid, embedded: impl IntoIterator<Item = IpAddr>) -> Vec<Network> {
    let mut addresses: BTreeSet<IpAddr> = embedded
        .into_iter()
        .filter(|address| !address.is_unspecified())
        .collect();
    for rse in &grid.rses {
        let url = match &rse.kind {
            RseKind::External { url, .. } => Some(url.clone()),
            RseKind::Embedded { place, .. } => place.as_ref().map(|place| format!("https://{}", place.url_host())),
        };
        if let Some(url) = url {
            let found = of_url(&url).await;
            if found.is_empty() {
                tracing::warn!(rse = %rse.name, url, "its name has no address: if it is a private one, copies are refused");
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

async fn of_url(url: &str) -> Vec<IpAddr> {
    let uri: Option<http::Uri> = url.parse().ok();
    let host = uri.as_ref().and_then(http::Uri::host).unwrap_or_default();
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
        let text = "name = \"g\"\n[[rse]]\nname = \"A\"\n[[rse]]\nname = \"X\"\nurl = \"https://127.0.9.1:1094/data\"\n\
                    [[rse]]\nname = \"Y\"\nurl = \"https://[fd00::5]/data\"\n";
        let grid = Grid::parse(text, "grid.toml".as_ref()).unwrap();
        let networks = storages(&grid, ["127.0.1.1".parse().unwrap()]).await;
        let reached = |address: &str| {
            networks
                .iter()
                .any(|network| network.contains(address.parse().unwrap()))
        };
        for address in ["127.0.1.1", "127.0.9.1", "fd00::5"] {
            assert!(reached(address), "{address}");
        }
        for address in ["127.0.0.1", "127.0.1.2", "127.0.9.2", "::1", "10.0.0.1", "fd00::6"] {
            assert!(!reached(address), "{address}");
        }
    }
}
