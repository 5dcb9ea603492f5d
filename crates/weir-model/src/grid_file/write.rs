//! From a grid to TOML that reads back to the same grid.

use std::net::SocketAddr;
use std::path::Path;

use toml::{Table, Value};
use weir_units::{Algorithm, BitRate, duration};

use crate::grid::{Broker, Grid, Rse, RseKind, TokenFrom};
use crate::place::Place;
use crate::services::{CatalogLogin, ClientCertificate, GridCatalog, GridIssuer};

/// The grid as the table of a grid file.
pub(crate) fn to_toml(grid: &Grid) -> Table {
    let mut table = Table::new();
    put(&mut table, "name", grid.name.as_str());
    put(&mut table, "vo", grid.vo.as_str());
    put_path(&mut table, "authority", grid.authority.as_deref());
    if !grid.reach.is_empty() {
        let networks = grid.reach.iter().cloned().map(Value::String);
        table.insert("reach".to_owned(), Value::Array(networks.collect()));
    }
    let sites = grid.sites.iter().map(|site| {
        let mut entry = Table::new();
        put(&mut entry, "name", site.name.as_str());
        entry.insert("tier".to_owned(), Value::Integer(site.tier.into()));
        Value::Table(entry)
    });
    table.insert("site".to_owned(), Value::Array(sites.collect()));
    table.insert(
        "rse".to_owned(),
        Value::Array(grid.rses.iter().map(|entry| Value::Table(rse(entry))).collect()),
    );
    let mut storage = Table::new();
    put(&mut storage, "quota", grid.storage.quota.to_string());
    put(&mut storage, "durability", grid.storage.durability.as_str());
    storage.insert("checksums".to_owned(), algorithms(&grid.storage.checksums));
    put_rate(&mut storage, "bandwidth", grid.storage.bandwidth);
    table.insert("storage".to_owned(), Value::Table(storage));
    let mut transfer = Table::new();
    if let Some(service) = &grid.transfer_service {
        put(&mut transfer, "url", service.url.as_str());
        put_path(&mut transfer, "ca", service.ca.as_deref());
        if let Some(identity) = &service.certificate {
            put_certificate(&mut transfer, identity);
        } else {
            put(&mut transfer, "audience", service.audience.as_str());
            put_path(&mut transfer, "token_file", service.token_file.as_deref());
        }
    } else {
        put(&mut transfer, "tokens", grid.transfer_tokens.as_str());
    }
    for (key, number) in [
        ("max_active_per_rse_in", grid.transfer.max_active_per_rse_in),
        ("max_active_per_rse_out", grid.transfer.max_active_per_rse_out),
        ("max_active_per_link", grid.transfer.max_active_per_link),
        ("retries", grid.transfer.retries),
    ] {
        transfer.insert(key.to_owned(), Value::Integer(number.into()));
    }
    put(
        &mut transfer,
        "retry_delay",
        duration::format(grid.transfer.retry_delay),
    );
    table.insert("transfer".to_owned(), Value::Table(transfer));
    if grid.issuer != GridIssuer::default() {
        table.insert("issuer".to_owned(), Value::Table(issuer(&grid.issuer)));
    }
    if let Some(catalog) = &grid.catalog {
        table.insert("catalog".to_owned(), Value::Table(self::catalog(catalog)));
    }
    if let Some(told) = &grid.broker {
        table.insert("broker".to_owned(), Value::Table(broker(told)));
    }
    table
}

fn issuer(issuer: &GridIssuer) -> Table {
    let mut table = Table::new();
    match issuer {
        GridIssuer::Embedded(own) => {
            put_place(&mut table, own.place.as_ref());
            put(&mut table, "token_lifetime", duration::format(own.token_lifetime));
            put(&mut table, "answer_delay", duration::format(own.answer_delay));
        }
        GridIssuer::External(external) => {
            put(&mut table, "url", external.url.as_str());
            put(&mut table, "client_id", external.client_id.as_str());
            put_path(&mut table, "secret_file", Some(&external.secret_file));
            put_path(&mut table, "ca", external.ca.as_deref());
        }
    }
    table
}

fn catalog(catalog: &GridCatalog) -> Table {
    let mut table = Table::new();
    let Some(service) = &catalog.service else {
        put(&mut table, "poll", duration::format(catalog.poll));
        return table;
    };
    put(&mut table, "url", service.url.as_str());
    put(&mut table, "auth_url", service.auth_url.as_str());
    put_path(&mut table, "ca", service.ca.as_deref());
    put(&mut table, "account", service.account.as_str());
    put(&mut table, "scope", service.scope.as_str());
    match &service.login {
        CatalogLogin::Password { user, password_file } => {
            put(&mut table, "user", user.as_str());
            put_path(&mut table, "password_file", Some(password_file));
        }
        CatalogLogin::Certificate(identity) => {
            put_certificate(&mut table, identity);
        }
        CatalogLogin::Token {
            audience,
            scope,
            token_file,
        } => {
            put(&mut table, "audience", audience.as_str());
            put(&mut table, "token_scope", scope.as_str());
            put_path(&mut table, "token_file", token_file.as_deref());
        }
    }
    table
}

fn put_certificate(table: &mut Table, identity: &ClientCertificate) {
    put_path(table, "certificate", Some(&identity.certificate));
    put_path(table, "key", Some(&identity.key));
}

fn broker(broker: &Broker) -> Table {
    let mut table = Table::new();
    put(&mut table, "address", broker.address.as_str());
    table.insert("tls".to_owned(), Value::Boolean(broker.tls));
    if let Some(user) = &broker.user {
        put(&mut table, "user", user.as_str());
    }
    put_path(&mut table, "password_file", broker.password_file.as_deref());
    put_path(&mut table, "ca", broker.ca.as_deref());
    table
}

fn rse(rse: &Rse) -> Table {
    let mut table = Table::new();
    put(&mut table, "name", rse.name.as_str());
    put(&mut table, "site", rse.site.as_str());
    match &rse.kind {
        RseKind::Embedded {
            quota,
            read_only,
            checksums,
            durability,
            bandwidth,
            place,
        } => {
            put(&mut table, "quota", quota.to_string());
            table.insert("read_only".to_owned(), Value::Boolean(*read_only));
            table.insert("checksums".to_owned(), algorithms(checksums));
            put(&mut table, "durability", durability.as_str());
            put_rate(&mut table, "bandwidth", *bandwidth);
            put_place(&mut table, place.as_ref());
        }
        RseKind::External {
            url,
            ca,
            token,
            base_path,
            redirect_hosts,
        } => {
            put(&mut table, "url", url.as_str());
            if let Some(base) = base_path {
                put(&mut table, "base_path", format!("{base}/"));
            }
            if !redirect_hosts.is_empty() {
                let hosts = redirect_hosts.iter().map(|host| Value::String(host.to_string()));
                table.insert("redirect_hosts".to_owned(), Value::Array(hosts.collect()));
            }
            put_path(&mut table, "ca", ca.as_deref());
            match token {
                TokenFrom::Grid => {}
                TokenFrom::File(path) => put_path(&mut table, "token_file", Some(path)),
                TokenFrom::Issuer {
                    token_url,
                    client_id,
                    secret_file,
                    ca,
                } => {
                    let mut issuer = Table::new();
                    put(&mut issuer, "token_url", token_url.as_str());
                    put(&mut issuer, "client_id", client_id.as_str());
                    put_path(&mut issuer, "secret_file", Some(secret_file));
                    put_path(&mut issuer, "ca", ca.as_deref());
                    table.insert("token_issuer".to_owned(), Value::Table(issuer));
                }
            }
        }
    }
    table
}

fn put(table: &mut Table, key: &str, value: impl Into<String>) {
    table.insert(key.to_owned(), Value::String(value.into()));
}

fn put_place(table: &mut Table, place: Option<&Place>) {
    if let Some(place) = place {
        let listen = match place.port {
            Some(port) => SocketAddr::new(place.listen, port).to_string(),
            None => place.listen.to_string(),
        };
        put(table, "listen", listen);
        put(table, "host", place.host.as_str());
    }
}

fn put_rate(table: &mut Table, key: &str, rate: Option<BitRate>) {
    if let Some(rate) = rate {
        put(table, key, rate.to_string());
    }
}

fn put_path(table: &mut Table, key: &str, path: Option<&Path>) {
    if let Some(path) = path {
        put(table, key, path.to_string_lossy());
    }
}

fn algorithms(list: &[Algorithm]) -> Value {
    Value::Array(
        list.iter()
            .map(|algorithm| Value::String(algorithm.as_str().to_owned()))
            .collect(),
    )
}
