//! Files that several services name alike.

use std::path::Path;
use std::time::SystemTime;

use weir_auth::x509::{Door, DoorConfig};
use weir_service::check::{Check, Outcome, parent, secret};

/// A key that the service makes if it is missing.
pub(super) fn own_key(name: &'static str, key: &Path) -> Check {
    let outcome = if key.exists() { secret(key) } else { parent(key) };
    Check::new(name, outcome)
}

/// The authorities and the grid-mapfile of clients' certificates.
pub(super) fn x509(config: &DoorConfig) -> Check {
    let outcome = match Door::open(config, SystemTime::now()) {
        Ok(_) => Outcome::ok("authorities and grid-mapfile can be read"),
        Err(error) => Outcome::failed(
            weir_auth::error_chain(&error),
            "correct [x509], or install the files that it names",
        ),
    };
    Check::new("x509", outcome)
}
