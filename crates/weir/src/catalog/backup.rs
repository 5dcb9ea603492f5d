//! `weir catalog backup` and `restore`.

use serde::Serialize;

use crate::cli::{CatalogBackupArguments, CatalogRestoreArguments};
use crate::failure::{Exit, Failure};
use crate::output::Output;

#[derive(Serialize)]
struct Copied {
    bytes: u64,
}

pub(super) fn backup(arguments: &CatalogBackupArguments, output: &Output) -> Result<Exit, Failure> {
    let bytes = weir_catalog::backup::save(&arguments.store, &arguments.copy).map_err(failure)?;
    output.line(format!("{} bytes are in {}", bytes, arguments.copy.display()));
    output.done(&Copied { bytes });
    Ok(Exit::Done)
}

pub(super) fn restore(arguments: &CatalogRestoreArguments, output: &Output) -> Result<Exit, Failure> {
    let bytes = weir_catalog::backup::restore(&arguments.copy, &arguments.store, arguments.replace).map_err(failure)?;
    output.line(format!(
        "{} is as its copy was; start the catalogue",
        arguments.store.display()
    ));
    output.done(&Copied { bytes });
    Ok(Exit::Done)
}

fn failure(error: weir_catalog::backup::BackupError) -> Failure {
    use weir_catalog::backup::BackupError;
    let remedy = match &error {
        BackupError::Exists { .. } => "name another file, or use --replace with restore",
        BackupError::NoCatalog { .. } => {
            "name the file that `store` of the catalogue's configuration names, or a copy of it"
        }
        BackupError::Served { .. } => "stop the catalogue first",
        BackupError::Access { .. } | BackupError::Copy { .. } => return Failure::could_not_run(error),
    };
    Failure::bad_input(error).with_remedy(remedy)
}
