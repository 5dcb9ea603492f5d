//! `weir incident run`

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use weir_plan::Incident;
use weir_sim::incident::verify;

use super::ran::{Ran, lines};
use super::{library, real};
use crate::cli::IncidentRunArguments;
use crate::failure::{Exit, Failure};
use crate::output::Output;

/// Runs incidents in the simulated world, on every processor.
pub(super) fn run(arguments: &IncidentRunArguments, output: &Output) -> Result<Exit, Failure> {
    let incidents = if arguments.all {
        library::all()?
    } else {
        arguments
            .ids
            .iter()
            .map(|id| library::find(id))
            .collect::<Result<_, _>>()?
    };
    if arguments.real {
        return real::run(&incidents, arguments, output);
    }
    let (next, ran) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || -> Result<(), Failure> {
        while let Some((at, incident)) = take(&incidents, &next) {
            let of = simulate(incident)?;
            ran.lock().expect("nobody panics with it").push((at, of));
        }
        Ok(())
    };
    let workers = std::thread::available_parallelism()
        .map_or(1, usize::from)
        .min(incidents.len());
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        running
            .into_iter()
            .try_for_each(|worker| worker.join().expect("a run does not panic"))
    })?;
    let mut ran = ran.into_inner().expect("nobody panics with it");
    ran.sort_by_key(|(at, _)| *at);
    let ran: Vec<Ran> = ran.into_iter().map(|(_, ran)| ran).collect();
    ran.iter().flat_map(lines).for_each(|line| output.line(line));
    let n_wrong = ran.iter().filter(|ran| !ran.ok).count();
    if ran.len() > 1 {
        output.line(format!("{} incidents, {n_wrong} of them not as expected", ran.len()));
    }
    output.done(&ran);
    Ok(if n_wrong == 0 { Exit::Done } else { Exit::VerdictFail })
}

fn take<'i>(incidents: &'i [Incident], next: &AtomicUsize) -> Option<(usize, &'i Incident)> {
    let at = next.fetch_add(1, Ordering::Relaxed);
    Some((at, incidents.get(at)?))
}

fn simulate(incident: &Incident) -> Result<Ran, Failure> {
    let verified =
        verify(incident).map_err(|problems| Failure::problems(&format!("the incident {}", incident.id), &problems))?;
    let ok = verified.wrong().next().is_none();
    Ok(Ran {
        id: incident.id.clone(),
        world: "simulated",
        ok,
        with: verified.with,
        remedy: verified.mended,
    })
}
