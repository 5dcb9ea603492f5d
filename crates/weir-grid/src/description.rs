//! `grid.json`: the data that a client needs about a running grid. It appears when the grid is ready and goes when it
//! stops; a killed grid leaves it behind, for the next start to remove.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::GridError;

/// Name of the description in the grid's directory.
pub const FILE_NAME: &str = "grid.json";

/// Version of the description, its `schema` key.
pub const SCHEMA: &str = "weir-grid/1";

/// A running grid, as `grid.json` tells it. Holds no secret, only the files where secrets are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GridDescription {
    /// `weir-grid/1`.
    pub schema: String,
    /// Name of the grid, from its file.
    pub name: String,
    /// The VO its tokens are for.
    pub vo: String,
    /// Process that runs it.
    pub pid: u32,
    /// Version of Weir that runs it.
    pub version: String,
    /// The process of each site with embedded RSEs, if they have their own; in the order of the grid file. Kept true within a second.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub processes: Vec<ProcessDescription>,
    /// The token issuer.
    pub issuer: DoorDescription,
    /// The transfer service (FTS3 REST).
    pub transfer: DoorDescription,
    /// The catalogue (Rucio REST), if the grid has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub catalog: Option<CatalogDescription>,
    /// The storage endpoints, in the order of the grid file.
    pub rses: Vec<RseDescription>,
    /// The authorities that clients must trust.
    pub ca: CaDescription,
    /// The client that may ask the issuer for tokens.
    pub client: ClientDescription,
    /// The user with a certificate that every embedded door takes. A grid that an earlier version runs has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<UserDescription>,
    /// File with a token for every door of the grid, for tools that take one; may have expired.
    pub token_file: PathBuf,
}

/// The process that runs the storages of one site.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessDescription {
    /// The site.
    pub site: String,
    /// The process; none if it has ended.
    pub pid: Option<u32>,
}

/// A service of the grid.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DoorDescription {
    /// Where it answers; without a slash at the end.
    pub url: String,
    /// Whether it runs with the grid.
    #[serde(default)]
    pub kind: KindDescription,
}

/// The catalogue of the grid.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CatalogDescription {
    /// Where it answers; without a slash at the end.
    pub url: String,
    /// The user name of its account `root`.
    pub user: String,
    /// File with the password, mode 0600.
    pub password_file: PathBuf,
}

/// A storage endpoint of the grid.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RseDescription {
    /// Name of the RSE.
    pub name: String,
    /// The site it stands at.
    pub site: String,
    /// Where it answers; without a slash at the end.
    pub url: String,
    /// Ours or not.
    pub kind: KindDescription,
    /// The audience its tokens must have.
    pub audience: String,
    /// Where the grid keeps its files; none for an external one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub area: Option<PathBuf>,
}

/// The operator of a storage endpoint or a service.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KindDescription {
    /// This grid.
    #[default]
    Embedded,
    /// Another operator.
    External,
}

impl KindDescription {
    /// Embedded or not.
    pub(crate) fn of(is_embedded: bool) -> Self {
        if is_embedded { Self::Embedded } else { Self::External }
    }
}

/// Certificate authorities of the grid: its own and those of its external endpoints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaDescription {
    /// One PEM file with all of them.
    pub file: PathBuf,
    /// A directory with hashed names, as OpenSSL looks them up.
    pub directory: PathBuf,
}

/// Credentials at the issuer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientDescription {
    /// Client id.
    pub id: String,
    /// File with the client secret, mode 0600.
    pub secret_file: PathBuf,
    /// Where it gets tokens. A grid that an earlier version runs does not say: `/token` of its issuer.
    #[serde(default)]
    pub token_url: Option<String>,
}

/// A user with a certificate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserDescription {
    /// Name of the certificate, in slash form.
    pub dn: String,
    /// The certificate, in PEM.
    pub certificate: PathBuf,
    /// Its key, in PEM, mode 0600.
    pub key: PathBuf,
    /// Both in one file, mode 0600.
    pub both: PathBuf,
}

impl GridDescription {
    /// Where the client gets tokens.
    pub fn token_url(&self) -> String {
        let known = self.client.token_url.clone();
        known.unwrap_or_else(|| format!("{}/token", self.issuer.url))
    }

    /// Reads the description of the grid that runs on this directory.
    ///
    /// # Errors
    /// [`GridError::NotRunning`] if there is none; [`GridError::Description`] if it cannot be understood.
    pub fn read(dir: &Path) -> Result<Self, GridError> {
        let path = dir.join(FILE_NAME);
        let text = match weir_auth::files::read_own(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(GridError::NotRunning { dir: dir.to_owned() });
            }
            Err(source) => return Err(GridError::Access { path, source }),
        };
        let description: Self = serde_json::from_str(&text).map_err(|source| GridError::Description {
            path: path.clone(),
            message: source.to_string(),
        })?;
        if description.schema == SCHEMA {
            Ok(description)
        } else {
            let message = format!("its schema is {}, not {SCHEMA}", description.schema);
            Err(GridError::Description { path, message })
        }
    }

    /// Writes the description: a reader finds all of it or none.
    pub(crate) fn write(&self, dir: &Path) -> Result<(), GridError> {
        let path = dir.join(FILE_NAME);
        let mut text = serde_json::to_vec_pretty(self).expect("plain data can be written as JSON");
        text.push(b'\n');
        weir_auth::files::write_private(&path, &text).map_err(|source| GridError::Access { path, source })
    }

    /// Takes the description away: the grid is no longer ready.
    pub(crate) fn remove(dir: &Path) -> Result<(), GridError> {
        let path = dir.join(FILE_NAME);
        match fs::remove_file(&path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => Err(GridError::Access { path, source }),
            _ => Ok(()),
        }
    }
}

/// `https://host:port` of a URL: the audience that tokens for a storage carry.
pub fn origin(url: &str) -> &str {
    let host = url.find("://").map_or(0, |scheme| scheme + 3);
    url[host..].find('/').map_or(url, |path| &url[..host + path])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_audience_of_a_storage_is_its_origin() {
        assert_eq!(origin("https://127.0.1.1:4000"), "https://127.0.1.1:4000");
        assert_eq!(
            origin("https://xrootd.example:1094/data/vo"),
            "https://xrootd.example:1094"
        );
    }
}
