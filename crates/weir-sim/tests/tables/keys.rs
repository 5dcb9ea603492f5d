//! The keys that the parser accepts are those that are listed.

use weir_model::file::Key;
use weir_sim::SIM_TABLES;

use crate::{RATES, problems, with};

/// Tables that stand in place, and where.
const SIM_PARTS: [(&str, &str); 5] = [
    ("freezes", "[sim.store]\nfreezes = [{ … }]\n"),
    (
        "changes",
        "[[sim.segment]]\nname = \"s\"\ncapacity = \"1 Gb/s\"\nchanges = [{ … }]\n",
    ),
    ("read_curve", "[[sim.rse]]\nrse = \"*\"\nread_curve = [{ … }]\n"),
    ("servers", "[[sim.rse]]\nrse = \"*\"\nservers = [{ … }]\n"),
    ("failures", "[[sim.link]]\nlink = \"*->*\"\nfailures = { … }\n"),
];

/// A table about the simulated world that holds the line, and what else it needs.
fn sim(title: &str, key: &Key, line: &str) -> String {
    if let Some((_, text)) = SIM_PARTS.iter().find(|(part, _)| title.starts_with(part)) {
        return text.replace('…', line.trim());
    }
    let which = match title {
        "[[sim.rse]]" => "rse = \"*\"\n",
        "[[sim.site]]" => "site = \"*\"\n",
        "[[sim.link]]" => "link = \"*->*\"\n",
        "[[sim.group]]" => "name = \"g\"\nrses = [\"*\"]\ncapacity = \"1 Gb/s\"\n",
        _ => "",
    };
    let own = format!("{} =", key.name);
    let others: String = which
        .lines()
        .filter(|line| !line.starts_with(&own))
        .map(|line| format!("{line}\n"))
        .collect();
    format!("{title}\n{others}{line}")
}

/// A key would be in the handbook but not be read: each listed key, given a date, must be complained about by name and
/// for its type, and no table may list a key twice.
#[test]
fn every_listed_key_is_read() {
    for table in SIM_TABLES {
        for (at, key) in table.keys.iter().enumerate() {
            let is_twice = table.keys[..at].iter().any(|other| other.name == key.name);
            assert!(!is_twice, "{} twice", key.name);
            let line = format!("{} = 1979-05-27\n", key.name);
            let told = problems(&format!("{}{}", with(RATES), sim(table.title, key, &line)));
            let wrong = format!("{}: must be ", key.name);
            let found = told
                .lines()
                .any(|line| line.contains(&wrong) && line.contains("not a datetime"));
            assert!(found, "{} of {} is not read:\n{told}", key.name, table.title);
        }
    }
}

/// The handbook would list a key that does not exist, leave one out, or tell another default.
#[test]
fn the_handbook_lists_every_key() {
    let text = ["simulated-world.md", "simulated-services.md"].map(|page| {
        let folder = std::path::PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs");
        std::fs::read_to_string(folder.join(page)).unwrap()
    });
    let text = text.concat();
    let listed: Vec<&str> = text.lines().filter(|line| line.starts_with("| `")).collect();
    let known: Vec<String> = SIM_TABLES.iter().map(|table| table.markdown()).collect();
    let rows: Vec<&str> = known
        .iter()
        .flat_map(|table| table.lines())
        .filter(|line| line.starts_with("| `"))
        .collect();
    assert_eq!(listed, rows, "the page must hold these tables:\n{}", known.join("\n"));
    for table in SIM_TABLES {
        assert!(
            text.contains(&format!("\n## {}\n", table.title)),
            "no heading {}",
            table.title
        );
    }
}
