//! `weir probe`: the kind of an endpoint, its working and refused operations, and its speed.

use anyhow::{Context, anyhow};
use weir_challenge::sites::{Asking, Probed, probe};
use weir_http::{Client, ClientConfig};
use weir_units::Bytes;

use crate::challenge::finding;
use crate::cli::ProbeArguments;
use crate::failure::{Exit, Failure};
use crate::output::Output;

/// Probes the endpoint and prints the findings.
pub(crate) fn run(arguments: &ProbeArguments, output: &Output) -> Result<Exit, Failure> {
    let known = ["https://", "root://", "roots://", "xroot://", "xroots://"];
    if !known.iter().any(|scheme| arguments.url.starts_with(scheme)) {
        // In plain text the token would be read on the way.
        let error = match arguments.url.split_once("://") {
            Some(("http" | "dav", _)) => anyhow!(
                "{} has no TLS, and only https is asked: a token would cross the network in plain text",
                arguments.url
            ),
            _ => anyhow!("{} is no URL that can be asked", arguments.url),
        };
        return Err(Failure::bad_input(error).with_remedy("write https://host:port/folder or root://host:port"));
    }
    let roots = crate::trust::roots(&arguments.access)?;
    let asking = Asking {
        client: Client::new(ClientConfig::new(roots)).context("could not use the certificate authorities")?,
        token: crate::token::look(arguments.access.token_file.as_deref())?,
        size: arguments.size.0,
        limit: arguments.limit,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let probed = runtime
        .context("could not start the runtime")?
        .block_on(probe(&arguments.url, &asking));
    print(&probed, output);
    output.done(&probed);
    let failed = probed.checks.iter().any(|check| check.outcome.has_failed());
    Ok(if failed { Exit::CouldNotRun } else { Exit::Done })
}

fn print(probed: &Probed, output: &Output) {
    output.line(format!("{}: {}", probed.url, probed.kind));
    for check in &probed.checks {
        finding(&format!("{:<12}", check.name), &check.outcome)
            .iter()
            .for_each(|line| output.line(line));
    }
    for speed in &probed.speeds {
        let first = speed.first_byte_s.map_or_else(String::new, |first| {
            format!(", first byte after {:.0} ms", first * 1000.0)
        });
        output.line(format!(
            "    {:<5} {:.1} in {:.2} s, {:.1} by one stream{first}",
            speed.what,
            Bytes(speed.bytes),
            speed.took_s,
            speed.rate_bps
        ));
    }
}
