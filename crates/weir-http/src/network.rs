//! Address ranges, and which addresses strangers may make us connect to.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    str::FromStr,
    sync::Arc,
    time::{Duration, Instant},
};

use http::HeaderMap;
use parking_lot::Mutex;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A range of addresses, written `127.0.0.0/8`, `fd00::/8` or as a single address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    prefix: u8,
}

impl Network {
    /// Whether the address lies in the range. An IPv4 address mapped into IPv6 counts as IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(network), IpAddr::V4(address)) => same_start(network.octets(), address.octets(), self.prefix),
            (IpAddr::V6(network), IpAddr::V6(address)) => same_start(network.octets(), address.octets(), self.prefix),
            _ => false,
        }
    }
}

/// The addresses by which a host speaks to itself.
pub fn this_host() -> Vec<Network> {
    let loopback = [IpAddr::V4(Ipv4Addr::new(127, 0, 0, 0)), IpAddr::V6(Ipv6Addr::LOCALHOST)];
    let prefixes = [8, 128];
    let ranges = loopback.into_iter().zip(prefixes);
    ranges.map(|(address, prefix)| Network { address, prefix }).collect()
}

/// Headers by which a proxy names the client of a request that it passes on.
const FORWARDED: [&str; 4] = ["forwarded", "x-forwarded-for", "x-real-ip", "via"];

/// Whether a request comes directly from one of these ranges. A request forwarded by a proxy has an unknown origin,
/// above all where the proxy runs on this host.
pub fn comes_from(ranges: &[Network], peer: IpAddr, headers: &HeaderMap) -> bool {
    let passed_on = FORWARDED.iter().any(|name| headers.contains_key(*name));
    !passed_on && ranges.iter().any(|network| network.contains(peer))
}

fn same_start<const N: usize>(a: [u8; N], b: [u8; N], bits: u8) -> bool {
    let whole = usize::from(bits / 8);
    let rest = u32::from(bits % 8);
    a[..whole] == b[..whole] && (rest == 0 || (a[whole] ^ b[whole]).leading_zeros() >= rest)
}

/// A text that is no range of addresses.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is not a range of addresses: write it as 127.0.0.0/8 or fd00::/8")]
pub struct NotANetwork(String);

impl FromStr for Network {
    type Err = NotANetwork;

    fn from_str(text: &str) -> Result<Self, NotANetwork> {
        let wrong = || NotANetwork(text.to_owned());
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let bits = if address.is_ipv4() { 32 } else { 128 };
        let prefix = prefix.map_or(Ok(bits), str::parse).map_err(|_| wrong())?;
        if prefix > bits {
            return Err(wrong());
        }
        Ok(Self { address, prefix })
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

impl Serialize for Network {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Network {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// The addresses that may be connected to: those of the public network, and those that an operator allows.
///
/// The filter is applied to the address in use, after resolution, at each connection: a name that resolves differently
/// the second time, or a redirect, cannot bypass it.
#[derive(Debug, Clone, Default)]
pub struct AddressFilter {
    allowed: Arc<[Network]>,
    own: Option<Arc<OwnAddresses>>,
}

impl AddressFilter {
    /// The public network, and these ranges.
    pub fn allowing(allowed: &[Network]) -> Self {
        Self {
            allowed: allowed.into(),
            own: None,
        }
    }

    /// Refuses this host's own addresses too, unless they are allowed: through them untrusted users could make a
    /// service call itself. Addresses added later count as well.
    #[must_use]
    pub fn refusing_own(self) -> Self {
        Self {
            own: Some(Arc::new(OwnAddresses::new(own_addresses))),
            ..self
        }
    }

    /// The kind of an address that may not be connected to; `None` if it may.
    pub fn refuses(&self, address: IpAddr) -> Option<&'static str> {
        let is_own = |own: &Arc<OwnAddresses>| own.contain(address.to_canonical());
        let own = || self.own.as_ref().is_some_and(is_own).then_some("this host's own");
        let kind = local_kind(address).or_else(own)?;
        (!self.allowed.iter().any(|network| network.contains(address))).then_some(kind)
    }
}

/// How long the list of this host's addresses is good. It is asked for with each connection that is made; to read it takes some 50 µs.
const OWN_GOOD: Duration = Duration::from_secs(1);

/// The addresses of this host, read again when the list is old: hosts get addresses while they run.
#[derive(Debug)]
struct OwnAddresses {
    read: fn() -> Vec<IpAddr>,
    known: Mutex<(Instant, Vec<IpAddr>)>,
}

impl OwnAddresses {
    fn new(read: fn() -> Vec<IpAddr>) -> Self {
        Self {
            read,
            known: Mutex::new((Instant::now(), read())),
        }
    }

    fn contain(&self, address: IpAddr) -> bool {
        let mut known = self.known.lock();
        if known.0.elapsed() >= OWN_GOOD {
            *known = (Instant::now(), (self.read)());
        }
        known.1.contains(&address)
    }
}

/// The current addresses of this host, as the kernel lists them; unreadable entries are left out.
fn own_addresses() -> Vec<IpAddr> {
    let read = |file: &str| std::fs::read_to_string(file).unwrap_or_default();
    let mut own = own_v4(&read("/proc/net/fib_trie"));
    own.extend(own_v6(&read("/proc/net/if_inet6")));
    own.sort_unstable();
    own.dedup();
    own
}

/// Reads the routing table: an address on one line, and its type on the next.
fn own_v4(table: &str) -> Vec<IpAddr> {
    let mut last: Option<IpAddr> = None;
    let mut own = Vec::new();
    for line in table.lines().map(str::trim) {
        if let Some(address) = line.strip_prefix("|-- ") {
            last = address.parse().ok();
        } else if line == "/32 host LOCAL" {
            own.extend(last);
        }
    }
    own
}

/// Of the table of interfaces: 32 hexadecimal digits begin each line.
fn own_v6(table: &str) -> Vec<IpAddr> {
    let digits = table.lines().filter_map(|line| line.split_whitespace().next());
    let numbers = digits.filter_map(|digits| u128::from_str_radix(digits, 16).ok());
    numbers.map(|number| Ipv6Addr::from_bits(number).into()).collect()
}

/// The kind of an address that untrusted users must not make us connect to: this host's, its networks', or no host's at
/// all (RFC 6890: special-purpose registries). `None` for addresses of the public network. Clouds serve credentials at
/// link-local addresses.
pub fn local_kind(address: IpAddr) -> Option<&'static str> {
    match address.to_canonical() {
        IpAddr::V4(address) => local_kind_v4(address),
        IpAddr::V6(address) => local_kind_v6(address),
    }
}

/// Whether a host of a URL or of `host:port` is this machine by its spelling: `localhost`, or a loopback address, in brackets or without.
pub fn is_loopback_host(host: &str) -> bool {
    let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

const LOOPBACK: &str = "a loopback";
const LINK_LOCAL: &str = "a link-local";
const PRIVATE: &str = "a private";
const SPECIAL: &str = "a special-purpose";

fn local_kind_v4(address: Ipv4Addr) -> Option<&'static str> {
    let octets = address.octets();
    let [first, second, ..] = octets;
    match octets {
        _ if address.is_loopback() => Some(LOOPBACK),
        _ if address.is_link_local() => Some(LINK_LOCAL),
        // And shared address space (RFC 6598).
        _ if address.is_private() || (first == 100 && second & 0xc0 == 64) => Some(PRIVATE),
        // "This network", multicast, the reserved range up to the broadcast address, benchmarking (RFC 2544).
        _ if first == 0 || first >= 224 || (first == 198 && second & 0xfe == 18) => Some(SPECIAL),
        // IETF protocol assignments, the documentation's apart: tests and examples have those.
        [192, 0, 0, _] => Some(SPECIAL),
        _ => None,
    }
}

fn local_kind_v6(address: Ipv6Addr) -> Option<&'static str> {
    let segments = address.segments();
    match segments {
        _ if address.is_loopback() => Some(LOOPBACK),
        _ if address.is_unicast_link_local() => Some(LINK_LOCAL),
        // And the site-local addresses of old.
        _ if address.is_unique_local() || segments[0] & 0xffc0 == 0xfec0 => Some(PRIVATE),
        // IPv4 behind a translator (RFC 6052), and in 6to4 (RFC 3056).
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => local_kind_v4(embedded(high, low)),
        // Behind a site's own translator (RFC 8215), and IPv4-compatible.
        [0x64, 0xff9b, 1, ..] | [0, 0, 0, 0, 0, 0, ..] => Some(SPECIAL),
        _ if address.is_multicast() => Some(SPECIAL),
        _ => None,
    }
}

fn embedded(high: u16, low: u16) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(high) << 16 | u32::from(low))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]

    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_name_that_begins_like_a_loopback_address_is_another_host() {
        for host in ["localhost", "127.0.0.1", "127.1.2.3", "[::1]", "::1"] {
            assert!(is_loopback_host(host), "{host}");
        }
        for host in [
            "127.0.0.1.example.org",
            "localhost.example.org",
            "10.0.0.1",
            "[fd00::1]",
            "",
        ] {
            assert!(!is_loopback_host(host), "{host}");
        }
    }

    /// One address taken for a public one lets a stranger reach the site's inside through us.
    #[test]
    fn local_addresses_are_known_in_every_spelling() {
        for text in [
            "127.0.0.1",
            "127.9.9.9",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "0.0.0.0",
            "100.64.0.1",
            "198.19.0.1",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "192.0.0.8",
            "::1",
            "::",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "fe80::1",
            "fd00::1",
            "fc00::1",
            "fec0::1",
            "ff02::1",
            "64:ff9b::7f00:1",
            "64:ff9b:1::808:808",
            "2002:a00:1::1",
            "2002:7f00:1::",
            "::7f00:1",
        ] {
            assert!(local_kind(address(text)).is_some(), "{text}");
        }
        for text in [
            "192.0.2.1",
            "8.8.8.8",
            "172.32.0.1",
            "100.128.0.1",
            "2001:db8::1",
            "64:ff9b::808:808",
            "2002:808:808::1",
            "::ffff:8.8.8.8",
        ] {
            assert_eq!(local_kind(address(text)), None, "{text}");
        }
    }

    /// An operator would not know which address to allow, or allow it in vain.
    #[test]
    fn a_refused_address_is_named_and_can_be_allowed() {
        let filter = AddressFilter::allowing(&["10.0.0.0/8".parse().unwrap()]);
        for (text, kind) in [
            ("127.0.0.1", Some("a loopback")),
            ("::ffff:127.0.0.1", Some("a loopback")),
            ("169.254.169.254", Some("a link-local")),
            ("192.168.0.1", Some("a private")),
            ("::", Some("a special-purpose")),
            ("10.1.2.3", None),
            ("::ffff:10.1.2.3", None),
            ("192.0.2.1", None),
        ] {
            assert_eq!(filter.refuses(address(text)), kind, "{text}");
        }
    }

    /// A stranger could have an endpoint with a public address talk to itself, or to its neighbours behind the same name.
    #[test]
    fn this_hosts_own_addresses_are_refused_unless_allowed() {
        static LATER: AtomicBool = AtomicBool::new(false);
        let read = || {
            let mut own = vec![address("203.0.113.7"), address("2001:db8::7")];
            own.extend(LATER.load(Ordering::Relaxed).then(|| address("203.0.113.9")));
            own
        };
        let own = Some(Arc::new(OwnAddresses::new(read)));
        let filter = AddressFilter {
            own: own.clone(),
            ..AddressFilter::default()
        };
        for text in ["203.0.113.7", "::ffff:203.0.113.7", "2001:db8::7"] {
            assert_eq!(filter.refuses(address(text)), Some("this host's own"), "{text}");
        }
        assert_eq!(filter.refuses(address("203.0.113.8")), None);
        let allowing = AddressFilter {
            own,
            ..AddressFilter::allowing(&["203.0.113.7".parse().unwrap()])
        };
        assert_eq!(allowing.refuses(address("203.0.113.7")), None);
        // An address added while the service runs.
        assert_eq!(filter.refuses(address("203.0.113.9")), None);
        LATER.store(true, Ordering::Relaxed);
        let begun = Instant::now();
        while filter.refuses(address("203.0.113.9")).is_none() {
            assert!(begun.elapsed() < Duration::from_secs(60));
            std::thread::sleep(Duration::from_millis(50));
        }
        assert!(own_addresses().contains(&address("127.0.0.1")), "{:?}", own_addresses());
    }

    #[test]
    fn the_kernels_tables_are_read() {
        let table = "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 203.0.113.0\n        /24 link UNICAST\n     |-- 203.0.113.7\n        \
                     /32 host LOCAL\n     |-- 203.0.113.255\n        /32 link BROADCAST\n";
        assert_eq!(own_v4(table), [address("203.0.113.7")]);
        let table = "20010db8000000000000000000000007 04 40 00 80     eth0\nnothing\n";
        assert_eq!(own_v6(table), [address("2001:db8::7")]);
        assert!(own_v4("garbage").is_empty() && own_v6("").is_empty());
    }

    /// Behind a reverse proxy on the same host, every client would appear to be this host.
    #[test]
    fn a_proxied_request_has_no_known_address() {
        let ranges = this_host();
        let (here, there) = (address("127.0.0.1"), address("192.0.2.1"));
        let mut headers = HeaderMap::new();
        assert!(comes_from(&ranges, here, &headers));
        assert!(!comes_from(&ranges, there, &headers));
        for name in FORWARDED {
            headers.insert(name, http::HeaderValue::from_static("192.0.2.1"));
            assert!(!comes_from(&ranges, here, &headers), "{name}");
            headers.clear();
        }
    }

    /// A range that is too wide or too narrow allows too much, or breaks the embedded grid.
    #[test]
    fn ranges_contain_what_they_say() {
        let check = |network: &str, inside: &str, outside: &str| {
            let network: Network = network.parse().unwrap();
            assert!(
                network.contains(address(inside)) && !network.contains(address(outside)),
                "{network}"
            );
            assert_eq!(network.to_string().parse::<Network>().unwrap(), network);
        };
        check("127.0.0.0/8", "127.255.0.1", "128.0.0.1");
        check("127.0.1.0/25", "127.0.1.127", "127.0.1.128");
        check("10.0.0.1", "10.0.0.1", "10.0.0.2");
        check("127.0.0.0/8", "::ffff:127.0.0.1", "::1");
        check("fd00::/9", "fd7f::1", "fd80::1");
        check("0.0.0.0/0", "8.8.8.8", "2001:db8::1");
        for text in ["", "127.0.0.0/33", "::/129", "a/8", "127.0.0.1/", "127.0.0.1/-1"] {
            assert!(text.parse::<Network>().is_err(), "{text}");
        }
    }
}
