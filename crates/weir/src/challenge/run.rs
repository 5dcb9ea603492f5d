//! `weir challenge run`: runs a challenge, shows it, and gives a verdict.

use anyhow::Context;
use serde::Serialize;
use tokio::signal::unix::{SignalKind, signal};
use weir_challenge::{Options, RunNetwork, RunOutcome, Stop, namespace};
use weir_measure::report::{Totals, Verdict};

use super::watch::Watch;
use super::{resolve, summary};
use crate::cli::ChallengeRunArguments;
use crate::failure::{Exit, Failure};
use crate::logging;
use crate::output::Output;
use crate::shell::quoted;

#[derive(Serialize)]
pub(crate) struct Ran<'a> {
    verdict: Verdict,
    verdict_reasons: &'a [String],
    interrupted: bool,
    folder: &'a std::path::Path,
    report: std::path::PathBuf,
    totals: &'a Totals,
}

/// Runs the challenge of a file.
pub(super) fn run(arguments: &ChallengeRunArguments, output: &Output) -> Result<Exit, Failure> {
    let plan = resolve(&arguments.file, &arguments.overrides)?;
    if arguments.faults.namespace {
        enter_namespace(arguments.faults.congestion_control.as_deref())?;
    }
    let options = Options {
        out: arguments.out.clone(),
        keep: arguments.keep,
        audit: arguments.audit,
        preflight: arguments.preflight.0,
        breakable: arguments.faults.breakable,
        processes: arguments.faults.processes,
        network: if arguments.faults.namespace {
            RunNetwork::Namespace
        } else {
            RunNetwork::Host
        },
        program: std::env::current_exe().ok(),
        command: command(arguments, plan.seed, plan.scale),
        ..Options::default()
    };
    let watch = Watch::new(output);
    let stop = Stop::default();
    // Data moves on a runtime of the grid's own, so this one is always free to listen and to tell.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .thread_name("weir-control")
        .enable_all()
        .build()
        .context("could not start the control runtime")?;
    let outcome = runtime.block_on(async {
        let listening = tokio::spawn(listen(stop.clone(), watch.clone()));
        let outcome = weir_challenge::run(plan, options, watch.clone(), stop).await;
        listening.abort();
        outcome
    });
    watch.end();
    logging::detach_file();
    let outcome = outcome.map_err(failure)?;
    summary::print(&outcome, output);
    output.done(&ran(&outcome));
    Ok(exit(&outcome))
}

/// Goes on in a network namespace of this command's own.
fn enter_namespace(congestion: Option<&str>) -> Result<(), Failure> {
    let failure = |error: namespace::NamespaceError| {
        let remedy = error.remedy();
        let failure = Failure::could_not_run(error);
        match remedy {
            Some(remedy) => failure.with_remedy(remedy),
            None => failure,
        }
    };
    if !namespace::is_inside() {
        return Err(failure(namespace::enter()));
    }
    namespace::prepare(congestion).map_err(failure)
}

/// The first signal stops injection, the second every wait.
async fn listen(stop: Stop, watch: std::sync::Arc<Watch>) {
    use weir_challenge::{Progress, Update};
    let (Ok(mut interrupt), Ok(mut terminate)) = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        return;
    };
    for text in [
        "stops injecting, drains and reports; once more to wait for nothing",
        "waits for nothing any more",
    ] {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        watch.show(&Update::Note { text: text.to_owned() });
        if stop.soft.is_cancelled() {
            stop.hard.cancel();
        } else {
            stop.soft.cancel();
        }
    }
}

pub(crate) fn ran(outcome: &RunOutcome) -> Ran<'_> {
    Ran {
        verdict: outcome.report.verdict,
        verdict_reasons: &outcome.report.verdict_reasons,
        interrupted: outcome.report.interrupted,
        folder: &outcome.folder,
        report: outcome.report_folder.join("report.json"),
        totals: &outcome.report.totals,
    }
}

pub(crate) fn exit(outcome: &RunOutcome) -> Exit {
    match outcome.exit_code() {
        0 => Exit::Done,
        130 => Exit::Interrupted,
        _ => Exit::VerdictFail,
    }
}

pub(crate) fn failure(error: weir_challenge::RunError) -> Failure {
    if matches!(error, weir_challenge::RunError::Interrupted) {
        return Failure::interrupted(error);
    }
    let remedy = error.remedy();
    let failure = Failure::could_not_run(error);
    match remedy {
        Some(remedy) => failure.with_remedy(remedy),
        None => failure,
    }
}

/// Writes the command line that runs the same again, seed and scale spelled out.
fn command(arguments: &ChallengeRunArguments, seed: u64, scale: f64) -> String {
    let mut words = vec![
        "weir challenge run".to_owned(),
        quoted(&arguments.file.display().to_string()),
    ];
    words.push(format!("--scale {scale}"));
    if let Some(duration) = arguments.overrides.duration {
        words.push(format!(
            "--duration {}",
            quoted(&weir_units::duration::format(duration))
        ));
    }
    words.push(format!("--seed {seed}"));
    if let Some(percent) = arguments.audit {
        words.push(format!("--audit {percent}%"));
    }
    if arguments.faults.namespace {
        words.push("--namespace".to_owned());
    }
    if let Some(name) = &arguments.faults.congestion_control {
        words.push(format!("--congestion-control {}", quoted(name)));
    }
    words.join(" ")
}
