//! From the text of a challenge file to a valid challenge.

mod limits;

mod thresholds;
mod workloads;

use std::path::PathBuf;
use std::time::Duration;

use weir_model::file::{Refusal, Section};
use weir_model::{GRID, Grid, GridName};

use crate::fault;
use crate::keys::PHASES;
use crate::phases::Phases;
use crate::spec::{Challenge, WorkloadSpec};
use limits::{EDGE_MAX, HOLD_MAX};
pub(crate) use limits::{check_hold, check_scale};

pub(crate) fn challenge(section: &Section<'_>) -> Option<Challenge> {
    let name: Option<GridName> = section.required("name");
    let description = section.or("description", String::new());
    let seed = section.or("seed", 1);
    let scale = section.checked("scale", |scale| check_scale(*scale)).unwrap_or(1.0);
    let grid = grid(section);
    let (workloads, complete) = match &grid {
        Some(grid) => workloads::read(section, grid),
        None => (Vec::new(), false),
    };
    let rated = workloads.iter().any(|spec| matches!(spec, WorkloadSpec::Rates(_)));
    let phases = phases(section, rated, complete);
    let grid = grid?;
    let thresholds = if complete {
        thresholds::read(section, &grid, &workloads)
    } else {
        Vec::new()
    };
    let faults = if complete {
        fault::read(section, &grid, &workloads)
    } else {
        Vec::new()
    };
    let sim = section.part("sim");
    let [incident, expect, remedy] = ["incident", "expect", "remedy"].map(|key| section.part(key));
    let file = section.document().file().to_owned();
    let name = name?.as_str().to_owned();
    complete.then_some(Challenge {
        file,
        name,
        description,
        seed,
        scale,
        grid,
        phases,
        workloads,
        thresholds,
        faults,
        sim,
        incident,
        expect,
        remedy,
    })
}

fn grid(section: &Section<'_>) -> Option<Grid> {
    if !section.has("grid") {
        section.miss(
            "grid",
            "add grid = \"path of a grid file\", or [grid] with an [[grid.rse]] or more",
        );
        return None;
    }
    if !section.is_text("grid") {
        return Grid::from_section(&section.table("grid", &GRID)?);
    }
    let path: PathBuf = section.optional("grid")?;
    match Grid::load(&section.document().beside(&path)) {
        Ok(grid) => Some(grid),
        Err(problems)
            if problems
                .iter()
                .all(|problem| problem.line.is_none() && problem.key.is_empty()) =>
        {
            for problem in problems {
                let message = format!("the grid file {} {}", path.display(), problem.message);
                section.refuse("grid", Refusal::new(message, problem.remedy));
            }
            None
        }
        Err(problems) => {
            section.pass_on(problems);
            None
        }
    }
}

fn phases(section: &Section<'_>, rated: bool, complete: bool) -> Phases {
    let seconds = |rates: u64| Duration::from_secs(if rated { rates } else { 0 });
    let defaults = Phases {
        ramp: seconds(10),
        hold: seconds(60),
        drain: Duration::from_secs(30),
    };
    let Some(table) = section.table("phases", &PHASES) else {
        return defaults;
    };
    let edge = |time: &Duration| {
        if *time <= EDGE_MAX {
            Ok(())
        } else {
            Err(Refusal::new("is longer than a day", "write at most \"1 d\""))
        }
    };
    let hold = |time: &Duration| {
        if rated || !complete {
            check_hold(*time)
        } else {
            check_hold(*time + MOMENT)
        }
    };
    Phases {
        ramp: table.checked("ramp", edge).unwrap_or(defaults.ramp),
        hold: table.checked("hold", hold).unwrap_or(defaults.hold),
        drain: table.checked("drain", edge).unwrap_or(defaults.drain),
    }
}

/// A hold of zero is allowed where no rate is held.
const MOMENT: Duration = Duration::from_nanos(1);
