//! `weir serve storage --check`: checks the surroundings of an endpoint's configuration. Nothing is made or changed.

use weir_service::check::{Check, Outcome, Surroundings, folder, mounted, parent};
use weir_service::config::ConfigError;
use weir_storage::{AreaConfig, StorageConfig, separate};

use super::files::{own_key, x509};

/// Looks at everything that the configuration names.
pub(super) async fn check(config: &StorageConfig) -> Vec<Check> {
    let mut checks = surroundings(config).check().await;
    checks.extend(config.areas.iter().flat_map(area));
    if let Err(error) = separate(&config.areas) {
        checks.push(Check::new("areas", overlapping(&error)));
    }
    if let Some(path) = &config.access_log {
        checks.push(Check::new("access_log", parent(path)));
    }
    checks.extend(config.tokens.iter().map(|tokens| own_key("tokens.key", &tokens.key)));
    checks.extend(config.x509.iter().map(x509));
    checks
}

/// The parts of the endpoint's configuration that the common checks read.
pub(super) fn surroundings(config: &StorageConfig) -> Surroundings<'_> {
    Surroundings {
        listen: config.listen,
        url: config.url.as_deref(),
        tls: config.tls.as_ref(),
        trust: Some(&config.trust),
        issuers: config.issuers.iter().map(|issuer| issuer.url.as_str()).collect(),
    }
}

fn area(area: &AreaConfig) -> Vec<Check> {
    let mut checks = Vec::new();
    if let Some(mount) = &area.mount {
        let shown = mount.display();
        let outcome = match mounted(mount) {
            Ok(true) => Outcome::ok(format!("{shown} is mounted")),
            Ok(false) => Outcome::failed(format!("nothing is mounted at {shown}"), format!("mount {shown}")),
            Err(error) => Outcome::failed(
                format!("could not look at {shown}: {error}"),
                format!("make {shown} and mount it"),
            ),
        };
        checks.push(Check::new(format!("area {} mount", area.name), outcome));
    }
    checks.push(Check::new(format!("area {} root", area.name), root(area)));
    checks
}

fn root(area: &AreaConfig) -> Outcome {
    if area.create_root && !area.root.exists() {
        let above = area.root.ancestors().skip(1).find(|above| above.exists());
        let Some(above) = above else {
            return Outcome::failed("no directory above it is there", "correct the path");
        };
        return match folder(above, "") {
            Outcome::Ok { .. } => Outcome::ok(format!("{} will be made", area.root.display())),
            other => other,
        };
    }
    if area.read_only && area.root.is_dir() {
        return Outcome::ok(format!("{} is there; the area is read-only", area.root.display()));
    }
    let outcome = folder(
        &area.root,
        "mount its disk, make it, or set create_root = true in [[area]]",
    );
    if outcome.has_failed() || area.mount.is_some() || !lies_on_the_system(area) {
        return outcome;
    }
    Outcome::warning(
        format!("{} lies on the file system of /", area.root.display()),
        "if a disk of its own should be there, mount it, and name its mount point with mount in [[area]]",
    )
}

/// Whether the root is on the file system on which the system is.
fn lies_on_the_system(area: &AreaConfig) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let device = |path: &std::path::Path| std::fs::metadata(path).ok().map(|metadata| metadata.dev());
    device(&area.root).is_some() && device(&area.root) == device("/".as_ref())
}

fn overlapping(error: &ConfigError) -> Outcome {
    Outcome::failed(
        error.to_string(),
        "give each area a directory of its own, outside of the others",
    )
}
