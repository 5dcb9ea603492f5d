//! The grid's user with a certificate, for programs without token support: its identity and its rights at the doors.

use std::fs;
use std::path::PathBuf;

use weir_auth::ca::write_identity;
use weir_auth::x509::DoorConfig;
use weir_auth::{Rule, StorageAction, files};
use weir_model::Grid;

use crate::ground::Ground;
use crate::{GridError, UserDescription};

/// The account of the user in the grid-mapfile, which the doors take for the grid's VO.
const ACCOUNT: &str = "user";

/// Where the user's files are, below the grid's directory.
const FOLDER: &str = "user";

/// The user's rights at storages: those of the token file.
const RIGHTS: [StorageAction; 4] = [
    StorageAction::Read,
    StorageAction::Create,
    StorageAction::Modify,
    StorageAction::Stage,
];

/// The name in the certificate.
fn name_of(grid: &Grid) -> String {
    format!("{} user", grid.name)
}

/// The user, and the files in which doors find the accepted users.
#[derive(Debug)]
pub(crate) struct User {
    pub(crate) description: UserDescription,
    vo: String,
    authorities: PathBuf,
    gridmap: PathBuf,
}

impl User {
    /// Makes a key (RSA: the clients of FTS take no other) and a certificate, and the grid-mapfile that names it.
    pub(crate) fn make(grid: &Grid, ground: &Ground) -> Result<Self, GridError> {
        let failed = |error: weir_auth::ca::CaError| GridError::Start {
            door: "the certificate of the user".to_owned(),
            source: error.into(),
        };
        let access = |path: &PathBuf| {
            let path = path.clone();
            move |source| GridError::Access { path, source }
        };
        let folder = ground.folder(FOLDER)?;
        let user = Self::known(grid, ground);
        let identity = ground.authority.issue_user(&name_of(grid)).map_err(failed)?;
        write_identity(&identity, &folder, "user").map_err(failed)?;
        // Some programs read one file only: Rucio's `usercert`, curl.
        let both = &user.description.both;
        let content = identity.chain_pem + &identity.key_pem;
        files::write_private(both, content.as_bytes()).map_err(access(both))?;
        let dn = &user.description.dn;
        fs::write(&user.gridmap, format!("\"{dn}\" {ACCOUNT}\n")).map_err(access(&user.gridmap))?;
        // The grid's own authority alone: those of external endpoints certify servers.
        if !user.authorities.exists() {
            fs::create_dir(&user.authorities).map_err(access(&user.authorities))?;
        }
        let authority = user.authorities.join("grid.pem");
        fs::write(&authority, ground.authority.pem()).map_err(access(&authority))?;
        Ok(user)
    }

    /// The user that [`Self::make`] has made before.
    pub(crate) fn known(grid: &Grid, ground: &Ground) -> Self {
        let folder = ground.dir.join(FOLDER);
        Self {
            description: UserDescription {
                dn: format!("/O=Weir/CN={}", name_of(grid)),
                certificate: folder.join("user.pem"),
                key: folder.join("user.key"),
                both: folder.join("both.pem"),
            },
            vo: grid.vo.to_string(),
            authorities: folder.join("authorities"),
            gridmap: folder.join("grid-mapfile"),
        }
    }

    /// How a door knows the user.
    pub(crate) fn door(&self) -> DoorConfig {
        DoorConfig {
            gridmap: Some(self.gridmap.clone()),
            accounts: [(ACCOUNT.to_owned(), self.vo.clone())].into(),
            ..DoorConfig::new(&self.authorities)
        }
    }

    /// The user's rights at a storage.
    pub(crate) fn rule(&self) -> Rule {
        Rule {
            dn: Some(self.description.dn.clone()),
            may: RIGHTS.to_vec(),
            ..Rule::default()
        }
    }
}
