//! `weir grid env`: shell exports that point other people's programs to a running grid.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context;
use weir_auth::Secret;
use weir_grid::{CatalogDescription, GridDescription, GridError};

use crate::cli::GridEnvArguments;
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::shell::quoted;

/// gfal2's configuration as distributions ship it.
const GFAL_CONFIGURATION: &str = "/etc/gfal2.d";

/// The system's Python, which has gfal's bindings; another one first in PATH has not.
const GFAL_PYTHON: &str = "/usr/bin/python3";

/// Gets a fresh token into the token file and prints the exports.
pub(super) fn run(arguments: &GridEnvArguments, output: &Output) -> Result<Exit, Failure> {
    let grid = super::running_grid(&arguments.dir)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("could not start")?;
    let (token_file, token) = runtime
        .block_on(token(&grid, arguments.operator))
        .map_err(super::failure)?;
    let mut exports = exports(&grid);
    exports.insert("BEARER_TOKEN_FILE".to_string(), text(&token_file));
    if let Some(configuration) = gfal_configuration(&arguments.dir)? {
        exports.insert("GFAL_CONFIG_DIR".to_string(), text(&configuration));
        exports.insert("GFAL_PYTHONBIN".to_string(), GFAL_PYTHON.to_string());
    }
    if let Some(catalog) = &grid.catalog {
        let file = rucio_configuration(&arguments.dir, catalog, &grid.ca.file)?;
        exports.insert("RUCIO_CONFIG".to_string(), text(&file));
        exports.insert("WEIR_CATALOG".to_string(), catalog.url.clone());
    }
    if arguments.show_token {
        exports.insert("BEARER_TOKEN".to_string(), token.expose().to_string());
    }
    for (name, value) in &exports {
        output.line(format!("export {name}={}", quoted(value)));
    }
    output.done(&exports);
    Ok(Exit::Done)
}

async fn token(grid: &GridDescription, operator: bool) -> Result<(PathBuf, Secret), GridError> {
    if operator {
        return weir_grid::operator_token(grid).await;
    }
    Ok((grid.token_file.clone(), weir_grid::renew_token_file(grid).await?))
}

fn exports(grid: &GridDescription) -> BTreeMap<String, String> {
    let authority = text(&grid.ca.file);
    let mut exports = BTreeMap::from([
        ("CURL_CA_BUNDLE".to_string(), authority.clone()),
        ("FTS_ENDPOINT".to_string(), grid.transfer.url.clone()),
        ("REQUESTS_CA_BUNDLE".to_string(), authority.clone()),
        ("WEIR_CA_FILE".to_string(), authority),
        ("WEIR_CLIENT_ID".to_string(), grid.client.id.clone()),
        ("WEIR_CLIENT_SECRET_FILE".to_string(), text(&grid.client.secret_file)),
        ("WEIR_ISSUER".to_string(), grid.issuer.url.clone()),
        ("X509_CERT_DIR".to_string(), text(&grid.ca.directory)),
    ]);
    if let Some(user) = &grid.user {
        for (name, file) in [
            ("X509_USER_CERT", &user.certificate),
            ("X509_USER_KEY", &user.key),
            ("WEIR_USER_PEM", &user.both),
        ] {
            exports.insert(name.to_string(), text(file));
        }
    }
    for rse in &grid.rses {
        exports.insert(format!("WEIR_RSE_{}", weir_model::variable(&rse.name)), rse.url.clone());
    }
    exports
}

/// gfal2's configuration with one change: tokens are taken as they are, not traded for macaroons first.
///
/// None where gfal2 is not installed.
fn gfal_configuration(dir: &Path) -> Result<Option<PathBuf>, Failure> {
    let Ok(originals) = std::fs::read_dir(GFAL_CONFIGURATION) else {
        return Ok(None);
    };
    let copy = std::path::absolute(dir.join("gfal2.d")).context("could not find the grid's directory")?;
    std::fs::create_dir_all(&copy).with_context(|| format!("could not make {}", copy.display()))?;
    for original in originals.filter_map(Result::ok) {
        let content = std::fs::read_to_string(original.path())
            .with_context(|| format!("could not read {}", original.path().display()))?;
        let content = content.replace("RETRIEVE_BEARER_TOKEN=true", "RETRIEVE_BEARER_TOKEN=false");
        let to = copy.join(original.file_name());
        std::fs::write(&to, content).with_context(|| format!("could not write {}", to.display()))?;
    }
    Ok(Some(copy))
}

/// The configuration of Rucio's client for the account `root`. The client takes the token of `BEARER_TOKEN_FILE`, with
/// which it also uploads; by user name and password it would look for a proxy certificate. Weir's own commands log in
/// by password, which only its owner can read.
fn rucio_configuration(dir: &Path, catalog: &CatalogDescription, authorities: &Path) -> Result<PathBuf, Failure> {
    let folder = std::path::absolute(dir.join("rucio")).context("could not find the grid's directory")?;
    std::fs::create_dir_all(&folder).with_context(|| format!("could not make {}", folder.display()))?;
    let password = Secret::read(&catalog.password_file)
        .with_context(|| format!("could not read {}", catalog.password_file.display()))?;
    let content = format!(
        "[client]\nrucio_host = {url}\nauth_host = {url}\nauth_type = oidc\nusername = {user}\npassword = {password}\n\
         account = root\nca_cert = {ca}\nauth_token_file_path = {token}\n",
        url = catalog.url,
        user = catalog.user,
        password = password.expose(),
        ca = authorities.display(),
        token = folder.join("token").display(),
    );
    let file = folder.join("rucio.cfg");
    let written = weir_auth::files::write_private(&file, content.as_bytes());
    written.with_context(|| format!("could not write {}", file.display()))?;
    Ok(file)
}

fn text(path: &Path) -> String {
    path.display().to_string()
}
