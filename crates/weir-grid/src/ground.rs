//! The base of a grid before its first door opens: a private directory, an authority, trust, a secret.
//!
//! All of it is made on the first start on a directory and reused on the next. So trusted certificates, URLs in
//! queued transfers and files in storage outlive the process.

use std::fs::{self, Permissions};
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use uuid::Uuid;
use weir_auth::ca::{CaError, CertificateAuthority, Identity, San, hashed_directory};
use weir_auth::{Secret, files};
use weir_http::{Client, ClientConfig, TrustRoots};
use weir_model::{Grid, GridIssuer, RseKind, TokenFrom};

use crate::addresses::Addresses;
use crate::lock::{self, DirectoryLock};
use crate::{CaDescription, GridDescription, GridError};

/// Where distributions keep the authorities of the web.
const SYSTEM_AUTHORITIES: [&str; 3] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
];

/// The log of a grid in the background; it may be there before the grid.
pub const LOG_NAME: &str = "grid.log";

/// The ground of one grid; the directory is ours while it lives.
#[derive(Debug)]
pub(crate) struct Ground {
    _lock: DirectoryLock,
    /// Absolute, so that a reader of `grid.json` finds the files that it names.
    pub(crate) dir: PathBuf,
    pub(crate) authority: CertificateAuthority,
    /// Our authority and those of the external endpoints, as one file and as one hashed directory.
    pub(crate) trust: CaDescription,
    pub(crate) secret: Secret,
    pub(crate) secret_file: PathBuf,
    pub(crate) addresses: Addresses,
}

impl Ground {
    /// Makes or finds everything; a description of an earlier grid is gone afterwards.
    pub(crate) fn lay(grid: &Grid, dir: &Path) -> Result<Self, GridError> {
        let dir = prepare_directory(dir)?;
        let lock = DirectoryLock::take(&dir)?;
        GridDescription::remove(&dir)?;
        let authority = authority(grid.authority.as_deref().unwrap_or(&dir.join("authority")))?;
        let trust = trust(grid, &authority, &dir.join("trust"))?;
        let secret_file = dir.join("client.secret");
        let secret = secret(&secret_file)?;
        let addresses = Addresses::load(&dir)?;
        Ok(Self {
            _lock: lock,
            dir,
            authority,
            trust,
            secret,
            secret_file,
            addresses,
        })
    }

    /// The base that a grid has made on this directory, for the process of one of its sites: nothing is made or changed
    /// but the site's lock.
    pub(crate) fn enter(grid: &Grid, dir: &Path, site: &str) -> Result<Self, GridError> {
        let dir = dir
            .canonicalize()
            .map_err(|_| GridError::NotRunning { dir: dir.to_owned() })?;
        if !dir.join(lock::FILE_NAME).exists() {
            return Err(GridError::NotRunning { dir });
        }
        let folder = lock::site_folder(&dir, site);
        own_folder(folder.parent().unwrap_or(&dir))?;
        own_folder(&folder)?;
        let lock = DirectoryLock::take(&folder)?;
        let secret_file = dir.join("client.secret");
        Ok(Self {
            _lock: lock,
            authority: authority(grid.authority.as_deref().unwrap_or(&dir.join("authority")))?,
            trust: described_trust(&dir.join("trust")),
            secret: secret(&secret_file)?,
            secret_file,
            addresses: Addresses::load(&dir)?,
            dir,
        })
    }

    /// The address that the grid has given a door.
    pub(crate) fn known_address(&self, door: &str) -> Result<SocketAddr, GridError> {
        self.addresses.known(door).ok_or_else(|| GridError::NoAddress {
            dir: self.dir.clone(),
            door: door.to_owned(),
        })
    }

    /// A certificate and key for a door that is reached by this name or address.
    pub(crate) fn identity(&self, door: &str, host: &str) -> Result<Identity, GridError> {
        let mut names = vec![San::from(host)];
        if host == "127.0.0.1" {
            names.push(San::from("localhost"));
        }
        self.authority
            .issue(&names, door)
            .map_err(|error| certificate_error(door, error))
    }

    /// A client that trusts the authorities of the grid.
    pub(crate) fn client(&self) -> Result<Client, GridError> {
        let roots = TrustRoots::file(&self.trust.file);
        Client::new(ClientConfig::new(roots)).map_err(|source| GridError::Start {
            door: "a client".to_owned(),
            source: source.into(),
        })
    }

    /// A file with a password of the grid, made if it is missing.
    pub(crate) fn password(&self, name: &str) -> Result<PathBuf, GridError> {
        let file = self.dir.join(name);
        secret(&file)?;
        Ok(file)
    }

    /// A folder of the grid, made if it is missing.
    pub(crate) fn folder(&self, name: &str) -> Result<PathBuf, GridError> {
        let mut path = self.dir.clone();
        for part in Path::new(name) {
            path.push(part);
            own_folder(&path)?;
        }
        Ok(path)
    }
}

/// Ensures that a folder exists, and belongs to the user alone.
fn own_folder(path: &Path) -> Result<(), GridError> {
    files::own_folder(path).map_err(|source| GridError::Access {
        path: path.to_owned(),
        source,
    })
}

/// Makes a directory fit for a grid: absolute, with mode 0700; made if it is missing.
///
/// A user who puts a secret or a link into it before the grid's first start would have the tokens of the grid, and
/// could redirect its writes. So it must belong to the user of the process, and other users must not have written into
/// it.
///
/// # Errors
/// [`GridError::Foreign`] if it holds something that is no grid, [`GridError::Access`] if it cannot be used, or is not
/// the user's.
pub fn prepare_directory(dir: &Path) -> Result<PathBuf, GridError> {
    let access = |source: io::Error| GridError::Access {
        path: dir.to_owned(),
        source,
    };
    if let Some(parent) = dir.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        fs::create_dir_all(parent).map_err(access)?;
    }
    files::private_folder(dir).map_err(access)?;
    let dir = dir.canonicalize().map_err(access)?;
    let known = dir.join(lock::FILE_NAME).exists();
    let foreign = fs::read_dir(&dir)
        .map_err(access)?
        .filter_map(Result::ok)
        .any(|entry| entry.file_name() != LOG_NAME);
    if foreign && !known {
        return Err(GridError::Foreign { dir });
    }
    fs::set_permissions(&dir, Permissions::from_mode(0o700)).map_err(access)?;
    Ok(dir)
}

fn authority(folder: &Path) -> Result<CertificateAuthority, GridError> {
    own_folder(folder)?;
    let made = folder.join("ca.key").exists();
    let outcome = if made {
        CertificateAuthority::load(folder)
    } else {
        CertificateAuthority::create(folder)
    };
    outcome.map_err(|error| certificate_error("the certificate authority", error))
}

/// Collects the authorities that the grid's services and clients trust: our own, and those of external endpoints.
fn trust(grid: &Grid, authority: &CertificateAuthority, folder: &Path) -> Result<CaDescription, GridError> {
    let mut sources = vec![authority.file()];
    let of_storages = grid.rses.iter().flat_map(|rse| external_authorities(&rse.kind));
    let of_service = grid.transfer_service.iter().map(|service| service.ca.clone());
    let of_issuer = match &grid.issuer {
        GridIssuer::External(issuer) => Some(issuer.ca.clone()),
        GridIssuer::Embedded(_) => None,
    };
    let of_catalog = grid.catalog.iter().filter_map(|catalog| catalog.service.as_ref());
    let of_catalog = of_catalog.map(|service| service.ca.clone());
    for ca in of_storages.chain(of_service).chain(of_issuer).chain(of_catalog) {
        match ca {
            Some(file) => sources.push(file),
            None => sources.extend(SYSTEM_AUTHORITIES.iter().map(PathBuf::from).find(|file| file.exists())),
        }
    }
    sources.extend(grid.broker.iter().filter_map(|broker| broker.ca.clone()));
    sources.sort();
    sources.dedup();
    // Rebuilt at each start: an endpoint that left the grid file is no longer trusted.
    let access = |path: &Path| {
        let path = path.to_owned();
        move |source| GridError::Access { path, source }
    };
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(access(folder))?;
    }
    let CaDescription { file, directory } = described_trust(folder);
    let paths: Vec<&Path> = sources.iter().map(PathBuf::as_path).collect();
    hashed_directory(&directory, &paths).map_err(|error| certificate_error("the trusted authorities", error))?;
    let mut all = String::new();
    for source in &sources {
        all += &fs::read_to_string(source).map_err(access(source))?;
        all.push('\n');
    }
    fs::write(&file, all).map_err(access(&file))?;
    Ok(CaDescription { file, directory })
}

/// The files with the authorities that a grid trusts.
fn described_trust(folder: &Path) -> CaDescription {
    CaDescription {
        file: folder.join("ca.pem"),
        directory: folder.join("certificates"),
    }
}

/// The authorities of an external endpoint and of its token issuer; an inner `None` stands for the system's own.
fn external_authorities(kind: &RseKind) -> Vec<Option<PathBuf>> {
    match kind {
        RseKind::Embedded { .. } => Vec::new(),
        RseKind::External {
            ca,
            token: TokenFrom::Issuer { ca: issuer_ca, .. },
            ..
        } => {
            vec![ca.clone(), issuer_ca.clone()]
        }
        RseKind::External { ca, .. } => vec![ca.clone()],
    }
}

/// A secret in a file: 244 random bits, made once.
fn secret(file: &Path) -> Result<Secret, GridError> {
    let access = |source| GridError::Access {
        path: file.to_owned(),
        source,
    };
    if !file.exists() {
        let secret = Secret::new(format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple()));
        files::write_private(file, secret.expose().as_bytes()).map_err(access)?;
    }
    Secret::read(file).map_err(access)
}

fn certificate_error(door: &str, error: CaError) -> GridError {
    GridError::Start {
        door: door.to_owned(),
        source: error.into(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn grid() -> Grid {
        Grid::parse("name = \"g\"\n[[rse]]\nname = \"ALPHA\"\n", "g.toml".as_ref()).unwrap()
    }

    #[test]
    fn a_second_start_finds_what_the_first_made() {
        let scratch = tempfile::tempdir().unwrap();
        let dir = scratch.path().join("grid");
        let first = Ground::lay(&grid(), &dir).unwrap();
        let before = (first.authority.pem().to_owned(), first.secret.expose().to_owned());
        assert!(matches!(Ground::lay(&grid(), &dir), Err(GridError::Taken { .. })));
        drop(first);
        let second = Ground::lay(&grid(), &dir).unwrap();
        assert_eq!(
            (second.authority.pem().to_owned(), second.secret.expose().to_owned()),
            before
        );
        assert_eq!(fs::metadata(&dir).unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(
            fs::metadata(&second.secret_file).unwrap().permissions().mode() & 0o777,
            0o600
        );
        assert_eq!(fs::read_dir(&second.trust.directory).unwrap().count(), 1);
    }

    #[test]
    fn a_directory_with_other_things_is_left_alone() {
        // A wrong argument would change the mode of a user's home directory and put files into it.
        let scratch = tempfile::tempdir().unwrap();
        fs::write(scratch.path().join("thesis.tex"), "").unwrap();
        assert!(matches!(
            Ground::lay(&grid(), scratch.path()),
            Err(GridError::Foreign { .. })
        ));
        assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 1);
    }
}
