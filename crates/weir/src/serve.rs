//! `weir serve …`: one service alone, until SIGINT or SIGTERM.

use std::path::Path;

use anyhow::Context;
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};
use weir_issuer::{Issuer, IssuerConfig};
use weir_model::Problem;
use weir_storage::{Storage, StorageConfig};
use weir_transfer::{TransferConfig, TransferService};

use crate::cli::ServeCommand;
use crate::config_file;
use crate::failure::{Exit, Failure};
use crate::output::Output;

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
    config_file::check::<StorageConfig>(file).map_err(bad_file)?;
    let config = StorageConfig::load(file).map_err(|error| bad_value(file, error))?;
    runtime()?.block_on(async {
        let running = Storage::start(config)
            .await
            .context("could not start the storage endpoint")?;
        let signal = serve("storage", running.url(), output).await?;
        running.shutdown().await;
        Ok(stopped("storage", signal, output))
    })
}

fn issuer(file: &Path, output: &Output) -> Result<Exit, Failure> {
    config_file::check::<IssuerConfig>(file).map_err(bad_file)?;
    let config = IssuerConfig::load(file).map_err(|error| bad_value(file, error))?;
    let identity = config.identity().map_err(|error| bad_value(file, error))?;
    runtime()?.block_on(async {
        let running = Issuer::start(&config, &identity).context("could not start the issuer")?;
        let signal = serve("issuer", running.url(), output).await?;
        running.shutdown().await;
        Ok(stopped("issuer", signal, output))
    })
}

fn transfer(file: &Path, output: &Output) -> Result<Exit, Failure> {
    config_file::check::<TransferConfig>(file).map_err(bad_file)?;
    let config = TransferConfig::load(file).map_err(|error| bad_value(file, error))?;
    runtime()?.block_on(async {
        let running = TransferService::start(config)
            .await
            .context("could not start the transfer service")?;
        let signal = serve("transfer", running.url(), output).await?;
        running.shutdown().await;
        Ok(stopped("transfer", signal, output))
    })
}

fn runtime() -> Result<Runtime, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    Ok(runtime.context("could not start the runtime")?)
}

/// Says that the service is ready and waits for the signal to stop.
async fn serve(service: &str, url: &str, output: &Output) -> Result<&'static str, Failure> {
    let mut interrupt = signal(SignalKind::interrupt()).context("could not listen for signals")?;
    let mut terminate = signal(SignalKind::terminate()).context("could not listen for signals")?;
    output.event(
        "ready",
        &Ready {
            service,
            url,
            pid: std::process::id(),
        },
    );
    output.line(format!("{service} is ready at {url}"));
    Ok(tokio::select! {
        _ = interrupt.recv() => "SIGINT",
        _ = terminate.recv() => "SIGTERM",
    })
}

fn stopped(service: &str, signal: &'static str, output: &Output) -> Exit {
    output.line(format!("{service} has stopped"));
    output.done(&Stopped { service, signal });
    Exit::Done
}

fn bad_file(problem: Problem) -> Failure {
    let what = format!("the configuration {}", problem.file.display());
    Failure::problems(&what, &[problem])
}

/// A configuration that can be read and makes no sense, as its room says it.
fn bad_value(file: &Path, error: impl Into<ServiceConfigError>) -> Failure {
    match error.into() {
        ServiceConfigError::Value { key, message, remedy } => {
            bad_file(config_file::invalid(file, &key, message, remedy))
        }
        ServiceConfigError::Other(error) => Failure::bad_input(error),
    }
}

/// What the three rooms' configuration errors have in common.
enum ServiceConfigError {
    Value {
        key: String,
        message: String,
        remedy: String,
    },
    Other(anyhow::Error),
}

impl From<weir_storage::config::ConfigError> for ServiceConfigError {
    fn from(error: weir_storage::config::ConfigError) -> Self {
        match error {
            weir_storage::config::ConfigError::Invalid { key, problem, remedy } => Self::Value {
                key,
                message: problem,
                remedy: remedy.to_owned(),
            },
            other => Self::Other(other.into()),
        }
    }
}

impl From<weir_issuer::ConfigError> for ServiceConfigError {
    fn from(error: weir_issuer::ConfigError) -> Self {
        match error {
            weir_issuer::ConfigError::Invalid { key, problem, remedy } => Self::Value {
                key,
                message: problem,
                remedy: remedy.to_owned(),
            },
            other => Self::Other(other.into()),
        }
    }
}

impl From<weir_transfer::config::ConfigError> for ServiceConfigError {
    fn from(error: weir_transfer::config::ConfigError) -> Self {
        match error {
            weir_transfer::config::ConfigError::Value { key, why } => {
                let (message, remedy) = why.split_once(": ").unwrap_or((&why, "see docs/running-services.md"));
                Self::Value {
                    key: key.to_owned(),
                    message: message.to_owned(),
                    remedy: remedy.to_owned(),
                }
            }
            other => Self::Other(other.into()),
        }
    }
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
