//! Stores on databases of the test server.

use std::path::Path;

use weir_http::TrustRoots;
use weir_store::postgres::{Address, testing::sealer};

use super::super::PostgresStore;
use crate::config::{PostgresConfig, Role};

/// The configuration that leads to a database.
pub(super) fn config_of(address: &Address) -> PostgresConfig {
    PostgresConfig {
        host: address.hosts.join(","),
        port: address.port,
        database: address.database.clone(),
        user: address.user.clone(),
        password_file: None,
        authorities: Vec::new(),
        target_session_attrs: None,
        role: Role::Any,
    }
}

/// A database as it is.
pub(in crate::store) fn open_on(address: &Address, key: &Path) -> PostgresStore {
    open(&config_of(address), key)
}

pub(super) fn open(config: &PostgresConfig, key: &Path) -> PostgresStore {
    PostgresStore::open(config, &TrustRoots::default(), sealer(key)).unwrap()
}
