//! A back end that fails on demand: it stands before any other, counts what is asked of it, and at the n-th call of a kind does what
//! disks, quotas and `kill -9` do.
//!
//! Behind it the disk is real: the leftovers of a fault lie there, and can be looked at, swept and counted like anything else.

mod backend;

use std::{collections::BTreeMap, io, sync::Arc, time::Duration};

use parking_lot::{Condvar, Mutex, MutexGuard};
use rustix::io::Errno;
use weir_storage::{
    AreaConfig, Directories, OpenArea,
    backend::{Backend, BackendError, OpenRoot},
};

pub(crate) use backend::Faulty;

/// The calls of a back end, of its readers, drafts, removals, listings and directories.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Call {
    Stat,
    List,
    Next,
    Open,
    Read,
    Checksums,
    KeepChecksums,
    Draft,
    Reserve,
    Write,
    Seal,
    Publish,
    MakeDirectory,
    RemoveFile,
    RemoveDirectory,
    DeferRemoval,
    Supplant,
    Rename,
    Properties,
    KeepProperties,
    Stage,
    PublishStage,
    Flush,
    Empty,
    Space,
    Usage,
    Height,
    Sweep,
}

/// The effect at a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Nothing is done, and the system says why.
    Error(Errno),
    /// Half of the bytes are written, and the system says why not the rest. Of other calls: as [`Fault::Error`].
    Torn(Errno),
    /// It takes so long.
    Delay(Duration),
    /// It waits until [`Faults::release`].
    Held,
    /// The process is killed before it is done, if it writes in the middle of it: nothing is done any more, and nothing is cleaned up.
    Stop,
    /// The process is killed when it is done, and nobody hears of it.
    StopAfter,
}

/// The planned faults, and the calls so far; one for all areas, and for all lives of an endpoint.
#[derive(Clone, Default)]
pub(crate) struct Faults(Arc<Shared>);

#[derive(Default)]
struct Shared {
    plan: Mutex<Plan>,
    released: Condvar,
}

#[derive(Default)]
struct Plan {
    calls: BTreeMap<Call, u64>,
    /// At the n-th call of this kind, or at each where there is no number.
    armed: Option<(Call, Option<u64>, Fault)>,
    fired: u64,
    waiting: u64,
    stopped: bool,
    no_attributes: bool,
}

/// The outcome of a call.
enum Verdict {
    Do,
    Fail(Errno),
    /// Of a write: half of it.
    Tear(Errno),
    /// As if the process were gone.
    Dead,
    TornDead,
    DoneDead,
}

impl Faults {
    /// From now on the calls are counted anew, and the n-th of this kind (from 0) meets the fault.
    pub(crate) fn arm(&self, call: Call, number: u64, fault: Fault) {
        self.set(Some((call, Some(number), fault)));
    }

    /// The same for each call of this kind.
    pub(crate) fn arm_all(&self, call: Call, fault: Fault) {
        self.set(Some((call, None, fault)));
    }

    /// From now on the calls are counted anew, all goes well again, and what was held goes on.
    pub(crate) fn release(&self) {
        self.set(None);
    }

    fn set(&self, armed: Option<(Call, Option<u64>, Fault)>) {
        let mut plan = self.0.plan.lock();
        let no_attributes = plan.no_attributes;
        let waiting = plan.waiting;
        *plan = Plan {
            armed,
            waiting,
            no_attributes,
            ..Plan::default()
        };
        self.0.released.notify_all();
    }

    /// Whether extended attributes can be kept.
    pub(crate) fn keep_attributes(&self, keep: bool) {
        self.0.plan.lock().no_attributes = !keep;
    }

    /// How often each was called since the plan was last changed.
    pub(crate) fn calls(&self) -> BTreeMap<Call, u64> {
        self.0.plan.lock().calls.clone()
    }

    /// How many calls have met the fault.
    pub(crate) fn fired(&self) -> u64 {
        self.0.plan.lock().fired
    }

    /// How many calls are held now.
    pub(crate) fn waiting(&self) -> u64 {
        self.0.plan.lock().waiting
    }

    /// Whether the process counts as killed.
    pub(crate) fn stopped(&self) -> bool {
        self.0.plan.lock().stopped
    }

    fn without_attributes(&self) -> bool {
        self.0.plan.lock().no_attributes
    }

    /// Counts a call, and tells what becomes of it.
    fn meet(&self, call: Call) -> Verdict {
        let mut plan = self.0.plan.lock();
        if plan.stopped {
            return Verdict::Dead;
        }
        let count = plan.calls.entry(call).or_default();
        let number = *count;
        *count += 1;
        let Some((_, _, fault)) = plan
            .armed
            .filter(|(kind, nth, _)| *kind == call && nth.is_none_or(|nth| nth == number))
        else {
            return Verdict::Do;
        };
        plan.fired += 1;
        match fault {
            Fault::Error(errno) => Verdict::Fail(errno),
            Fault::Torn(errno) => Verdict::Tear(errno),
            Fault::Delay(time) => {
                drop(plan);
                std::thread::sleep(time);
                Verdict::Do
            }
            Fault::Held => {
                self.hold(plan);
                Verdict::Do
            }
            Fault::Stop => {
                plan.stopped = true;
                Verdict::TornDead
            }
            Fault::StopAfter => {
                plan.stopped = true;
                Verdict::DoneDead
            }
        }
    }

    fn hold(&self, mut plan: MutexGuard<'_, Plan>) {
        plan.waiting += 1;
        let held = |plan: &mut Plan| matches!(plan.armed, Some((_, _, Fault::Held)));
        // Not for ever: a test that fails must end.
        self.0.released.wait_while_for(&mut plan, held, Duration::from_secs(20));
        plan.waiting -= 1;
    }

    /// Carries out a call that is whole or not at all.
    fn carry_out<T>(&self, call: Call, work: impl FnOnce() -> Result<T, BackendError>) -> Result<T, BackendError> {
        match self.meet(call) {
            Verdict::Do => work(),
            Verdict::Fail(errno) | Verdict::Tear(errno) => Err(error(errno)),
            Verdict::Dead | Verdict::TornDead => Err(dead()),
            Verdict::DoneDead => {
                // A dead process cleans nothing up.
                std::mem::forget(work());
                Err(dead())
            }
        }
    }
}

fn error(errno: Errno) -> BackendError {
    BackendError::system("do what a test forbids", errno.into())
}

/// The error that a killed process would give, if it could.
fn dead() -> BackendError {
    BackendError::system("go on after its end", io::Error::other("the process was killed"))
}

/// Areas in directories, behind faults. A directory stays open between two lives of an endpoint: leftovers of the first cannot
/// be dropped, since dropping it would clean it up.
pub(crate) struct FaultyAreas {
    faults: Faults,
    disks: Mutex<BTreeMap<String, Arc<dyn Backend>>>,
}

impl FaultyAreas {
    pub(crate) fn new(faults: &Faults) -> Arc<Self> {
        Arc::new(Self {
            faults: faults.clone(),
            disks: Mutex::default(),
        })
    }
}

impl OpenArea for FaultyAreas {
    fn open(&self, area: &AreaConfig) -> Result<Arc<dyn Backend>, OpenRoot> {
        let mut disks = self.disks.lock();
        let disk = match disks.get(&area.name) {
            Some(disk) => disk.clone(),
            None => Directories.open(area)?,
        };
        disks.insert(area.name.clone(), disk.clone());
        Ok(Arc::new(Faulty::new(disk, &self.faults)))
    }
}
