//! Looks for wrong paths among the replicas that earlier versions registered.

use std::collections::BTreeMap;

use weir_database::{Row, Session};
use weir_model::{RseName, catalog::Did};
use weir_store::StoreError;

use crate::{
    paths,
    pfn::{self, PathError},
    rses::{self, areas},
};

/// A finding, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// Several files have one path.
    Double {
        /// Where.
        rse: RseName,
        /// The path below the RSE's prefix.
        path: String,
        /// The files, two or more.
        files: Vec<Did>,
    },
    /// A path is not in normal form, and may lead out of the RSE's folder.
    Path {
        /// Where.
        rse: RseName,
        /// The file.
        file: Did,
        /// Its path.
        path: String,
        /// The rule that it breaks.
        error: PathError,
    },
    /// Two RSEs have one folder, or the folder of one lies in that of the other.
    Overlap(RseName, RseName),
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Double { rse, path, files } => {
                let files = files.iter().map(Did::to_string).collect::<Vec<_>>().join(", ");
                write!(
                    f,
                    "{rse}: {files} have one path, {path}: the file is not deleted while more than one of them is there"
                )
            }
            Self::Path { rse, file, path, error } => {
                let path = path.escape_debug();
                write!(
                    f,
                    "{rse}: the path of {file}, {path}, {error}: it is neither read nor deleted"
                )
            }
            Self::Overlap(one, other) => write!(f, "{one} and {other} share a folder: a file there has a path at both"),
        }
    }
}

/// Looks at the paths of all replicas: doubles, then paths that lead elsewhere, then RSEs that share a folder.
///
/// # Errors
/// The database fails.
pub fn paths(session: &mut dyn Session) -> Result<Vec<Finding>, StoreError> {
    let mut found = doubles(session)?;
    let text = "SELECT r.name, p.path, d.scope, d.name, p.did_id, p.rse_id FROM replicas p JOIN rses r ON r.rse_id = p.rse_id
        JOIN dids d ON d.did_id = p.did_id WHERE p.path IS NOT NULL AND (p.rse_id > $1 OR (p.rse_id = $1 AND p.did_id > $2))
        ORDER BY p.rse_id, p.did_id LIMIT 10000";
    let mut after = (0_u64, 0_u64);
    loop {
        let rows = session.query(text, &weir_database::values![after.0, after.1])?;
        let Some(last) = rows.last() else { break };
        after = (last.size(5)?, last.size(4)?);
        for row in &rows {
            let (path, file) = (row.text(1)?, did(row, 2)?);
            if let Err(error) = pfn::normal(path)
                && path != paths::hashed(&file)
            {
                let (rse, path) = (row.parsed(0)?, path.to_owned());
                found.push(Finding::Path { rse, file, path, error });
            }
        }
    }
    for described in rses::list(session)? {
        let rse = &described.rse;
        let overlaps = areas::overlaps(session, rse.id)?
            .into_iter()
            .filter(|other| other.rse > rse.id);
        let mut others = overlaps.map(|other| other.name).collect::<Vec<_>>();
        others.dedup();
        found.extend(
            others
                .into_iter()
                .map(|other| Finding::Overlap(rse.name.clone(), other)),
        );
    }
    Ok(found)
}

fn doubles(session: &mut dyn Session) -> Result<Vec<Finding>, StoreError> {
    let text = "SELECT r.name, p.path, d.scope, d.name FROM replicas p JOIN rses r ON r.rse_id = p.rse_id JOIN dids d ON d.did_id = p.did_id
        WHERE (p.rse_id, p.path) IN (SELECT rse_id, path FROM replicas WHERE path IS NOT NULL GROUP BY rse_id, path HAVING count(*) > 1)
        ORDER BY p.did_id";
    let mut doubles = BTreeMap::<(RseName, String), Vec<Did>>::new();
    for row in session.query(text, &[])? {
        let at = (row.parsed(0)?, row.text(1)?.to_owned());
        doubles.entry(at).or_default().push(did(&row, 2)?);
    }
    let double = |((rse, path), files)| Finding::Double { rse, path, files };
    Ok(doubles.into_iter().map(double).collect())
}

fn did(row: &Row, column: usize) -> Result<Did, StoreError> {
    Ok(Did {
        scope: row.parsed(column)?,
        name: row.parsed(column + 1)?,
    })
}
