//! Where a service answers that other hosts reach: the keys `listen` and `host`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use super::url::host_is_valid;
use crate::file::{Refusal, Section};
use crate::place::Place;

/// The keys have a problem, which the section has recorded.
pub(super) struct Wrong;

/// Reads both keys of a table; none if it has neither.
pub(super) fn read(table: &Section<'_>) -> Result<Option<Place>, Wrong> {
    if !table.has("listen") && !table.has("host") {
        return Ok(None);
    }
    let host: Option<String> = table.checked("host", |host: &String| named(host));
    if table.has("host") && host.is_none() {
        return Err(Wrong);
    }
    let (listen, port) = if table.has("listen") {
        let text: String = table
            .checked("listen", |text: &String| address(text).map(drop))
            .ok_or(Wrong)?;
        address(&text).map_err(|_| Wrong)?
    } else {
        (IpAddr::V4(Ipv4Addr::UNSPECIFIED), None)
    };
    if host.is_none() && listen.is_unspecified() {
        let message = "listens on all addresses, and nothing says by which name others reach it";
        table.refuse("listen", Refusal::new(message, "add host = \"this.host.example.org\""));
        return Err(Wrong);
    }
    let host = host.unwrap_or_else(|| listen.to_string());
    Ok(Some(Place { listen, port, host }))
}

/// Reads the networks of the key `reach`.
pub(super) fn networks(section: &Section<'_>) -> Vec<String> {
    let list: Vec<String> = section.list("reach").unwrap_or_default();
    for network in &list {
        let (address, prefix) = network.split_once('/').unwrap_or((network, "0"));
        let most = match address.parse::<IpAddr>() {
            Ok(IpAddr::V4(_)) => 32,
            Ok(IpAddr::V6(_)) => 128,
            Err(_) => 0,
        };
        if most == 0 || !prefix.parse::<u8>().is_ok_and(|prefix| prefix <= most) {
            let message = format!("\"{network}\" is no network");
            section.refuse(
                "reach",
                Refusal::new(message, "write such as \"10.9.0.0/16\" or \"fd00:9::/32\""),
            );
        }
    }
    list
}

/// `address`, `address:port`, `[address]` or `[address]:port`.
fn address(text: &str) -> Result<(IpAddr, Option<u16>), Refusal> {
    if let Ok(alone) = text.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
        return Ok((alone, None));
    }
    match text.parse::<SocketAddr>() {
        Ok(both) if both.port() > 0 => Ok((both.ip(), Some(both.port()))),
        _ => Err(Refusal::new(
            format!("\"{text}\" is no address"),
            "write such as \"0.0.0.0\", \"192.0.2.7:8443\" or \"[::]:8443\"",
        )),
    }
}

/// A name, or an address that others can connect to.
fn named(host: &str) -> Result<(), Refusal> {
    let remedy = "write the name or address by which other hosts reach this machine, without scheme and port";
    match host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
        Ok(address) if address.is_unspecified() => Err(Refusal::new(format!("{host} cannot be connected to"), remedy)),
        Ok(_) if host.starts_with('[') => Err(Refusal::new("has brackets", "write the address without them")),
        Ok(_) => Ok(()),
        Err(_) if host_is_valid(host) => Ok(()),
        Err(_) => Err(Refusal::new(format!("\"{host}\" is not a host"), remedy)),
    }
}
