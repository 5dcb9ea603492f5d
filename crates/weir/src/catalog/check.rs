//! `weir catalog check`.

use serde::Serialize;
use weir_catalog::{Catalog, CatalogConfig, OpenError, StartError};
use weir_service::config;

use crate::cli::CatalogCheckArguments;
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::serve::bad_file;

#[derive(Serialize)]
struct CatalogChecked {
    findings: Vec<String>,
}

pub(super) async fn run(arguments: &CatalogCheckArguments, output: &Output) -> Result<Exit, Failure> {
    let file = &arguments.config;
    let config = config::load::<CatalogConfig>(file).map_err(|error| bad_file(file, error))?;
    let found = Catalog::check_paths(&config).await.map_err(failure)?;
    let findings = found.iter().map(ToString::to_string).collect::<Vec<_>>();
    for finding in &findings {
        output.line(finding);
    }
    if findings.is_empty() {
        output.line("every path belongs to one file, and lies in the folder of its RSE");
    }
    let exit = if findings.is_empty() {
        Exit::Done
    } else {
        Exit::VerdictFail
    };
    output.done(&CatalogChecked { findings });
    Ok(exit)
}

fn failure(error: StartError) -> Failure {
    let is_served = matches!(
        &error,
        StartError::Own(OpenError::Store(weir_store::StoreError::Locked { .. }))
    );
    let failure = Failure::could_not_run(error);
    if is_served {
        failure.with_remedy("stop the catalogue first, or check a copy: weir catalog backup")
    } else {
        failure
    }
}
