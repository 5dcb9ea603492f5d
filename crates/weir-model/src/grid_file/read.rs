//! From the text of a grid file to a valid grid.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use toml::de::DeValue;
use weir_units::{Algorithm, BitRate, Bytes};

use super::keys::{BROKER, CATALOG, GRID, ISSUER, RSE, SITE, STORAGE, TOKEN_ISSUER, TRANSFER};
use super::{place, services, url};
use crate::file::{Document, FromValue, Problem, Refusal, Section, nearest, one_of};
use crate::grid::{Broker, Durability, Grid, Rse, RseKind, Site, StorageDefaults, TokenFrom, TransferLimits};
use crate::names::{GridName, RseName, SiteName, VoName, variable};
use crate::redirect_host::{NoHost, RedirectHost};
use crate::services::{GridIssuer, TransferTokens};

/// Most RSEs that can be embedded: each has its own address 127.0.1.N.
const EMBEDDED_MAX: usize = 250;

/// Least bandwidth of an RSE: with less, a piece of a file takes longer than clients wait for its bytes.
const BANDWIDTH_MIN: BitRate = BitRate(1_000_000);

/// Keys that make sense only where the grid starts the storage itself.
const EMBEDDED_ONLY: [&str; 7] = [
    "quota",
    "durability",
    "checksums",
    "bandwidth",
    "read_only",
    "listen",
    "host",
];

/// Keys that make sense only where the storage runs elsewhere.
const EXTERNAL_ONLY: [&str; 5] = ["ca", "token_file", "token_issuer", "base_path", "redirect_hosts"];

pub(crate) fn parse(document: &Document) -> Result<Grid, Vec<Problem>> {
    document.parse(&GRID, grid)
}

pub(super) fn grid(section: &Section<'_>) -> Option<Grid> {
    let name: Option<GridName> = section.required("name");
    let vo = section.or("vo", VoName::new("weir").expect("\"weir\" is a name"));
    let authority = section.folder("authority");
    let storage = section
        .table("storage", &STORAGE)
        .map_or_else(StorageDefaults::default, |table| storage(&table));
    let reach = place::networks(section);
    let issuer = section
        .table("issuer", &ISSUER)
        .map_or(Some(GridIssuer::default()), |table| services::issuer(&table));
    let transfer = section.table("transfer", &TRANSFER);
    let transfer_tokens = transfer.as_ref().map_or(Some(TransferTokens::default()), tokens);
    let transfer_service = transfer.as_ref().map_or(Ok(None), services::transfer);
    let transfer = transfer.map_or_else(TransferLimits::default, |table| transfer_limits(&table));
    let catalog = section
        .table("catalog", &CATALOG)
        .map(|table| services::catalog(&table));
    let broker = section.table("broker", &BROKER).map(|table| broker(&table));
    let mut sites = Sites::read(section);
    let rses = rses(section, &storage, &mut sites);
    Some(Grid {
        name: name?,
        vo,
        sites: sites.list,
        rses: rses?,
        authority,
        reach,
        issuer: issuer?,
        transfer_service: transfer_service.ok()?,
        transfer_tokens: transfer_tokens?,
        transfer,
        storage,
        catalog: match catalog {
            Some(catalog) => Some(catalog?),
            None => None,
        },
        broker: match broker {
            Some(broker) => Some(broker?),
            None => None,
        },
    })
}

/// The tokens of transfers. A service elsewhere may not have the right to renew them: all transfers share the tokens for it.
fn tokens(table: &Section<'_>) -> Option<TransferTokens> {
    if table.has("url") && table.has("tokens") {
        let remedy = "leave it out: transfers of a service elsewhere share their tokens";
        table.refuse("tokens", Refusal::new("stands beside url", remedy));
        return None;
    }
    Some(table.or("tokens", TransferTokens::default()))
}

/// The sites read so far, and the lines on which they were named.
struct Sites {
    list: Vec<Site>,
    lines: BTreeMap<SiteName, Option<usize>>,
}

impl Sites {
    fn read(section: &Section<'_>) -> Sites {
        let mut sites = Sites {
            list: Vec::new(),
            lines: BTreeMap::new(),
        };
        for table in section.tables("site", &SITE) {
            let tier_fits = |tier: &u32| match tier {
                0..=3 => Ok(()),
                _ => Err(Refusal::new(format!("there is no tier {tier}"), "write 0, 1, 2 or 3")),
            };
            let tier = table.checked("tier", tier_fits).unwrap_or(2) as u8;
            let Some(name) = table.required::<SiteName>("name") else {
                continue;
            };
            if let Some(line) = sites.lines.get(&name) {
                table.refuse("name", taken(&name, *line));
            } else {
                sites.lines.insert(name.clone(), table.line());
                sites.list.push(Site { name, tier });
            }
        }
        sites
    }

    /// Gives the site of an RSE: the named site, which must exist, or a site with the RSE's own name.
    fn of(&mut self, table: &Section<'_>, rse: &RseName) -> Option<SiteName> {
        if !table.has("site") {
            let name = SiteName::new(rse.as_str()).expect("both kinds of names follow one rule");
            if !self.lines.contains_key(&name) {
                self.lines.insert(name.clone(), table.line());
                self.list.push(Site {
                    name: name.clone(),
                    tier: 2,
                });
            }
            return Some(name);
        }
        let name: SiteName = table.optional("site")?;
        if !self.lines.contains_key(&name) {
            let remedy = match nearest(name.as_str(), self.lines.keys().map(SiteName::as_str)) {
                Some(known) => format!("did you mean \"{known}\"?"),
                None => format!("add a [[site]] of that name, or leave site out to get the site \"{rse}\""),
            };
            table.refuse("site", Refusal::new(format!("there is no site \"{name}\""), remedy));
            return None;
        }
        Some(name)
    }
}

fn taken(name: impl std::fmt::Display, line: Option<usize>) -> Refusal {
    let place = line.map_or_else(String::new, |line| format!(", first on line {line}"));
    Refusal::new(
        format!("\"{name}\" is there twice{place}"),
        "choose another name or remove one",
    )
}

fn alike(name: &RseName, other: &RseName) -> Refusal {
    let variable = variable(name.as_str());
    Refusal::new(
        format!("\"{name}\" and \"{other}\" are one name, {variable}, where shells and metrics name them"),
        "choose names that differ in letters or digits",
    )
}

fn rses(section: &Section<'_>, storage: &StorageDefaults, sites: &mut Sites) -> Option<Vec<Rse>> {
    let tables = section.tables("rse", &RSE);
    if tables.is_empty() {
        if section.has("rse") {
            section.refuse("rse", Refusal::new("there is no RSE", "add an [[rse]] with a name"));
        } else {
            section.miss("rse", "add an [[rse]] with a name");
        }
        return None;
    }
    let mut names: BTreeMap<RseName, Option<usize>> = BTreeMap::new();
    let mut variables: BTreeMap<String, RseName> = BTreeMap::new();
    let mut urls = BTreeSet::new();
    let mut list = Vec::new();
    let n_tables = tables.len();
    for table in tables {
        let name: Option<RseName> = table.required("name");
        let kind = if table.has("url") {
            external(&table)
        } else {
            embedded(&table, storage)
        };
        if let Some(RseKind::External { url, .. }) = &kind
            && !urls.insert(url.clone())
        {
            table.refuse("url", Refusal::new("two RSEs share this folder", "give each its own"));
        }
        let Some(name) = name else { continue };
        let site = sites.of(&table, &name);
        if let Some(line) = names.insert(name.clone(), table.line()) {
            table.refuse("name", taken(&name, line));
            continue;
        }
        if let Some(other) = variables.insert(variable(name.as_str()), name.clone()) {
            table.refuse("name", alike(&name, &other));
            continue;
        }
        if let (Some(site), Some(kind)) = (site, kind) {
            list.push(Rse { name, site, kind });
        }
    }
    if list.iter().filter(|rse| rse.kind.is_embedded()).count() > EMBEDDED_MAX {
        let message = format!("more than {EMBEDDED_MAX} RSEs are embedded");
        section.refuse("rse", Refusal::new(message, "make some external, or split the grid"));
    }
    (list.len() == n_tables).then_some(list)
}

fn embedded(table: &Section<'_>, defaults: &StorageDefaults) -> Option<RseKind> {
    for key in EXTERNAL_ONLY.into_iter().filter(|key| table.has(key)) {
        table.refuse(key, Refusal::new("is for external RSEs", "add url, or remove this key"));
    }
    let own = storage_keys(table, defaults);
    Some(RseKind::Embedded {
        quota: own.quota,
        read_only: table.or("read_only", false),
        checksums: own.checksums,
        durability: own.durability,
        bandwidth: own.bandwidth,
        place: place::read(table).ok()?,
    })
}

fn external(table: &Section<'_>) -> Option<RseKind> {
    for key in EMBEDDED_ONLY.into_iter().filter(|key| table.has(key)) {
        table.refuse(
            key,
            Refusal::new("is for embedded RSEs", "remove this key, or remove url"),
        );
    }
    let ca = table.file("ca");
    let token = token(table);
    let Https(url) = table.optional("url")?;
    let below = |base: &String| url::is_below(base, &url);
    let base_path: Option<String> = table.checked("base_path", below);
    if table.has("base_path") && base_path.is_none() {
        return None;
    }
    let redirect_hosts = table.list("redirect_hosts");
    if table.has("redirect_hosts") && redirect_hosts.is_none() {
        return None;
    }
    Some(RseKind::External {
        redirect_hosts: redirect_hosts.unwrap_or_default(),
        base_path: base_path.map(|base| base.trim_end_matches('/').to_owned()),
        url,
        ca,
        token: token?,
    })
}

fn token(table: &Section<'_>) -> Option<TokenFrom> {
    if table.has("token_file") && table.has("token_issuer") {
        let message = "stands beside token_file";
        table.refuse("token_issuer", Refusal::new(message, "keep one of the two"));
        return None;
    }
    if table.has("token_file") {
        return table.file("token_file").map(TokenFrom::File);
    }
    if !table.has("token_issuer") {
        return Some(TokenFrom::Grid);
    }
    let issuer = table.table("token_issuer", &TOKEN_ISSUER)?;
    let (token_url, client_id) = (issuer.required::<Https>("token_url"), issuer.required("client_id"));
    if !issuer.has("secret_file") {
        issuer.miss("secret_file", "add secret_file (path)");
    }
    let (secret_file, ca) = (issuer.file("secret_file"), issuer.file("ca"));
    Some(TokenFrom::Issuer {
        token_url: token_url?.0,
        client_id: client_id?,
        secret_file: secret_file?,
        ca,
    })
}

fn storage(table: &Section<'_>) -> StorageDefaults {
    storage_keys(table, &StorageDefaults::default())
}

fn storage_keys(table: &Section<'_>, defaults: &StorageDefaults) -> StorageDefaults {
    let above_zero = |quota: &Bytes| {
        if quota.0 > 0 {
            Ok(())
        } else {
            Err(Refusal::new("must be above zero", "write a size such as \"10 GB\""))
        }
    };
    let moves = |rate: &BitRate| {
        if rate.0 >= BANDWIDTH_MIN.0 {
            Ok(())
        } else {
            Err(Refusal::new(
                format!("is below {BANDWIDTH_MIN}"),
                "write a rate such as \"400 Mb/s\"",
            ))
        }
    };
    StorageDefaults {
        bandwidth: table.checked("bandwidth", moves).or(defaults.bandwidth),
        quota: table.checked("quota", above_zero).unwrap_or(defaults.quota),
        durability: table.or("durability", defaults.durability),
        checksums: checksums(table).unwrap_or_else(|| defaults.checksums.clone()),
    }
}

fn checksums(table: &Section<'_>) -> Option<Vec<Algorithm>> {
    let list: Vec<Algorithm> = table.list("checksums")?;
    let unique: BTreeSet<_> = list.iter().collect();
    if unique.len() < list.len() {
        table.refuse(
            "checksums",
            Refusal::new("an algorithm is there twice", "name each once"),
        );
    }
    if list.is_empty() {
        table.refuse(
            "checksums",
            Refusal::new("names no algorithm", "write [\"adler32\"]: transfers verify by it"),
        );
    }
    Some(list)
}

fn broker(table: &Section<'_>) -> Option<Broker> {
    let named = |address: &String| match address.rsplit_once(':') {
        Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => Ok(()),
        _ => Err(Refusal::new(
            "is not of the form host:port",
            "write such as \"broker.example.org:61614\"",
        )),
    };
    if !table.has("address") {
        table.miss("address", "add address (\"host:port\")");
    }
    let address = table.checked("address", named);
    Some(Broker {
        tls: table.or("tls", true),
        user: table.optional("user"),
        password_file: table.file("password_file"),
        ca: table.file("ca"),
        address: address?,
    })
}

fn transfer_limits(table: &Section<'_>) -> TransferLimits {
    let defaults = TransferLimits::default();
    let few = |retries: &u32| match retries {
        0..=100 => Ok(()),
        _ => Err(Refusal::new(format!("{retries} is too large"), "write at most 100")),
    };
    let short = |delay: &Duration| {
        let day = Duration::from_secs(86_400);
        if *delay <= day {
            Ok(())
        } else {
            Err(Refusal::new("is longer than a day", "write at most \"1 d\""))
        }
    };
    TransferLimits {
        max_active_per_rse_in: table.positive("max_active_per_rse_in", defaults.max_active_per_rse_in),
        max_active_per_rse_out: table.positive("max_active_per_rse_out", defaults.max_active_per_rse_out),
        max_active_per_link: table.positive("max_active_per_link", defaults.max_active_per_link),
        retries: table.checked("retries", few).unwrap_or(defaults.retries),
        retry_delay: table.checked("retry_delay", short).unwrap_or(defaults.retry_delay),
    }
}

/// A URL that follows the rules of [`url::https`].
struct Https(String);

impl FromValue for Https {
    fn from_value(value: &DeValue<'_>) -> Result<Https, Refusal> {
        url::https(&String::from_value(value)?).map(Https)
    }
}

impl FromValue for RedirectHost {
    fn from_value(value: &DeValue<'_>) -> Result<RedirectHost, Refusal> {
        let remedy = "name a node (\"node1.example.org\") or a domain with all its hosts (\"*.example.org\"), without scheme and port";
        let host = String::from_value(value)?.parse();
        host.map_err(|error: NoHost| Refusal::new(error.to_string(), remedy))
    }
}

impl FromValue for TransferTokens {
    fn from_value(value: &DeValue<'_>) -> Result<TransferTokens, Refusal> {
        let words = [TransferTokens::Shared, TransferTokens::PerFile].map(|word| (word.as_str(), word));
        one_of(&String::from_value(value)?, &words)
    }
}

impl FromValue for Durability {
    fn from_value(value: &DeValue<'_>) -> Result<Durability, Refusal> {
        let words = [Durability::Full, Durability::Cache].map(|word| (word.as_str(), word));
        one_of(&String::from_value(value)?, &words)
    }
}
