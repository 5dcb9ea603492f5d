//! How faults in challenge files are refused.

use crate::{GRID, RATES, problems, with};

fn check(text: &str, expected: &str) {
    assert_eq!(problems(text), expected, "for\n{text}");
}

/// A fault would be accepted, or reported without its place or its remedy.
#[test]
fn faults_of_the_challenge() {
    let rest = format!("{GRID}[[workload]]\n{RATES}");
    let top = |line: &str, expected: &str| check(&format!("name = \"c\"\n{line}\n{rest}"), expected);
    top("sede = 1", "c.toml:2: sede: unknown key; did you mean \"seed\"?");
    top("seed = -1", "c.toml:2: seed: -1 is negative; write 0 or more");
    top(
        "seed = 1.5",
        "c.toml:2: seed: must be a whole number, not a float; write a whole number, without quotes",
    );
    top(
        "seed = 9223372036854775808",
        "c.toml:2: seed: 9223372036854775808 is too large; write at most 9223372036854775807",
    );
    top(
        "scale = 0",
        "c.toml:2: scale: 0 is not a scale; write a number above 0 and up to 1000000, such as 0.01",
    );
    top("scale = nan", "c.toml:2: scale: is not a finite number; write a number");
    top(
        "scale = \"1%\"",
        "c.toml:2: scale: must be a number, not a text; write a number, without quotes",
    );
    top(
        "phases = 5",
        "c.toml:2: phases: must be a table, not an integer; write it as [phases]",
    );
    check(&rest, "c.toml: name: is missing; add name (name)");
    check(
        &format!("name = \"a/b\"\n{rest}"),
        "c.toml:1: name: the name \"a/b\" holds '/'; use 1 to 63 letters, digits, '.', '_' or '-', beginning with a letter or digit",
    );
    check(
        "name = \"c\"",
        "c.toml: grid: is missing; add grid = \"path of a grid file\", or [grid] with an [[grid.rse]] or more",
    );
    check(
        &format!("name = \"c\"\n{GRID}"),
        "c.toml: workload: is missing; add a [[workload]] with kind = \"rates\", \"matrix\" or \"ramp\"",
    );
    check(
        &format!("name = \"c\"\nworkload = []\n{GRID}"),
        "c.toml:2: workload: there is no workload to run; add a [[workload]]",
    );
    check(
        &with("rates = []"),
        "c.toml:10: workload.kind: is missing; add kind: one of rates, matrix, ramp",
    );
    check(
        &with("kind = \"rate\""),
        "c.toml:11: workload.kind: \"rate\" is not known here; did you mean \"rates\"?",
    );
    check(
        &format!("{}[[workload]]\n{RATES}", with(RATES)),
        "c.toml:13: workload.name: there are two workloads of the name \"rates\"; give each its own name",
    );
    let phases = |line: &str, expected: &str| check(&format!("{}[phases]\n{line}", with(RATES)), expected);
    phases(
        "hold = \"0 s\"",
        "c.toml:14: phases.hold: nothing is measured in no time; write a duration such as \"60 s\"",
    );
    phases(
        "hold = 60",
        "c.toml:14: phases.hold: duration 60 has no unit; add a unit, such as \"60 s\", in quotes",
    );
    phases(
        "hold = \"400 d\"",
        "c.toml:14: phases.hold: is longer than a year; write at most \"366 d\"",
    );
    phases(
        "ramp = \"25 h\"",
        "c.toml:14: phases.ramp: is longer than a day; write at most \"1 d\"",
    );
    phases(
        "hols = \"60 s\"",
        "c.toml:14: phases.hols: unknown key; did you mean \"hold\"?",
    );
    check(
        &with(RATES).replace("name = \"B\"", "name = \"A\""),
        "c.toml:7: grid.rse.name: \"A\" is there twice, first on line 4; choose another name or remove one",
    );
}

/// A wrong rate, link or bound would be accepted.
#[test]
fn faults_of_rates() {
    let entry =
        |entry: &str, expected: &str| check(&with(&format!("kind = \"rates\"\nrates = [\n{entry}\n]")), expected);
    entry(
        "{ source = \"A\", destination = \"B\", rate = 5 }",
        "c.toml:13: workload.rates.rate: rate 5 has no unit; add a unit, such as \"5 Gb/s\", in quotes",
    );
    entry(
        "{ source = \"A\", destination = \"B\", rate = \"5\" }",
        "c.toml:13: workload.rates.rate: rate \"5\" has no unit; add a unit, such as \"5 Gb/s\"",
    );
    entry(
        "{ source = \"A\", destination = \"B\", rate = \"-5 Gb/s\" }",
        "c.toml:13: workload.rates.rate: rate \"-5 Gb/s\" is negative; write a number and a unit, such as \"5 Gb/s\"",
    );
    entry(
        "{ source = \"A\", destination = \"B\", rate = \"0 Gb/s\" }",
        "c.toml:13: workload.rates.rate: must be above zero; write a rate, or leave the link out",
    );
    entry(
        "{ source = \"A\", destination = \"B\", rate = \"2 Pb/s\" }",
        "c.toml:13: workload.rates.rate: 2 Pb/s is too large; write at most 1 Pb/s",
    );
    entry(
        "{ source = \"A\", destination = \"QMUL\", rate = \"1 Gb/s\" }",
        "c.toml:13: workload.rates.destination: there is no RSE \"QMUL\" in the grid; use one of A, B, C",
    );
    entry(
        "{ source = \"A\", destination = \"A\", rate = \"1 Gb/s\" }",
        "c.toml:13: workload.rates.destination: A→A goes nowhere; name two different RSEs",
    );
    entry(
        "{ source = \"A\", rate = \"1 Gb/s\" }",
        "c.toml:13: workload.rates.destination: is missing; add destination (RSE)",
    );
    entry(
        "{ source = \"A\", destination = \"B\", rate = \"1 Gb/s\" },\n{ source = \"A\", destination = \"B\", rate = \"1 Gb/s\" }",
        "c.toml:14: workload.rates.destination: A→B is there twice; add the rates up",
    );
    entry(
        "",
        "c.toml:12: workload.rates: names no link; add { source = …, destination = …, rate = \"1 Gb/s\" }",
    );
    let line = |line: &str, expected: &str| check(&with(&format!("{RATES}{line}")), expected);
    line(
        "file_size_min = \"-1 MB\"",
        "c.toml:13: workload.file_size_min: size \"-1 MB\" is negative; write a number and a unit, such as \"5 GB\"",
    );
    line(
        "file_size_min = \"0 B\"",
        "c.toml:13: workload.file_size_min: must be above zero; write a size such as \"1 MB\"",
    );
    line(
        "file_size_max = \"9 EB\"",
        "c.toml:13: workload.file_size_max: 9 EB is too large; write at most 1 PB",
    );
    line(
        "file_size_max = \"1 kB\"",
        "c.toml:13: workload.file_size_max: the smallest file, 256 kB, is larger than the largest, 1 kB; correct one of the two",
    );
    line(
        "files_min = 0",
        "c.toml:13: workload.files_min: must be above zero; write 1 or more",
    );
    line(
        "cycle = \"1 ms\"",
        "c.toml:13: workload.cycle: is too short; write at least \"10ms\"",
    );
    line(
        "activity = \"\"",
        "c.toml:13: workload.activity: is not an activity; write a name of 1 to 100 characters",
    );
    line(
        "test = \"x\"",
        "c.toml:13: workload.test: picks rows of a table, and there is none; remove it, or use table",
    );
    line(
        "table = \"x.csv\"",
        "c.toml:13: workload.table: stands beside rates; keep one of the two",
    );
    line(
        "modes = [\"pull\"]",
        "c.toml:13: workload.modes: unknown key; known here: kind, name, activity, rates, table, test, file_size_min, file_size_max, files_min, inject, source_files, loop, lifetime, cycle, start, length",
    );
    line(
        "loop = true",
        "c.toml:13: workload.loop: is a loop of rules, and none is made; add a table [catalog] to the grid file, or remove it\nc.toml:13: workload.loop: does not say over how many files; add source_files = the number of files of a rule",
    );
    check(
        &with("kind = \"rates\""),
        "c.toml:10: workload.rates: is missing; add rates = [{ source = …, destination = …, rate = \"1 Gb/s\" }], or table = \"a CSV file\"",
    );
    check(
        &with("kind = \"rates\"\ntable = \"none.csv\""),
        "c.toml:12: workload.table: the table none.csv could not be read: no such file or directory; check the path and its permissions",
    );
}

/// A step that cannot run would be accepted.
#[test]
fn faults_of_steps() {
    let matrix = |rest: &str, expected: &str| check(&with(&format!("kind = \"matrix\"\n{rest}")), expected);
    matrix(
        "",
        "c.toml:10: workload.sizes: is missing; add sizes = [\"1 MB\", \"100 MB\"]",
    );
    matrix("sizes = []", "c.toml:12: workload.sizes: is empty; add a value");
    matrix(
        "sizes = [\"0 B\"]",
        "c.toml:12: workload.sizes: must be above zero; write a size such as \"1 MB\"",
    );
    matrix(
        "sizes = [\"1 MB\", 5]",
        "c.toml:12: workload.sizes: size 5 has no unit; add a unit, such as \"5 GB\", in quotes",
    );
    matrix(
        "sizes = [\"1 MB\", \"1000 kB\"]",
        "c.toml:12: workload.sizes: holds a value twice; keep one of them; repeat makes several transfers of each",
    );
    matrix(
        "sizes = [\"1 MB\"]\nmodes = [\"pul\"]",
        "c.toml:13: workload.modes: \"pul\" is not known here; did you mean \"pull\"?\nc.toml:13: workload.modes: is empty; add a value",
    );
    matrix(
        "sizes = [\"1 MB\"]\nlinks = [\"A->Z\"]",
        "c.toml:13: workload.links: there is no RSE \"Z\" in the grid; use one of A, B, C",
    );
    matrix(
        "sizes = [\"1 MB\"]\nlinks = [\"A-B\"]",
        "c.toml:13: workload.links: \"A-B\" is not a link; write \"SOURCE->DESTINATION\"\nc.toml:13: workload.links: is empty; add a value",
    );
    matrix(
        "sizes = [\"1 MB\"]\ntimeout = \"0 s\"",
        "c.toml:13: workload.timeout: is too short; write at least \"100ms\"",
    );
    let ramp = |rest: &str, expected: &str| check(&with(&format!("kind = \"ramp\"\n{rest}")), expected);
    ramp(
        "file_size = \"1 MB\"",
        "c.toml:10: workload.parallel: is missing; add parallel = [10, 40, 100]",
    );
    ramp(
        "parallel = [1]",
        "c.toml:10: workload.file_size: is missing; add file_size (size)",
    );
    ramp(
        "parallel = [0]\nfile_size = \"1 MB\"",
        "c.toml:12: workload.parallel: must be above zero; write 1 or more",
    );
    ramp(
        "parallel = [2000000]\nfile_size = \"1 MB\"",
        "c.toml:12: workload.parallel: 2000000 is too large; write at most 1000000",
    );
    let one = "name = \"c\"\n[grid]\nname = \"g\"\n[[grid.rse]]\nname = \"A\"\n[[workload]]\nkind = \"matrix\"\nsizes = [\"1 MB\"]";
    check(
        one,
        "c.toml:6: workload.links: is missing; add a second RSE to the grid: with one there is no link",
    );
}

/// A threshold would be accepted that no run can reach, or that means nothing.
#[test]
#[expect(clippy::too_many_lines, reason = "a list of faults")]
fn faults_of_thresholds() {
    let threshold = |rest: &str, expected: &str| check(&format!("{}[[threshold]]\n{rest}", with(RATES)), expected);
    threshold(
        "metric = \"ratio\"\nmin = 0.9",
        "c.toml:13: threshold.total: is missing; add total = true, or site, link or workload",
    );
    threshold(
        "total = true\nmin = 0.9",
        "c.toml:13: threshold.metric: is missing; add metric (metric)",
    );
    threshold(
        "total = true\nmetric = \"ratio\"",
        "c.toml:13: threshold.min: is missing; add min or max",
    );
    threshold(
        "total = true\nsite = \"B\"\nmetric = \"ratio\"\nmin = 0.9",
        "c.toml:15: threshold.site: stands beside total; keep one subject per threshold",
    );
    threshold(
        "total = false\nmetric = \"ratio\"\nmin = 0.9",
        "c.toml:14: threshold.total: is false; write true, or remove it",
    );
    threshold(
        "total = true\nmetric = \"ration\"\nmin = 0.9",
        "c.toml:15: threshold.metric: \"ration\" is not known here; did you mean \"ratio\"?",
    );
    threshold(
        "total = true\nmetric = \"ratio\"\nmin = 1.1",
        "c.toml:16: threshold.min: impossible: injection stops at the asked rate, so more than 1 comes by chance alone; write a number from 0 to 1, or ask a higher rate",
    );
    // Once, though the pattern stands for two sites.
    let link = |source, destination| {
        format!("{{ source = \"{source}\", destination = \"{destination}\", rate = \"1 Gb/s\" }}")
    };
    let both = with(&format!(
        "kind = \"rates\"\nrates = [{}, {}]\n",
        link("A", "B"),
        link("B", "A")
    ));
    check(
        &format!("{both}[[threshold]]\nsite = \"*\"\nmetric = \"ratio\"\nmin = 1.1"),
        "c.toml:16: threshold.min: impossible: injection stops at the asked rate, so more than 1 comes by chance alone; write a number from 0 to 1, or ask a higher rate",
    );
    threshold(
        "total = true\nmetric = \"ratio\"\nmin = -0.5",
        "c.toml:16: threshold.min: impossible: -0.5 is negative; write 0 or more",
    );
    threshold(
        "total = true\nmetric = \"ratio\"\nmin = \"0.9\"",
        "c.toml:16: threshold.min: must be a number, not the text \"0.9\"; write a number such as 0.9",
    );
    threshold(
        "total = true\nmetric = \"failed_ratio\"\nmax = 2",
        "c.toml:16: threshold.max: impossible: failed_ratio is at most 1; write a number from 0 to 1",
    );
    threshold(
        "total = true\nmetric = \"failed_ratio\"\nmin = 0.2\nmax = 0.1",
        "c.toml:16: threshold.min: impossible: min is above max; correct one of the two",
    );
    threshold(
        "total = true\nmetric = \"achieved\"\nmin = \"2 Gb/s\"",
        "c.toml:16: threshold.min: impossible: only 1 Gb/s is asked of total; write at most that, or ask a higher rate",
    );
    threshold(
        "total = true\nmetric = \"achieved\"\nmin = 2",
        "c.toml:16: threshold.min: rate 2 has no unit; add a unit, such as \"2 Gb/s\"",
    );
    threshold(
        "total = true\nmetric = \"lateness_max\"\nmax = 2",
        "c.toml:16: threshold.max: duration 2 has no unit; add a unit, such as \"2 s\"",
    );
    threshold(
        "site = \"C\"\nmetric = \"ratio\"\nmin = 0.9",
        "c.toml:14: threshold.site: no workload asks anything of site \"C\"; use one of *, A, B",
    );
    threshold(
        "site = \"A\"\nmetric = \"ratio\"\nmin = 0.9",
        "c.toml:14: threshold.site: impossible: no rate is asked of into site A; use failed_ratio, or ask a rate",
    );
    threshold(
        "link = \"B->A\"\nmetric = \"ratio\"\nmin = 0.9",
        "c.toml:14: threshold.link: no workload asks anything of link \"B→A\"; use one of *, A→B",
    );
    threshold(
        "workload = \"rats\"\nmetric = \"ratio\"\nmin = 0.9",
        "c.toml:14: threshold.workload: no workload asks anything of workload \"rats\"; did you mean \"rates\"?",
    );
    threshold(
        "link = \"*\"\nmetric = \"egress_ratio\"\nmin = 0.9",
        "c.toml:14: threshold.link: egress_ratio is a figure of sites, not of link A→B; use site, or metric = \"ratio\"",
    );
    threshold(
        "site = \"B\"\nmetric = \"crosscheck_difference\"\nmax = 0.9",
        "c.toml:14: threshold.site: cross-checks are not taken of site B; use total = true",
    );
    threshold(
        "site = \"B\"\nmetric = \"lateness_max\"\nmax = \"1 s\"",
        "c.toml:14: threshold.site: lateness is not taken of site B; use total = true",
    );
    threshold(
        "site = \"B\"\nmetric = \"ratio\"\nmin = 0.9\n[[threshold]]\nsite = \"*\"\nmetric = \"ratio\"\nmin = 0.8",
        "c.toml:20: threshold.min: there are two thresholds site B ratio >=; remove one of them",
    );
}
