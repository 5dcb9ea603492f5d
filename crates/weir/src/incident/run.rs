//! `weir incident run`

use weir_measure::diagnosis::expected;
use weir_plan::Incident;
use weir_sim::case::try_incident;
use weir_sim::incident::verify;

use super::parallel::parallel;
use super::ran::{Diagnosed, Ran, lines};
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
    let ran: Vec<Ran> = parallel(&incidents, simulate).into_iter().collect::<Result<_, _>>()?;
    ran.iter().flat_map(lines).for_each(|line| output.line(line));
    let n_wrong = ran.iter().filter(|ran| !ran.ok).count();
    if ran.len() > 1 {
        let n_named = ran.iter().filter(|ran| ran.diagnosis.right).count();
        output.line(format!(
            "{} incidents, {n_wrong} of them not as expected; the diagnosis of {n_named} is right",
            ran.len()
        ));
    }
    output.done(&ran);
    Ok(if n_wrong == 0 { Exit::Done } else { Exit::VerdictFail })
}

fn simulate(incident: &Incident) -> Result<Ran, Failure> {
    let verified =
        verify(incident).map_err(|problems| Failure::problems(&format!("the incident {}", incident.id), &problems))?;
    let ok = verified.wrong().next().is_none();
    let with = &verified.reports[0];
    let truths = match try_incident(incident, with) {
        Ok(tried) => tried.truths,
        // Its challenge is not well without its faults: the signs must do.
        Err(_) => expected(incident, &incident.expect, with, &verified.with),
    };
    let diagnosis = Diagnosed::of(incident, truths, with);
    Ok(Ran {
        id: incident.id.clone(),
        world: "simulated",
        ok,
        with: verified.with,
        remedy: verified.mended,
        diagnosis,
    })
}
