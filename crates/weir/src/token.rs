//! Where a token is found: WLCG's bearer token discovery (<https://doi.org/10.5281/zenodo.3937438>).

use std::{
    fs::File,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use anyhow::Context;
use weir_auth::{
    Secret,
    files::{open_own, read_own},
};

use crate::failure::Failure;

/// The token of a file, or the one that the environment holds: `BEARER_TOKEN`, the file of `BEARER_TOKEN_FILE`,
/// `$XDG_RUNTIME_DIR/bt_u$UID`, `/tmp/bt_u$UID`; `None` where there is none.
pub(crate) fn look(file: Option<&Path>) -> Result<Option<Secret>, Failure> {
    if let Some(file) = file {
        return Ok(Some(read(file)?));
    }
    if let Some(token) = std::env::var("BEARER_TOKEN")
        .ok()
        .filter(|token| !token.trim().is_empty())
    {
        return Ok(Some(Secret::new(token.trim())));
    }
    if let Some(file) = std::env::var_os("BEARER_TOKEN_FILE").filter(|file| !file.is_empty()) {
        return Ok(Some(read(Path::new(&file))?));
    }
    let name = format!("bt_u{}", rustix::process::geteuid().as_raw());
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    for folder in runtime.into_iter().chain([PathBuf::from("/tmp")]) {
        let file = folder.join(&name);
        if file.symlink_metadata().is_ok() {
            return Ok(Some(discovered(&file)?));
        }
    }
    Ok(None)
}

/// The token of a file that was found, not named, in a folder where any user may create one. With another user's token,
/// uploads and jobs would belong to that user.
fn discovered(file: &Path) -> Result<Secret, Failure> {
    let refused = |error: anyhow::Error| {
        Failure::bad_input(error.context(format!("the token {} is not used", file.display()))).with_remedy(
            "remove the file if it is not yours, or name your token with --token-file or BEARER_TOKEN_FILE",
        )
    };
    let opened = open_own(file, File::options().read(true)).map_err(|error| refused(error.into()))?;
    let metadata = opened.metadata().map_err(|error| refused(error.into()))?;
    let mode = metadata.mode() & 0o777;
    let user = rustix::process::geteuid().as_raw();
    if metadata.uid() != user {
        return Err(refused(anyhow::anyhow!(
            "it belongs to user {}, not to user {user}",
            metadata.uid()
        )));
    }
    if mode & 0o077 != 0 {
        return Err(refused(anyhow::anyhow!(
            "others than its owner may use it: its mode is {mode:04o}, not 0600"
        )));
    }
    Ok(read(file)?)
}

/// The same, where nothing can be done without one.
pub(crate) fn find(file: Option<&Path>) -> Result<Secret, Failure> {
    look(file)?.ok_or_else(|| {
        let error = anyhow::anyhow!("there is no token");
        Failure::bad_input(error).with_remedy("name one with --token-file, BEARER_TOKEN_FILE or BEARER_TOKEN")
    })
}

/// The token that a file holds.
pub(crate) fn read(file: &Path) -> anyhow::Result<Secret> {
    let text = read_own(file).with_context(|| format!("could not read the token {}", file.display()))?;
    let token = text.trim();
    anyhow::ensure!(!token.is_empty(), "the token file {} is empty", file.display());
    Ok(Secret::new(token))
}
