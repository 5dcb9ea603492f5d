//! Incidents: small challenges with the deficit that they must show, and the remedy with which they must pass.
//!
//! An incident is a challenge file with three tables more: `[incident]` tells its story, `[expect]` its signs, and `[remedy]` the
//! change that helped. A run of the challenge passes over them; [`Incident`] reads them.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use toml::{Table as Content, Value};
use weir_model::file::{Document, Key, Part, Problem, Refusal, Section, Table};
use weir_units::BitRate;

use crate::spec::Challenge;

/// The tables of an incident, beside those of its challenge.
pub const INCIDENT_TABLES: &[&Table] = &[&INCIDENT, &EXPECT, &REMEDY];

const INCIDENT: Table = Table {
    title: "[incident]",
    keys: &[
        Key::new("title", "text", "required", "Its place and its effect, in a few words."),
        Key::new("story", "text", "required", "The events and their cause, in two lines."),
        Key::new("source", "text", "required", "The report that tells it."),
    ],
};

const EXPECT: Table = Table {
    title: "[expect]",
    keys: &[
        Key::new(
            "class",
            "list of classes",
            "required",
            "The class of the cause that a diagnosis must name; two where the sources leave it open.",
        ),
        Key::new(
            "wait",
            "state",
            "none",
            "The state with the largest part of the deficit: a [state](signals.md), `failed` or `not-injected`.",
        ),
        Key::new(
            "place",
            "place",
            "none",
            "The place that transfers wait for in that state, or that refuses them with `error`.",
        ),
        Key::new(
            "links",
            "list of `A->B`",
            "by place",
            "The links that miss bits, if the place does not tell.",
        ),
        Key::new(
            "from",
            "duration",
            "begin of the first fault",
            "When the deficit begins.",
        ),
        Key::new(
            "until",
            "duration",
            "end of the last fault, or of the hold",
            "When it ends.",
        ),
        Key::new(
            "held",
            "rate",
            "none",
            "The rate that those links get together in that time, within 15 %.",
        ),
        Key::new("error", "error class", "none", "A class of errors that the report has."),
        Key::new(
            "finding",
            "`crosscheck`, `audit`, `unstable`",
            "none",
            "A finding of the report though no rate is low: counters that differ, files that are gone, rates that vary.",
        ),
        Key::new(
            "silent",
            "true or false",
            "false",
            "Nothing is wrong: the challenge passes, and no link misses anything.",
        ),
    ],
};

const REMEDY: Table = Table {
    title: "[remedy]",
    keys: &[
        Key::new("text", "text", "required", "The remedy, in a few words."),
        Key::new("without", "list of faults", "all", "The faults that it takes away."),
        Key::new(
            "change",
            "table",
            "none",
            "Tables that it lays over the challenge: key by key, lists as a whole.",
        ),
    ],
};

/// Incidents of the sources that cannot be made yet, with what they need.
pub const WAITING: &[(&str, &str)] = &[
    ("INC-D30", "tape"),
    ("INC-D35", "tape"),
    ("INC-D43", "tape"),
    ("INC-D46", "tape"),
    ("INC-D49", "tape"),
    ("INC-D55", "a scan of logs and URLs for tokens"),
    ("INC-D72", "tape"),
    ("INC-X2", "caches"),
    ("INC-X3", "caches"),
];

/// An incident; see the module.
#[derive(Debug, Clone)]
pub struct Incident {
    /// Its id, which is the name of its challenge: `INC-J5`.
    pub id: String,
    /// Its place and its effect.
    pub title: String,
    /// The events and their cause.
    pub story: String,
    /// The report that tells it.
    pub source: String,
    /// The challenge with its faults.
    pub challenge: Challenge,
    /// The signs that a run must show.
    pub expect: Expect,
    /// The remedy, in a few words.
    pub remedy: String,
    /// The same challenge with the remedy.
    pub mended: Challenge,
}

/// The signs of an incident.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Expect {
    /// Words of the classes of causes; at least one unless it is silent.
    pub classes: Vec<String>,
    /// The state with the largest part of the deficit.
    pub wait: Option<String>,
    /// The place that is waited for, `kind:name`.
    pub place: Option<String>,
    /// The links that miss bits; found by the place if empty.
    pub links: Vec<String>,
    /// When the first fault begins.
    pub begins: Duration,
    /// When the deficit begins and ends.
    pub from: Duration,
    /// See `from`.
    pub until: Duration,
    /// The rate that is left.
    pub held: Option<BitRate>,
    /// A class of errors.
    pub error: Option<String>,
    /// A finding though no rate is low.
    pub finding: Option<Finding>,
    /// Nothing is wrong.
    pub is_silent: bool,
}

/// A finding of a report that is no deficit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finding {
    /// Independent counters differ, or one is missing.
    Crosscheck,
    /// Delivered files are gone.
    Audit,
    /// The rate varies more than a figure can stand for.
    Unstable,
}

impl Finding {
    /// The word of the file.
    pub fn as_str(self) -> &'static str {
        let found = Self::WORDS.iter().find(|(_, finding)| *finding == self);
        found.map_or("", |(word, _)| word)
    }

    const WORDS: [(&'static str, Finding); 3] = [
        ("crosscheck", Finding::Crosscheck),
        ("audit", Finding::Audit),
        ("unstable", Finding::Unstable),
    ];
}

impl Incident {
    /// Reads the text of an incident file, which `file` names.
    ///
    /// # Errors
    /// Every problem of the challenge, of the three tables, and of the challenge with the remedy.
    pub fn parse(text: &str, file: &Path) -> Result<Incident, Vec<Problem>> {
        let challenge = Challenge::parse(text, file)?;
        let missing = |key: &str| Problem {
            file: file.to_owned(),
            line: None,
            key: key.to_owned(),
            message: "is missing".to_owned(),
            remedy: format!("add [{key}]: an incident has it beside its challenge"),
        };
        let part = |part: &Option<Part>, key: &str| part.clone().ok_or_else(|| vec![missing(key)]);
        let told = part(&challenge.incident, "incident")?.parse(&INCIDENT, |table| {
            let text = |key| table.required::<String>(key);
            Some((text("title")?, text("story")?, text("source")?))
        })?;
        let expect = part(&challenge.expect, "expect")?.parse(&EXPECT, |table| Some(expect(table, &challenge)))?;
        let (remedy, without, change) = part(&challenge.remedy, "remedy")?.parse(&REMEDY, |table| {
            let without = without(table, &challenge)?;
            let change = table.part("change").map(|part| part.content().clone());
            Some((table.required::<String>("text")?, without, change.unwrap_or_default()))
        })?;
        let mended = mended(text, file, &without, change)?;
        let (title, story, source) = told;
        Ok(Incident {
            id: challenge.name.clone(),
            title,
            story,
            source,
            challenge,
            expect,
            remedy,
            mended,
        })
    }
}

fn without(table: &Section<'_>, challenge: &Challenge) -> Option<Vec<String>> {
    let all = || challenge.faults.iter().map(|fault| fault.name.clone()).collect();
    let names: Vec<String> = table.list("without").unwrap_or_else(all);
    for name in &names {
        if !challenge.faults.iter().any(|fault| fault.name == *name) {
            let message = format!("there is no fault \"{name}\"");
            table.refuse("without", Refusal::new(message, "name faults of this file"));
            return None;
        }
    }
    Some(names)
}

fn expect(table: &Section<'_>, challenge: &Challenge) -> Expect {
    let end = challenge.phases.end();
    let begins = challenge.faults.iter().map(|fault| fault.at).min();
    let ends = challenge.faults.iter().map(|fault| fault.until().unwrap_or(end)).max();
    let finding = table.optional::<String>("finding").and_then(|word| {
        let found = weir_model::file::one_of(&word, &Finding::WORDS);
        found.map_err(|refusal| table.refuse("finding", refusal)).ok()
    });
    let expect = Expect {
        classes: table.list("class").unwrap_or_default(),
        wait: table.optional("wait"),
        place: table.optional("place"),
        links: table
            .list::<weir_model::Link>("links")
            .unwrap_or_default()
            .iter()
            .map(ToString::to_string)
            .collect(),
        begins: begins.unwrap_or_default(),
        from: table.optional("from").or(begins).unwrap_or(challenge.phases.ramp),
        until: table.optional::<Duration>("until").or(ends).unwrap_or(end).min(end),
        held: table.optional("held"),
        error: table.optional("error"),
        finding,
        is_silent: table.or("silent", false),
    };
    if expect.wait.is_some() && expect.from >= expect.until {
        table.refuse("until", Refusal::new("is not after from", "correct one of the two"));
    }
    if expect.classes.is_empty() && !expect.is_silent {
        table.miss(
            "class",
            "add class = [\"…\"]: the cause that must be named, or silent = true",
        );
    }
    let has_sign = expect.wait.is_some() || expect.finding.is_some() || expect.error.is_some();
    if !has_sign && !expect.is_silent {
        table.miss("wait", "add wait, error or finding: the sign that a run must show");
    }
    expect
}

/// The challenge without some faults, with tables laid over it.
fn mended(text: &str, file: &Path, without: &[String], change: Content) -> Result<Challenge, Vec<Problem>> {
    let mut table: Content = toml::from_str(text).expect("the text was read as TOML before");
    for key in ["incident", "expect", "remedy"] {
        table.remove(key);
    }
    if let Some(Value::Array(faults)) = table.get_mut("fault") {
        let name = |fault: &Value| {
            let text = |key: &str| fault.get(key).and_then(Value::as_str).map(str::to_owned);
            text("name").or_else(|| text("kind")).unwrap_or_default()
        };
        faults.retain(|fault| !without.contains(&name(fault)));
    }
    lay_over(&mut table, change);
    let text = toml::to_string(&table).expect("a table that was read can be written");
    let named = file.with_file_name(format!("{} with its remedy", file.display()));
    Document::new(&text, &named).parse(&crate::keys::CHALLENGE, crate::read::challenge)
}

fn lay_over(table: &mut Content, change: Content) {
    for (key, value) in change {
        match (table.get_mut(&key), value) {
            (Some(Value::Table(below)), Value::Table(above)) => lay_over(below, above),
            (_, value) => {
                table.insert(key, value);
            }
        }
    }
}

/// Writes the table of incidents for the handbook, in Markdown.
pub fn markdown<'i>(incidents: impl Iterator<Item = &'i Incident>) -> String {
    let mut text = String::from("| incident | effect | faults | class | remedy |\n|---|---|---|---|---|\n");
    for incident in incidents {
        let mut faults: Vec<&str> = incident
            .challenge
            .faults
            .iter()
            .map(|fault| fault.kind.as_str())
            .collect();
        faults.dedup();
        let classes = if incident.expect.is_silent {
            "none".to_owned()
        } else {
            incident.expect.classes.join(" or ")
        };
        let _ = writeln!(
            text,
            "| {} | {} | {} | {classes} | {} |",
            incident.id.trim_start_matches("INC-"),
            incident.title,
            faults.join(", "),
            incident.remedy
        );
    }
    text
}
