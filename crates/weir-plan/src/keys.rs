//! Every key of the challenge file, as the parser accepts it and the handbook lists it.

use weir_model::file::{Key, Table};

use crate::fault::FAULT;

/// Every table of the challenge file but those under `sim`, in the order of the handbook.
pub const CHALLENGE_TABLES: &[&Table] = &[&CHALLENGE, &PHASES, &RATES, &RATE, &MATRIX, &RAMP, &THRESHOLD, &FAULT];

/// The challenge file itself.
pub(crate) const CHALLENGE: Table = Table {
    title: "The challenge",
    keys: &[
        Key::new(
            "name",
            "name",
            "required",
            "The challenge's name, also that of its run folders.",
        ),
        Key::new(
            "description",
            "text",
            "empty",
            "The purpose of the challenge, for the report.",
        ),
        Key::new(
            "seed",
            "number",
            "1",
            "The seed of everything drawn; `--seed` overrides it.",
        ),
        Key::new(
            "scale",
            "number",
            "1",
            "Multiplies every rate, and the file sizes of `matrix` and `ramp`; `--scale` overrides it.",
        ),
        Key::new(
            "grid",
            "path or `[grid]`",
            "required",
            "The grid file, or the grid itself with the keys of a grid file.",
        ),
        Key::new("phases", "`[phases]`", "as below", "How long to ramp, hold and drain."),
        Key::new(
            "workload",
            "list of `[[workload]]`",
            "required",
            "The workloads, at least one.",
        ),
        Key::new(
            "threshold",
            "list of `[[threshold]]`",
            "none",
            "What the run must reach to pass.",
        ),
        Key::new(
            "fault",
            "list of `[[fault]]`",
            "none",
            "What breaks on purpose: see [Faults](faults.md).",
        ),
        Key::new(
            "sim",
            "path or `[sim]`",
            "as below",
            "The simulated world, for `weir sim`; a real run passes over it.",
        ),
        Key::new(
            "incident",
            "path or `[incident]`",
            "none",
            "The story of an [incident](incidents.md), for `weir incident`; a run passes over it, as over the next two.",
        ),
        Key::new(
            "expect",
            "path or `[expect]`",
            "none",
            "The signs that a run of the incident must show.",
        ),
        Key::new(
            "remedy",
            "path or `[remedy]`",
            "none",
            "The remedy with which the incident must pass.",
        ),
    ],
};

pub(crate) const PHASES: Table = Table {
    title: "[phases]",
    keys: &[
        Key::new(
            "ramp",
            "duration",
            "`10 s`, without `rates` `0 s`",
            "Time in which rates rise to the asked ones; its last quarter runs at the full rate.",
        ),
        Key::new(
            "hold",
            "duration",
            "`60 s`, without `rates` `0 s`",
            "The time that is measured; `--duration` overrides it. With steps it lasts until the last one has ended, if \
             that is later.",
        ),
        Key::new(
            "drain",
            "duration",
            "`30 s`",
            "Longest time for transfers that are still under way after the hold.",
        ),
    ],
};

const NAME: Key = Key::new(
    "name",
    "name",
    "the kind",
    "The workload's name; no two workloads share one.",
);
const ACTIVITY: Key = Key::new(
    "activity",
    "text",
    "`Data Challenge`",
    "The activity under which the transfers are submitted.",
);
const LINKS: Key = Key::new(
    "links",
    "list of `\"A->B\"`",
    "every ordered pair of RSEs",
    "The links, in the order in which they are tried.",
);
const TIMEOUT: Key = Key::new(
    "timeout",
    "duration",
    "`5 m`",
    "Longest time for one step; what still runs then is cancelled and counts as failed.",
);

pub(crate) const RATES: Table = Table {
    title: "[[workload]] kind = \"rates\"",
    keys: &[
        Key::new("kind", "`rates`", "required", "Holds links at asked rates."),
        NAME,
        ACTIVITY,
        Key::new(
            "rates",
            "list of tables",
            "this or `table`",
            "The links with their rates, one table each.",
        ),
        Key::new(
            "table",
            "path",
            "this or `rates`",
            "A CSV file with the columns `source` (or `src`), `destination` (or `dst`) and `rate` (with unit) or \
             `rate_mbps`.",
        ),
        Key::new(
            "test",
            "text",
            "all rows",
            "Takes only the rows of the table whose column `test` holds this.",
        ),
        Key::new(
            "file_size_min",
            "size",
            "`256 kB`",
            "Smallest file size that may be chosen for a link.",
        ),
        Key::new(
            "file_size_max",
            "size",
            "`64 MB`",
            "Largest file size that may be chosen for a link.",
        ),
        Key::new(
            "files_min",
            "number",
            "30",
            "Files that must pass on each link in the hold; the file size follows from it, within the two bounds.",
        ),
        Key::new(
            "inject",
            "`rules` or `transfers`",
            "`rules` where the grid has a `[catalog]`",
            "The service that transfers are requested from: the catalogue, by a replication rule for the files of each cycle, or the transfer service, by jobs.",
        ),
        Key::new(
            "source_files",
            "number",
            "2; with rules as many as are needed",
            "Different files that a source holds for each of its links. With rules a file takes part again once its copy is deleted.",
        ),
        Key::new(
            "loop",
            "true or false",
            "false",
            "With rules: a link has one rule at a time, over all its `source_files`. The next one is made when these have come and their copies are gone. The rates are goals.",
        ),
        Key::new(
            "lifetime",
            "duration",
            "`20 s`; `1 h` with rules in a catalogue elsewhere; `30 d` in a loop",
            "How long a delivered file lives before it is deleted; with rules the lifetime of each rule, in whole seconds.",
        ),
        Key::new(
            "cycle",
            "duration",
            "`1 s`",
            "The injector's cycle: its backlog and its memory are a few of them.",
        ),
        Key::new(
            "start",
            "duration",
            "`0 s`",
            "When it begins, from the start of the run; its own ramp begins there.",
        ),
        Key::new(
            "length",
            "duration",
            "to the end of the hold",
            "How long it lasts, its ramp included.",
        ),
    ],
};

pub(crate) const RATE: Table = Table {
    title: "rates = [{ … }]",
    keys: &[
        Key::new("source", "RSE", "required", "Where the data is."),
        Key::new("destination", "RSE", "required", "Where the data goes."),
        Key::new("rate", "rate", "required", "The asked rate."),
    ],
};

pub(crate) const MATRIX: Table = Table {
    title: "[[workload]] kind = \"matrix\"",
    keys: &[
        Key::new(
            "kind",
            "`matrix`",
            "required",
            "Tries every link in every mode with every size.",
        ),
        NAME,
        ACTIVITY,
        LINKS,
        Key::new(
            "modes",
            "list of modes",
            "`[\"pull\", \"push\", \"streamed\"]`",
            "How the copy is made: the destination reads, the source writes, or the transfer service does both.",
        ),
        Key::new(
            "sizes",
            "list of sizes",
            "required",
            "The file sizes; small ones are tried first.",
        ),
        Key::new(
            "repeat",
            "number",
            "1",
            "Transfers per link, mode and size, one after the other.",
        ),
        Key::new(
            "at_once",
            "number",
            "1",
            "Cells of the matrix that run at the same time.",
        ),
        TIMEOUT,
    ],
};

pub(crate) const RAMP: Table = Table {
    title: "[[workload]] kind = \"ramp\"",
    keys: &[
        Key::new(
            "kind",
            "`ramp`",
            "required",
            "Tries each link with more and more parallel transfers.",
        ),
        NAME,
        ACTIVITY,
        LINKS,
        Key::new(
            "parallel",
            "list of numbers",
            "required",
            "Numbers of parallel transfers, in this order.",
        ),
        Key::new("file_size", "size", "required", "The size of each file."),
        Key::new(
            "source_files",
            "number",
            "2",
            "Different files that a source holds; transfers take turns at them.",
        ),
        Key::new(
            "repeat",
            "number",
            "1",
            "Files per parallel transfer, so that a step lasts.",
        ),
        Key::new("mode", "mode", "the service's choice", "`pull`, `push` or `streamed`."),
        TIMEOUT,
    ],
};

pub(crate) const THRESHOLD: Table = Table {
    title: "[[threshold]]",
    keys: &[
        Key::new(
            "total",
            "`true`",
            "one of the four",
            "Takes the figure of the whole run.",
        ),
        Key::new(
            "site",
            "site or `*`",
            "one of the four",
            "Takes the figure of what goes into a site (`egress_ratio`: comes out of it); `*` means each site that has this figure.",
        ),
        Key::new(
            "link",
            "`A->B` or `*`",
            "one of the four",
            "Takes the figure of one link; `*` means each link.",
        ),
        Key::new(
            "workload",
            "workload or `*`",
            "one of the four",
            "Takes the figure of one workload; `*` means each.",
        ),
        Key::new(
            "metric",
            "metric",
            "required",
            "The figure: `ratio` (achieved ÷ asked), `egress_ratio`, `achieved` (a rate), `failed_ratio`, `failed` (a \
             number), `efficiency`, `lateness_p95`, `lateness_max`, `rule_to_ok_p95` and `deletion_p95` (durations), `variation` (of the rate in the seconds of the hold, standard deviation ÷ mean), `crosscheck_difference`.",
        ),
        Key::new(
            "min",
            "as the metric",
            "this or `max`",
            "The figure must be at least this.",
        ),
        Key::new(
            "max",
            "as the metric",
            "this or `min`",
            "The figure must be at most this.",
        ),
    ],
};
