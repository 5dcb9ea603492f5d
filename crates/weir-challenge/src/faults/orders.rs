//! Orders about faults from outside of a run, and the state that the run tells.
//!
//! Both are files in the run folder. `faults/add-NAME.toml` and `faults/clear-NAME` are orders, which the run takes and removes.
//! `faults.json` is its state, and `faults.jsonl` has the orders that it carried out. The run opens no port: write permission on
//! the folder permits orders, and a run that has ended does not answer.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use weir_plan::fault::Fault;
use weir_plan::{Challenge, Overrides, Plan};

use crate::output::folder::{RunFolder, write_atomically};

/// The file of the state.
const STATE: &str = "faults.json";
/// The folder of the orders.
const ORDERS: &str = "faults";
/// Longest wait for the run to take an order.
const PATIENCE: Duration = Duration::from_secs(10);
/// Pause between two looks.
const LOOK: Duration = Duration::from_millis(50);
/// Largest order that is read.
const ORDER_MAX: u64 = 64 << 10;

/// The faults of a run, as it tells them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FaultStates {
    /// Seconds from the start of the run.
    pub at_s: f64,
    /// Every fault, in the order in which they came.
    pub faults: Vec<FaultState>,
    /// Orders that were not carried out, the last ones: name and reason.
    pub refused: Vec<(String, String)>,
}

/// One fault of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FaultState {
    /// Its name.
    pub name: String,
    /// Its kind, as in the file of a challenge.
    pub kind: String,
    /// Its place, as in the file of a challenge.
    pub place: String,
    /// Its amount with the unit, if the kind has one.
    pub amount: Option<String>,
    /// How far it is on now, from 0 to 1.
    pub level: f64,
    /// When it changes next, in seconds from the start of the run.
    pub next_s: Option<f64>,
    /// The state of whatever makes it.
    pub acted: Option<String>,
}

/// Why an order was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum OrderError {
    /// The folder is none of a run.
    #[error("{0} is no run folder")]
    NoRun(PathBuf),
    /// The run has ended.
    #[error("the run in {0} has ended")]
    Over(PathBuf),
    /// The text is no fault that this run could have.
    #[error("the fault is not valid")]
    Invalid(Vec<weir_model::Problem>),
    /// The run refuses it.
    #[error("the run refuses it: {0}")]
    Refused(String),
    /// The run does not take it.
    #[error("the run in {0} does not answer within 10 s")]
    Silent(PathBuf),
    /// A file cannot be read or written.
    #[error("{path}")]
    Access {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

/// An order that was taken.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Order {
    /// To begin the fault in these words of a challenge file.
    Add(String),
    /// To end the fault of this name.
    Clear(String),
}

/// Reads the state of a run under way.
///
/// # Errors
/// [`OrderError`]
pub fn states(run: &Path) -> Result<FaultStates, OrderError> {
    if !run.join("run.log").is_file() {
        return Err(OrderError::NoRun(run.to_owned()));
    }
    let path = run.join(STATE);
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(FaultStates::default()),
        Err(source) => return Err(OrderError::Access { path, source }),
    };
    serde_json::from_str(&text).map_err(|error| OrderError::Access {
        path,
        source: error.into(),
    })
}

/// Adds a fault to a run under way, in the words of a challenge file without `at`: it begins now. Gives its name.
///
/// # Errors
/// [`OrderError`]
pub fn add(run: &Path, table: &toml::Table) -> Result<String, OrderError> {
    check_running(run)?;
    let text = toml::to_string(table).expect("a table of texts and numbers can be written");
    let fault = parse(run, &text)?;
    if states(run)?.faults.iter().any(|known| known.name == fault.name) {
        let reason = format!("it has a fault called {} already", fault.name);
        return Err(OrderError::Refused(reason));
    }
    order(run, &format!("add-{}.toml", fault.name), &text)?;
    wait(run, &fault.name, |states| {
        states.faults.iter().any(|known| known.name == fault.name)
    })?;
    Ok(fault.name)
}

/// Ends faults of a run under way: those of these names, or all. Gives the names of those that were on.
///
/// # Errors
/// [`OrderError`]
pub fn clear(run: &Path, names: &[String]) -> Result<Vec<String>, OrderError> {
    check_running(run)?;
    let known = states(run)?.faults;
    let is_meant = |fault: &&FaultState| names.is_empty() || names.contains(&fault.name);
    let lasts = |fault: &&FaultState| fault.level > 0.0 || fault.next_s.is_some();
    if let Some(name) = names
        .iter()
        .find(|name| !known.iter().any(|fault| fault.name == **name))
    {
        return Err(OrderError::Refused(format!("it has no fault called {name}")));
    }
    let mut ended = Vec::new();
    for fault in known.iter().filter(is_meant).filter(lasts) {
        order(run, &format!("clear-{}", fault.name), "")?;
        let is_over = |of: &FaultState| of.name == fault.name && of.level <= 0.0 && of.next_s.is_none();
        wait(run, &fault.name, |states| states.faults.iter().any(is_over))?;
        ended.push(fault.name.clone());
    }
    Ok(ended)
}

fn check_running(run: &Path) -> Result<(), OrderError> {
    if !run.join("run.log").is_file() {
        return Err(OrderError::NoRun(run.to_owned()));
    }
    if !RunFolder::is_running(run) {
        return Err(OrderError::Over(run.to_owned()));
    }
    Ok(())
}

fn order(run: &Path, name: &str, text: &str) -> Result<(), OrderError> {
    let path = run.join(ORDERS).join(name);
    write_atomically(&path, |to| to.write_all(text.as_bytes())).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => OrderError::Silent(run.to_owned()), // it has not begun to take orders, or has ended
        _ => OrderError::Access { path, source },
    })
}

fn wait(run: &Path, name: &str, is_done: impl Fn(&FaultStates) -> bool) -> Result<(), OrderError> {
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        let states = states(run)?;
        if let Some((_, reason)) = states.refused.iter().find(|(refused, _)| refused == name) {
            return Err(OrderError::Refused(reason.clone()));
        }
        if is_done(&states) {
            return Ok(());
        }
        std::thread::sleep(LOOK);
    }
    Err(OrderError::Silent(run.to_owned()))
}

/// Reads a fault for the challenge of a run.
fn parse(run: &Path, text: &str) -> Result<Fault, OrderError> {
    let path = run.join("challenge.toml");
    let challenge = std::fs::read_to_string(&path).map_err(|source| OrderError::Access {
        path: path.clone(),
        source,
    })?;
    let plan = read(&challenge, text).map_err(OrderError::Invalid)?;
    Ok(plan.faults.last().cloned().expect("one was added"))
}

/// The plan of a challenge with one more fault.
pub(super) fn read(challenge: &str, fault: &str) -> Result<Plan, Vec<weir_model::Problem>> {
    let text = format!("{challenge}\n[[fault]]\n{fault}\n");
    Challenge::parse(&text, "fault".as_ref())?.resolve(&Overrides::default())
}

/// Problems in one line.
pub(super) fn words(problems: &[weir_model::Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// The orders of a run: its side.
#[derive(Debug)]
pub(super) struct Orders {
    run: PathBuf,
    challenge: String,
}

impl Orders {
    /// Begins to take orders.
    pub(super) fn open(run: &Path, challenge: &str) -> io::Result<Self> {
        use std::os::unix::fs::DirBuilderExt as _;
        std::fs::DirBuilder::new().mode(0o700).create(run.join(ORDERS))?;
        Ok(Self {
            run: run.to_owned(),
            challenge: challenge.to_owned(),
        })
    }

    /// Takes the orders that are there, by name.
    pub(super) fn take(&self) -> Vec<Order> {
        let mut names: Vec<_> = match std::fs::read_dir(self.run.join(ORDERS)) {
            Ok(entries) => entries.filter_map(|entry| Some(entry.ok()?.path())).collect(),
            Err(_) => return Vec::new(),
        };
        names.sort();
        names.iter().filter_map(|path| take(path)).collect()
    }

    /// Reads a fault that was ordered.
    pub(super) fn read(&self, text: &str) -> Result<Plan, String> {
        read(&self.challenge, text).map_err(|problems| words(&problems))
    }

    /// Tells the state. A disk that does not take it does not stop the run.
    pub(super) fn tell(&self, states: &FaultStates) {
        let text = serde_json::to_string_pretty(states).expect("plain data can be written as JSON");
        let written = write_atomically(&self.run.join(STATE), |to| to.write_all(text.as_bytes()));
        if let Err(error) = written {
            tracing::warn!(%error, "the state of faults is not written");
        }
    }
}

impl Drop for Orders {
    fn drop(&mut self) {
        let _gone = std::fs::remove_dir_all(self.run.join(ORDERS));
    }
}

fn take(path: &Path) -> Option<Order> {
    use std::io::Read as _;
    let name = path.file_name()?.to_str()?;
    let order = if let Some(name) = name.strip_prefix("clear-") {
        Order::Clear(name.to_owned())
    } else if name.starts_with("add-") {
        let mut text = String::new();
        let file = std::fs::File::open(path).ok()?;
        file.take(ORDER_MAX).read_to_string(&mut text).ok()?;
        Order::Add(text)
    } else {
        return None; // one that is being written
    };
    std::fs::remove_file(path).ok()?;
    Some(order)
}
