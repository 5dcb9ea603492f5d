//! Groups: resources that several storage elements share, such as an uplink or a set of gateways.

use std::collections::BTreeSet;

use weir_model::file::{Key, Refusal, Section, Table, nearest, one_of};
use weir_model::{Grid, GridName, Pattern, RseName};
use weir_units::BitRate;

use super::Segment;
use super::values::{capacity, changes, number, rate, share};

/// A resource that several storage elements share.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// Its unique name.
    pub name: String,
    /// Whether inward and outward traffic of its members pass it; at least one of them.
    pub directions: [bool; 2],
    /// Its capacity, for all directions that pass it together; `None` for no bound.
    pub segment: Option<Segment>,
    /// Transfers through it at once that every policy keeps.
    pub max_active: Option<u32>,
    /// Rate through it that every policy that can is told to keep.
    pub max_rate: Option<BitRate>,
    rses: Vec<Pattern>,
}

impl Group {
    /// Says whether an RSE is one of its members.
    pub fn has(&self, rse: &RseName) -> bool {
        self.rses.iter().any(|pattern| pattern.fits(rse.as_str()))
    }
}

pub(crate) const GROUP: Table = Table {
    title: "[[sim.group]]",
    keys: &[
        Key::new("name", "name", "required", "Its name."),
        Key::new(
            "rses",
            "list of RSEs or patterns",
            "required",
            "Its members: `*` in a name stands for any text.",
        ),
        Key::new(
            "direction",
            "`in`, `out` or `both`",
            "`both`",
            "Which of their transfers pass it: those into them, those out of them, or both, counted together.",
        ),
        Key::new("capacity", "rate", "unlimited", "Its capacity."),
        Key::new(
            "background",
            "rate",
            "`0 b/s`",
            "Traffic on it that is not ours, on average; needs `capacity`, as the next two do.",
        ),
        Key::new(
            "background_variation",
            "number",
            "0",
            "How far that traffic moves about its average, from 0 to 1; drawn anew every ten minutes.",
        ),
        Key::new(
            "changes",
            "list of tables",
            "none",
            "Later capacities, as of a segment.",
        ),
        Key::new(
            "max_active",
            "number",
            "none",
            "Transfers through it at once; every policy keeps it.",
        ),
        Key::new(
            "max_rate",
            "rate",
            "none",
            "Rate through it; policies that know bandwidth limits keep it.",
        ),
    ],
};

/// Reads the groups under `group`; no segment has the name of a group.
pub(super) fn groups(table: &Section<'_>, grid: &Grid, segments: &[&str]) -> Vec<Group> {
    let (mut list, mut names) = (Vec::new(), BTreeSet::new());
    for entry in table.tables("group", &GROUP) {
        let Some(group) = group(&entry, grid) else { continue };
        let taken = if segments.contains(&group.name.as_str()) {
            Some("a segment")
        } else if names.contains(&group.name) {
            Some("another group")
        } else {
            None
        };
        if let Some(other) = taken {
            let message = format!("{other} has the name \"{}\" too", group.name);
            entry.refuse("name", Refusal::new(message, "give each its own name"));
        }
        names.insert(group.name.clone());
        list.push(group);
    }
    list
}

fn group(entry: &Section<'_>, grid: &Grid) -> Option<Group> {
    let name: Option<GridName> = entry.required("name");
    let rses = members(entry, grid);
    let directions = directions(entry);
    let segment = segment(entry, name.as_ref());
    let group = Group {
        name: name?.as_str().to_owned(),
        directions: directions?,
        segment,
        max_active: number(entry, "max_active"),
        max_rate: capacity(entry, "max_rate"),
        rses: rses?,
    };
    if !["capacity", "max_active", "max_rate"].iter().any(|key| entry.has(key)) {
        let message = format!("the group \"{}\" holds nothing back", group.name);
        entry.refuse("name", Refusal::new(message, "add capacity, max_active or max_rate"));
    }
    Some(group)
}

/// The capacity of the group, if bounded.
fn segment(entry: &Section<'_>, name: Option<&GridName>) -> Option<Segment> {
    let capacity = capacity(entry, "capacity");
    let background = rate(entry, "background").unwrap_or_default();
    let background_variation = share(entry, "background_variation").unwrap_or_default();
    let changes = changes(entry);
    if !entry.has("capacity") {
        for key in ["background", "background_variation", "changes"] {
            if entry.has(key) {
                let refusal = Refusal::new("there is no capacity that this could be a part of", "add capacity");
                entry.refuse(key, refusal);
            }
        }
    }
    Some(Segment {
        name: name?.as_str().to_owned(),
        capacity: capacity?,
        background,
        background_variation,
        changes,
    })
}

fn members(entry: &Section<'_>, grid: &Grid) -> Option<Vec<Pattern>> {
    if !entry.has("rses") {
        entry.miss("rses", "add rses = [\"…\"]: the RSEs that share it");
    }
    let patterns: Vec<Pattern> = entry.list("rses")?;
    if patterns.is_empty() {
        entry.refuse("rses", Refusal::new("names nobody", "write the RSEs that share it"));
    }
    for pattern in &patterns {
        let names = grid.rses.iter().map(|rse| rse.name.as_str());
        if !names.clone().any(|name| pattern.fits(name)) {
            let remedy = nearest(pattern.as_str(), names).map_or_else(
                || "use the RSEs of the grid, or *".to_owned(),
                |name| format!("did you mean \"{name}\"?"),
            );
            let message = format!("no RSE of the grid fits \"{}\"", pattern.as_str());
            entry.refuse("rses", Refusal::new(message, remedy));
        }
    }
    Some(patterns)
}

fn directions(entry: &Section<'_>) -> Option<[bool; 2]> {
    if !entry.has("direction") {
        return Some([true, true]);
    }
    let words = [("in", [true, false]), ("out", [false, true]), ("both", [true, true])];
    let word: String = entry.optional("direction")?;
    match one_of(&word, &words) {
        Ok(directions) => Some(directions),
        Err(refusal) => {
            entry.refuse("direction", refusal);
            None
        }
    }
}
