//! `weir authority …`: a certificate authority of a laboratory's own, where a machine has none.

use std::path::{Path, PathBuf};

use anyhow::anyhow;
use serde::Serialize;
use weir_auth::ca::{CaError, CertificateAuthority, San, write_identity};

use crate::cli::{AuthorityCommand, AuthorityHostArguments, AuthorityNewArguments, AuthorityUserArguments};
use crate::failure::{Exit, Failure};
use crate::output::Output;

/// Runs the command.
pub(crate) fn run(command: AuthorityCommand, output: &Output) -> Result<Exit, Failure> {
    match command {
        AuthorityCommand::New(arguments) => new(&arguments, output),
        AuthorityCommand::Host(arguments) => host(&arguments, output),
        AuthorityCommand::User(arguments) => user(&arguments, output),
    }
}

#[derive(Serialize)]
struct Made<'a> {
    /// The certificate, in PEM.
    certificate: &'a Path,
    /// The key, in PEM, mode 0600.
    key: &'a Path,
    /// Until when it is good, in days from now.
    days: u64,
}

fn new(arguments: &AuthorityNewArguments, output: &Output) -> Result<Exit, Failure> {
    let dir = &arguments.dir;
    if dir.join("ca.key").exists() {
        let error = anyhow!("{} holds an authority already", dir.display());
        let remedy = format!(
            "use it with weir authority host {}, or name another folder",
            dir.display()
        );
        return Err(Failure::bad_input(error).with_remedy(remedy));
    }
    weir_auth::files::private_folder(dir)
        .map_err(|error| Failure::could_not_run(anyhow!(error).context(format!("could not make {}", dir.display()))))?;
    let authority = CertificateAuthority::create(dir).map_err(could_not)?;
    let (file, hashed) = (authority.file(), authority.directory());
    output.line(format!("made an authority in {}", dir.display()));
    output.line(format!(
        "  {}  its certificate: give it to every client that is to trust it",
        file.display()
    ));
    output.line(format!(
        "  {}  the same for programs that take a directory",
        hashed.display()
    ));
    output.line(format!(
        "  {}  its key: its holder can pose as any host; keep it here",
        dir.join("ca.key").display()
    ));
    output.line(format!("next: weir authority host {} THIS.HOST.NAME", dir.display()));
    output.done(&Made {
        certificate: &file,
        key: &dir.join("ca.key"),
        days: days(),
    });
    Ok(Exit::Done)
}

fn host(arguments: &AuthorityHostArguments, output: &Output) -> Result<Exit, Failure> {
    let authority = load(&arguments.dir)?;
    if let Some(name) = arguments.names.iter().find(|name| !is_host(name)) {
        return Err(could_not(CaError::Name(name.clone())));
    }
    let names: Vec<San> = arguments.names.iter().map(|name| San::from(name.as_str())).collect();
    let first = arguments.names[0].trim_start_matches("*.");
    let identity = authority.issue(&names, first).map_err(could_not)?;
    written(&identity, (&arguments.out, first), arguments.force, output)
}

fn user(arguments: &AuthorityUserArguments, output: &Output) -> Result<Exit, Failure> {
    let authority = load(&arguments.dir)?;
    let identity = authority.issue_user(&arguments.name).map_err(could_not)?;
    let file: String = arguments
        .name
        .chars()
        .map(|letter| if letter.is_alphanumeric() { letter } else { '-' })
        .collect();
    let exit = written(&identity, (&arguments.out, &file), arguments.force, output)?;
    output.line(format!("  services know the user as /O=Weir/CN={}", arguments.name));
    Ok(exit)
}

fn load(dir: &Path) -> Result<CertificateAuthority, Failure> {
    CertificateAuthority::load(dir).map_err(|error| {
        let remedy = format!("make an authority first: weir authority new {}", dir.display());
        Failure::bad_input(error).with_remedy(remedy)
    })
}

/// Writes certificate and key, and prints their paths; existing ones stay unless asked.
fn written(
    identity: &weir_auth::ca::Identity,
    (out, name): (&Path, &str),
    force: bool,
    output: &Output,
) -> Result<Exit, Failure> {
    let there: Option<PathBuf> = ["pem", "key"]
        .iter()
        .map(|ending| out.join(format!("{name}.{ending}")))
        .find(|path| path.exists());
    if let Some(path) = there.filter(|_| !force) {
        let error = anyhow!("{} is there already", path.display());
        return Err(Failure::bad_input(error).with_remedy("replace it with --force, or name another folder with --out"));
    }
    let (certificate, key) = write_identity(identity, out, name).map_err(could_not)?;
    output.line(format!(
        "{}  certificate, good for {} days",
        certificate.display(),
        days()
    ));
    output.line(format!("{}  key", key.display()));
    output.done(&Made {
        certificate: &certificate,
        key: &key,
        days: days(),
    });
    Ok(Exit::Done)
}

/// Whether it is an address, or a DNS name whose first label may be `*`. The first one names the files, too.
fn is_host(name: &str) -> bool {
    let is_label = |label: &str| {
        !label.is_empty()
            && label
                .chars()
                .all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_'))
    };
    let rest = name.strip_prefix("*.").unwrap_or(name);
    name.parse::<std::net::IpAddr>().is_ok() || (rest.len() <= 253 && rest.split('.').all(is_label))
}

/// How long a certificate is good from now.
fn days() -> u64 {
    // They begin two days ago, for clocks that are late.
    weir_auth::ca::LIFETIME.as_secs() / 86_400 - 2
}

fn could_not(error: CaError) -> Failure {
    match error {
        CaError::Name(_) => {
            Failure::bad_input(error).with_remedy("give DNS names such as se.example.org, or addresses")
        }
        other => Failure::could_not_run(other),
    }
}
