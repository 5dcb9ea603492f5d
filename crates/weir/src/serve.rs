//! `weir serve …`: one service alone, until SIGINT or SIGTERM.

use std::path::Path;

use anyhow::Context;
use tokio::runtime::Runtime;
use weir_issuer::{Issuer, IssuerConfig};
use weir_service::config::ConfigError;
use weir_storage::{Running, Storage, StorageConfig};
use weir_transfer::{TransferConfig, TransferService};

use crate::cli::ServeCommand;
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::signals::{Hangups, Signals};

#[derive(serde::Serialize)]
struct Ready<'a> {
    service: &'a str,
    url: &'a str,
    pid: u32,
}

#[derive(serde::Serialize)]
struct Stopped<'a> {
    service: &'a str,
    signal: &'static str,
}

/// Runs the service until it is told to stop; requests in hand may end.
pub(crate) fn run(command: ServeCommand, output: &Output) -> Result<Exit, Failure> {
    match command {
        ServeCommand::Storage(arguments) => storage(&arguments.config, output),
        ServeCommand::Issuer(arguments) => issuer(&arguments.config, output),
        ServeCommand::Transfer(arguments) => transfer(&arguments.config, output),
    }
}

fn storage(file: &Path, output: &Output) -> Result<Exit, Failure> {
    let config = StorageConfig::load(file).map_err(|error| bad_file(file, error))?;
    runtime()?.block_on(async {
        let signals = Signals::listen()?;
        let hangups = Hangups::listen()?;
        let running = Storage::start(config)
            .await
            .context("could not start the storage endpoint")?;
        ready("storage", running.url(), output);
        let told = until_told(signals, hangups, async || reload(&running, file).await).await;
        Ok(stop("storage", running.shutdown(), told, output).await)
    })
}

/// Has the endpoint take its file again; what is wrong with it is in the log, and nothing has changed then.
async fn reload(running: &Running, file: &Path) {
    match StorageConfig::load(file) {
        // How it went is in the log.
        Ok(config) => drop(running.reload(config).await),
        Err(error) => running.refuse_reload(&error.to_string()),
    }
}

/// What a service says that reads its files at its start only.
async fn not_read_again() {
    tracing::warn!("this service reads its configuration when it starts: nothing is read again");
}

fn issuer(file: &Path, output: &Output) -> Result<Exit, Failure> {
    let config = IssuerConfig::load(file).map_err(|error| bad_file(file, error))?;
    let identity = config.identity().map_err(|error| bad_file(file, error))?;
    runtime()?.block_on(async {
        let signals = Signals::listen()?;
        let running = Issuer::start(&config, &identity).context("could not start the issuer")?;
        ready("issuer", running.url(), output);
        let told = until_told(signals, Hangups::listen()?, not_read_again).await;
        Ok(stop("issuer", running.shutdown(), told, output).await)
    })
}

fn transfer(file: &Path, output: &Output) -> Result<Exit, Failure> {
    let config = TransferConfig::load(file).map_err(|error| bad_file(file, error))?;
    runtime()?.block_on(async {
        let signals = Signals::listen()?;
        let running = TransferService::start(config)
            .await
            .context("could not start the transfer service")?;
        ready("transfer", running.url(), output);
        let told = until_told(signals, Hangups::listen()?, not_read_again).await;
        Ok(stop("transfer", running.shutdown(), told, output).await)
    })
}

fn runtime() -> Result<Runtime, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    Ok(runtime.context("could not start the runtime")?)
}

/// Says that the service is ready.
fn ready(service: &str, url: &str, output: &Output) {
    let pid = std::process::id();
    output.event("ready", &Ready { service, url, pid });
    output.line(format!("{service} is ready at {url}"));
}

/// Waits until it is told to stop: by which signal, and whoever hears the next one. Meanwhile, SIGHUP has it `reload`.
async fn until_told(
    mut signals: Signals,
    mut hangups: Hangups,
    mut reload: impl AsyncFnMut(),
) -> (&'static str, Signals) {
    loop {
        tokio::select! {
            signal = signals.next() => return (signal, signals),
            () = hangups.next() => {}
        }
        tokio::select! {
            signal = signals.next() => return (signal, signals),
            () = reload() => {}
        }
    }
}

/// Lets work in hand end; a second signal cuts it off.
async fn stop(
    service: &str,
    shutdown: impl Future<Output = ()>,
    (signal, mut signals): (&'static str, Signals),
    output: &Output,
) -> Exit {
    if !signals.unless(shutdown).await {
        return Exit::Interrupted;
    }
    output.line(format!("{service} has stopped"));
    output.done(&Stopped { service, signal });
    Exit::Done
}

fn bad_file(file: &Path, error: ConfigError) -> Failure {
    let what = format!("the configuration {}", file.display());
    Failure::problems(&what, &error.problems(file))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::de::DeserializeOwned;

    /// A default that a sample shows as a comment: `#` directly before its key.
    fn shown(line: &str) -> Option<&str> {
        line.strip_prefix('#')
            .filter(|rest| rest.starts_with(|c: char| c.is_ascii_lowercase()))
    }

    /// A sample with the defaults that it shows as comments, too.
    fn check_sample<T: DeserializeOwned>(sample: &str, text: &str) {
        let lines: Vec<&str> = text.lines().map(|line| shown(line).unwrap_or(line)).collect();
        let whole = lines.join("\n");
        for text in [text, whole.as_str()] {
            if let Err(error) = toml::from_str::<T>(text) {
                panic!("deploy/{sample}: {error}");
            }
        }
    }

    #[test]
    fn the_samples_that_ship_can_be_read() {
        // An operator's first file would be refused.
        check_sample::<StorageConfig>("storage.toml", include_str!("../../../deploy/storage.toml"));
        check_sample::<IssuerConfig>("issuer.toml", include_str!("../../../deploy/issuer.toml"));
        check_sample::<TransferConfig>("transfer.toml", include_str!("../../../deploy/transfer.toml"));
    }
}
