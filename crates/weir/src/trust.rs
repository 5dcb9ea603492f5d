//! The authorities that commands trust: the named ones, or the system's and the grid's.

use std::path::{Path, PathBuf};

use weir_http::TrustRoots;

use crate::cli::AccessArguments;
use crate::failure::Failure;

/// The places of the web's authorities in distributions.
const AUTHORITIES: [&str; 2] = ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt"];
const GRID_AUTHORITIES: &str = "/etc/grid-security/certificates";

/// The authorities of a file alone, or the system's and those of a directory.
pub(crate) fn roots(access: &AccessArguments) -> Result<TrustRoots, Failure> {
    if let Some(file) = &access.ca {
        return Ok(TrustRoots::file(file));
    }
    let directory = access.ca_directory.as_deref().unwrap_or(Path::new(GRID_AUTHORITIES));
    let files: Vec<PathBuf> = AUTHORITIES
        .iter()
        .map(PathBuf::from)
        .filter(|file| file.exists())
        .take(1)
        .collect();
    let directories: Vec<PathBuf> = Some(directory.to_owned())
        .filter(|directory| directory.is_dir())
        .into_iter()
        .collect();
    if files.is_empty() && directories.is_empty() {
        let error = anyhow::anyhow!("there are no certificate authorities on this machine");
        return Err(Failure::bad_input(error).with_remedy("name their file with --ca or WEIR_CA_FILE"));
    }
    Ok(TrustRoots { files, directories })
}
