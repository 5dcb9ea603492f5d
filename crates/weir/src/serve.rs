//! `weir serve …`: one service alone, until SIGINT or SIGTERM.

mod catalog;
mod database;
mod files;
mod issuer;
mod storage;
mod transfer;

use std::path::Path;

use anyhow::Context;
use tokio::runtime::Runtime;
use weir_catalog::{Catalog, CatalogConfig};
use weir_fts::{TransferConfig, TransferService};
use weir_issuer::{Issuer, IssuerConfig};
use weir_service::{
    check::{Check, Outcome, Surroundings},
    config::{self, ConfigError, Configuration},
    notify,
};
use weir_storage::{Storage, StorageConfig};

use crate::challenge::finding;
use crate::cli::{ServeArguments, ServeCommand};
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::signals::{Hangups, Signals};

#[derive(serde::Serialize)]
struct ServiceReady<'a> {
    service: &'a str,
    url: &'a str,
    pid: u32,
}

#[derive(serde::Serialize)]
struct ServiceChecked<'a> {
    service: &'a str,
    failures: usize,
    checks: Vec<Check>,
}

#[derive(serde::Serialize)]
struct ServiceStopped<'a> {
    service: &'a str,
    signal: &'static str,
}

/// Runs the service until it is told to stop; requests in hand may end.
pub(crate) fn run(command: ServeCommand, output: &Output) -> Result<Exit, Failure> {
    match command {
        ServeCommand::Storage(arguments) => serve::<weir_storage::Running>("storage", &arguments, output),
        ServeCommand::Issuer(arguments) => serve::<weir_issuer::Running>("issuer", &arguments, output),
        ServeCommand::Transfer(arguments) => serve::<weir_fts::Running>("transfer", &arguments, output),
        ServeCommand::Catalog(arguments) => serve::<weir_catalog::Running>("catalog", &arguments, output),
    }
}

/// A service as a process runs it.
trait Serving: Sized {
    type Config: Configuration;

    /// The files and services that a configuration names.
    fn surroundings(config: &Self::Config) -> Surroundings<'_>;

    /// Looks at everything that a configuration names.
    async fn check(config: &Self::Config) -> Vec<Check>;

    /// Serves from here on.
    async fn start(config: Self::Config, file: &Path) -> Result<Self, Failure>;

    fn url(&self) -> &str;

    /// Takes another configuration. How that went is in the log; if it cannot be taken, nothing has changed.
    async fn reload(&self, config: Self::Config);

    /// There was a configuration to take that cannot be read: puts that down.
    fn refuse_reload(&self, why: &str);

    /// Lets work in hand end.
    async fn shutdown(self);
}

impl Serving for weir_storage::Running {
    type Config = StorageConfig;

    fn surroundings(config: &StorageConfig) -> Surroundings<'_> {
        storage::surroundings(config)
    }

    async fn check(config: &StorageConfig) -> Vec<Check> {
        storage::check(config).await
    }

    async fn start(config: StorageConfig, _: &Path) -> Result<Self, Failure> {
        let started = Storage::start(config).await;
        Ok(started.context("could not start the storage endpoint")?)
    }

    fn url(&self) -> &str {
        self.url()
    }

    async fn reload(&self, config: StorageConfig) {
        let _in_the_log = self.reload(config).await;
    }

    fn refuse_reload(&self, why: &str) {
        self.refuse_reload(why);
    }

    async fn shutdown(self) {
        self.shutdown().await;
    }
}

impl Serving for weir_issuer::Running {
    type Config = IssuerConfig;

    fn surroundings(config: &IssuerConfig) -> Surroundings<'_> {
        issuer::surroundings(config)
    }

    async fn check(config: &IssuerConfig) -> Vec<Check> {
        issuer::check(config).await
    }

    async fn start(config: IssuerConfig, file: &Path) -> Result<Self, Failure> {
        let identity = config.identity().map_err(|error| bad_file(file, error))?;
        Ok(Issuer::start(&config, &identity).context("could not start the issuer")?)
    }

    fn url(&self) -> &str {
        self.url()
    }

    async fn reload(&self, config: IssuerConfig) {
        let _in_the_log = self.reload(&config).await;
    }

    fn refuse_reload(&self, why: &str) {
        self.refuse_reload(why);
    }

    async fn shutdown(self) {
        self.shutdown().await;
    }
}

impl Serving for weir_fts::Running {
    type Config = TransferConfig;

    fn surroundings(config: &TransferConfig) -> Surroundings<'_> {
        transfer::surroundings(config)
    }

    async fn check(config: &TransferConfig) -> Vec<Check> {
        transfer::check(config).await
    }

    async fn start(config: TransferConfig, _: &Path) -> Result<Self, Failure> {
        let started = TransferService::start(config).await;
        Ok(started.context("could not start the transfer service")?)
    }

    fn url(&self) -> &str {
        self.url()
    }

    async fn reload(&self, config: TransferConfig) {
        let _in_the_log = self.reload(config).await;
    }

    fn refuse_reload(&self, why: &str) {
        self.refuse_reload(why);
    }

    async fn shutdown(self) {
        self.shutdown().await;
    }
}

impl Serving for weir_catalog::Running {
    type Config = CatalogConfig;

    fn surroundings(config: &CatalogConfig) -> Surroundings<'_> {
        catalog::surroundings(config)
    }

    async fn check(config: &CatalogConfig) -> Vec<Check> {
        catalog::check(config).await
    }

    async fn start(config: CatalogConfig, _: &Path) -> Result<Self, Failure> {
        let started = Catalog::start(config).await;
        Ok(started.context("could not start the catalogue")?)
    }

    fn url(&self) -> &str {
        self.url()
    }

    async fn reload(&self, config: CatalogConfig) {
        let _in_the_log = self.reload(config).await;
    }

    fn refuse_reload(&self, why: &str) {
        self.refuse_reload(why);
    }

    async fn shutdown(self) {
        self.shutdown().await;
    }
}

fn serve<S: Serving>(service: &str, arguments: &ServeArguments, output: &Output) -> Result<Exit, Failure> {
    let file = arguments.config.as_path();
    let config = config::load(file).map_err(|error| bad_file(file, error))?;
    if arguments.check {
        return look_at::<S>(service, file, &config, output);
    }
    warn(&S::surroundings(&config).identity());
    runtime()?.block_on(async {
        let signals = Signals::listen()?;
        let hangups = Hangups::listen()?;
        let running = S::start(config, file).await?;
        ready(service, running.url(), output);
        let told = until_told(signals, hangups, async || reload(&running, file).await).await;
        notify::stopping();
        Ok(stop(service, running.shutdown(), told, output).await)
    })
}

/// Reports all problems of a service before it starts.
fn look_at<S: Serving>(service: &str, file: &Path, config: &S::Config, output: &Output) -> Result<Exit, Failure> {
    let checks = runtime()?.block_on(S::check(config));
    let failures = checks.iter().filter(|check| check.outcome.has_failed()).count();
    output.line(format!("{service}, as {} has it", file.display()));
    let width = checks
        .iter()
        .map(|check| check.name.chars().count())
        .max()
        .unwrap_or_default();
    for check in &checks {
        let lines = finding(&format!("{:width$}", check.name), &check.outcome);
        lines.iter().for_each(|line| output.line(line));
    }
    let total = checks.len();
    output.line(match failures {
        0 => format!("{total} checks, none failed"),
        _ => format!("{total} checks, {failures} failed"),
    });
    output.done(&ServiceChecked {
        service,
        failures,
        checks,
    });
    Ok(if failures == 0 { Exit::Done } else { Exit::CouldNotRun })
}

/// Logs problems that clients would notice: a service starts all the same.
fn warn(checks: &[Check]) {
    for check in checks {
        match &check.outcome {
            Outcome::Warning { detail: what, remedy } | Outcome::Failed { cause: what, remedy } => {
                tracing::warn!(check = %check.name, remedy, "{what}");
            }
            Outcome::Ok { .. } | Outcome::Skipped { .. } => {}
        }
    }
}

/// Has a service take its file again.
async fn reload<S: Serving>(running: &S, file: &Path) {
    notify::reloading();
    match config::load(file) {
        Ok(config) => running.reload(config).await,
        Err(error) => running.refuse_reload(&error.to_string()),
    }
    notify::ready(running.url());
}

fn runtime() -> Result<Runtime, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    Ok(runtime.context("could not start the runtime")?)
}

/// Says that the service is ready: to people and programs that read its output, and to the service manager.
fn ready(service: &str, url: &str, output: &Output) {
    notify::ready(url);
    let pid = std::process::id();
    output.event("ready", &ServiceReady { service, url, pid });
    output.line(format!("{service} is ready at {url}"));
}

/// Waits for a signal to stop; returns the signal, and a listener for the next one. Meanwhile, SIGHUP calls `reload`.
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
    output.done(&ServiceStopped { service, signal });
    Exit::Done
}

pub(crate) fn bad_file(file: &Path, error: ConfigError) -> Failure {
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
        check_sample::<CatalogConfig>("catalog.toml", include_str!("../../../deploy/catalog.toml"));
    }
}
