//! The owner of a path: a path of an RSE belongs to one file.

use weir_database::{Row, Session, values};
use weir_model::{RseName, catalog::Did};
use weir_rules::ids::RseId;
use weir_store::StoreError;

use crate::{
    paths,
    rses::areas::{self, Overlap},
};

/// A file that has a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// The file.
    pub did: Did,
    /// The RSE through which it has the path, where that is another one.
    pub rse: Option<RseName>,
}

impl std::fmt::Display for Holder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.rse {
            None => write!(f, "{}", self.did),
            Some(rse) => write!(f, "{} at {rse}, which shares the folder", self.did),
        }
    }
}

/// The folders of an RSE: its own, and those of RSEs that share its storage.
#[derive(Debug)]
pub struct Folders {
    pub(super) rse: RseId,
    pub(super) overlaps: Vec<Overlap>,
}

impl Folders {
    /// Reads the folders of an RSE.
    ///
    /// # Errors
    /// Here and below: the database fails.
    pub fn of(session: &mut dyn Session, rse: RseId) -> Result<Self, StoreError> {
        let overlaps = areas::overlaps(session, rse)?;
        Ok(Self { rse, overlaps })
    }

    /// Whether no other RSE shares the storage.
    pub fn is_alone(&self) -> bool {
        self.overlaps.is_empty()
    }

    /// The RSE whose folder lies in this one's and holds the path, if there is one.
    pub fn inner(&self, path: &str) -> Option<&RseName> {
        let inner = self
            .overlaps
            .iter()
            .find(|other| other.is_inside() && other.path(path).is_some());
        inner.map(|other| &other.name)
    }

    /// A file other than `did` that has the path, or the same one through another RSE.
    pub fn holder(&self, session: &mut dyn Session, did: &Did, path: &str) -> Result<Option<Holder>, StoreError> {
        if let Some(holder) = here(session, self.rse, path, Some(did))? {
            return Ok(Some(Holder { did: holder, rse: None }));
        }
        for other in &self.overlaps {
            let Some(path) = other.path(path) else { continue };
            if let Some(holder) = here(session, other.rse, &path, None)? {
                return Ok(Some(Holder {
                    did: holder,
                    rse: Some(other.name.clone()),
                }));
            }
        }
        Ok(None)
    }
}

/// Finds a file other than `but` that has a path at an RSE: it was registered with the path, or the path follows from its DID.
fn here(session: &mut dyn Session, rse: RseId, path: &str, but: Option<&Did>) -> Result<Option<Did>, StoreError> {
    let text = "SELECT d.scope, d.name FROM replicas p JOIN dids d ON d.did_id = p.did_id WHERE p.rse_id = $1 AND p.path = $2 LIMIT 2";
    let did = |row: &Row| {
        Ok::<_, StoreError>(Did {
            scope: row.parsed(0)?,
            name: row.parsed(1)?,
        })
    };
    for row in session.query(text, &values![rse.0, path])? {
        let did = did(&row)?;
        if Some(&did) != but {
            return Ok(Some(did));
        }
    }
    for did in paths::dids_of(path).into_iter().filter(|did| Some(did) != but) {
        let text = "SELECT 1 FROM replicas p JOIN dids d ON d.did_id = p.did_id WHERE d.scope = $1 AND d.name = $2 AND p.rse_id = $3
            AND p.path IS NULL";
        if session
            .row(text, &values![did.scope.as_str(), did.name.as_str(), rse.0])?
            .is_some()
        {
            return Ok(Some(did));
        }
    }
    Ok(None)
}
