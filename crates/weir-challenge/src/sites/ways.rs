//! Derives from the copies that were tried whether a storage carries out third-party copies, and in which modes files reach and leave it.

use std::collections::BTreeMap;

use weir_world::CopyMode;

use super::{CopyCheck, Outcome};

/// Turns the failure of a mode into a warning where another mode works on the same link: a plan that tries every mode is run to find that out.
pub(super) fn forgive(copies: &mut [CopyCheck]) {
    let works: Vec<(String, String)> = copies
        .iter()
        .filter(|copy| matches!(copy.outcome, Outcome::Ok { .. }))
        .map(|copy| (copy.source.clone(), copy.destination.clone()))
        .collect();
    for copy in copies {
        let Some(mode) = copy.mode else { continue };
        if !works.contains(&(copy.source.clone(), copy.destination.clone())) {
            continue;
        }
        if let Outcome::Failed { cause, .. } = &copy.outcome {
            copy.outcome = Outcome::Warning {
                detail: cause.clone(),
                remedy: format!("other modes work on this link: the run tries {mode} all the same, and its cells fail"),
            };
        }
    }
}

/// Says in a sentence how files come to this storage and leave it; `None` where no copy that was tried tells.
pub(super) fn of(rse: &str, copies: &[CopyCheck]) -> Option<String> {
    let mut parts: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let (mut carries_out, mut was_ordered) = (false, false);
    for copy in copies {
        let forced = copy.mode.and_then(CopyMode::parse);
        was_ordered |= match copy.outcome {
            Outcome::Skipped { .. } => false,
            Outcome::Ok { .. } => copy.destination == rse && forced.is_none(),
            _ => {
                (copy.destination == rse && forced == Some(CopyMode::Pull))
                    || (copy.source == rse && forced == Some(CopyMode::Push))
            }
        };
        let Some(worked) = copy.worked.as_deref().and_then(CopyMode::parse) else {
            continue;
        };
        let (into, out) = (copy.destination == rse, copy.source == rse);
        let (part, other) = match (worked, into, out) {
            (CopyMode::Pull, true, _) => ("it pulls from", copy.source.as_str()),
            (CopyMode::Push, true, _) => ("pushes to it", copy.source.as_str()),
            (CopyMode::Streamed, true, _) => ("the transfer service writes to it from", copy.source.as_str()),
            (CopyMode::Pull, _, true) => ("pulls from it", copy.destination.as_str()),
            (CopyMode::Push, _, true) => ("it pushes to", copy.destination.as_str()),
            (CopyMode::Streamed, _, true) => ("the transfer service reads from it for", copy.destination.as_str()),
            (_, false, false) => continue,
        };
        carries_out |= part.starts_with("it ");
        let others = parts.entry(part).or_default();
        if !others.contains(&other) {
            others.push(other);
        }
    }
    if parts.is_empty() {
        return None;
    }
    // "HERE pulls from it" and "HERE pushes to it" are one part.
    let mut said: Vec<String> = Vec::new();
    let mut by_others: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (part, others) in parts {
        let others = others.join(", ");
        if part.ends_with(" it") {
            by_others.entry(others).or_default().push(part);
        } else {
            said.push(format!("{part} {others}"));
        }
    }
    let passive = by_others
        .into_iter()
        .map(|(others, parts)| format!("{others} {}", parts.join(" and ")));
    said.extend(passive);
    let said = said.join("; ");
    // A pull comes first where the transfer service chooses.
    Some(match (carries_out, was_ordered) {
        (true, _) => format!("{rse} makes third-party copies: {said}"),
        (false, true) => format!("{rse} makes no third-party copies; {said}"),
        (false, false) => format!("{rse}: {said}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copy(source: &str, destination: &str, mode: Option<&'static str>, worked: Option<&str>) -> CopyCheck {
        CopyCheck {
            source: source.to_owned(),
            destination: destination.to_owned(),
            mode,
            worked: worked.map(str::to_owned),
            outcome: match worked {
                Some(_) => Outcome::ok("copied"),
                None => Outcome::failed("HTTP 404", "look"),
            },
            took_s: 0.1,
        }
    }

    #[test]
    fn the_modes_that_work_are_told_by_direction() {
        // The administrator of an Apache reads "check the path at the destination".
        let both = [
            copy("HERE", "MINE", None, Some("push")),
            copy("MINE", "HERE", None, Some("pull")),
            copy("MINE", "MINE2", None, Some("streamed")),
        ];
        let told = "MINE makes no third-party copies; the transfer service reads from it for MINE2; HERE pulls from it and pushes to it";
        assert_eq!(of("MINE", &both).as_deref(), Some(told));
        let grid = [
            copy("HERE", "MINE", None, Some("pull")),
            copy("MINE", "HERE", None, Some("pull")),
        ];
        let told = "MINE makes third-party copies: it pulls from HERE; HERE pulls from it";
        assert_eq!(of("MINE", &grid).as_deref(), Some(told));
        // An FTS3 does not tell the mode.
        assert_eq!(of("MINE", &[copy("HERE", "MINE", None, None)]), None);
    }

    #[test]
    fn a_mode_that_does_not_work_stops_no_matrix() {
        let mut copies = [
            copy("HERE", "MINE", Some("pull"), None),
            copy("HERE", "MINE", Some("push"), Some("push")),
            copy("MINE", "HERE", Some("push"), None),
            copy("OTHER", "HERE", None, None),
        ];
        forgive(&mut copies);
        assert!(matches!(copies[0].outcome, Outcome::Warning { .. }));
        assert!(copies[2].outcome.has_failed() && copies[3].outcome.has_failed());
        let told = "MINE makes no third-party copies; HERE pushes to it";
        assert_eq!(of("MINE", &copies).as_deref(), Some(told));
        let pushed = [copy("HERE", "MINE", Some("push"), Some("push"))];
        assert_eq!(of("MINE", &pushed).as_deref(), Some("MINE: HERE pushes to it"));
    }
}
