//! Admission control: limits on concurrent work, and the queue for its slots.
//!
//! A slot is returned when it is dropped, and goes to the next waiting request: VOs take turns, first in first out
//! within each. A third-party copy waits as long as its client, which is kept alive by markers. Other work waits for a
//! short time, since most bursts are short, and is then refused with `Retry-After`. A party that has used up its own
//! share is answered 429, others 503.
//!
//! Where the processors limit copies, few copies run at a time ([`ramp`]): more would end none of them sooner.
//!
//! The slot of a transfer or copy includes the floor of its memory. A request without free memory waits in the same
//! queue until some is returned.

mod ledger;
mod line;
mod ramp;
mod rate;

pub(crate) use ledger::{Party, Work};

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use http::StatusCode;
use parking_lot::Mutex;
use tokio::{
    runtime::Handle,
    sync::oneshot,
    time::{Instant, timeout},
};

use crate::{
    bandwidth::{Bandwidth, Throttle},
    config::{Limits, Share},
    memory::{Budget, Client, Lease, Scarce, WaitsForMemory},
    refusal::Refusal,
};
use ledger::{Full, Ledger};
use line::WaitQueue;
use ramp::{ProcessorUse, Ramp};
use rate::Rate;

/// The places of an endpoint.
#[derive(Clone)]
pub(crate) struct Admission(Arc<Inner>);

struct Inner {
    memory: Budget,
    bandwidth: Bandwidth,
    state: Mutex<State>,
}

struct State {
    limits: Limits,
    ledger: Ledger,
    lines: [WaitQueue<Waiter>; 3],
    ends: [Rate; 3],
    /// The queue that is served first when memory is returned: they take turns.
    copies_first: bool,
    /// How many copies the processors have time for.
    ramp: Ramp,
    /// Whether a task is watching the processors.
    watched: bool,
}

struct Waiter {
    party: Party,
    turn: oneshot::Sender<Slot>,
}

/// A place that was taken.
pub(crate) struct Slot {
    inner: Arc<Inner>,
    work: Work,
    party: Party,
    /// None for listings.
    memory: Option<Arc<Lease>>,
}

impl Slot {
    /// The memory of the transfer or copy that has it.
    pub(crate) fn memory(&self) -> Arc<Lease> {
        self.memory.clone().expect("listings alone have none, and ask for none")
    }

    /// The memory account of the client.
    pub(crate) fn client(&self) -> Arc<Client> {
        self.inner.memory.client(&self.party.client)
    }

    /// How fast it may move bytes.
    pub(crate) fn throttle(&self) -> Throttle {
        self.inner.bandwidth.throttle(&self.party)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let turns = {
            let mut state = self.inner.state.lock();
            state.ledger.give(self.work, &self.party);
            state.ends[self.work as usize].count(Instant::now());
            self.inner.turns(&mut state, self.work)
        };
        hand_out(turns);
    }
}

type Turns = Vec<(oneshot::Sender<Slot>, Slot)>;

/// Runs outside of the lock: the slot of a waiter that has just left is returned here.
fn hand_out(turns: Turns) {
    for (turn, place) in turns {
        let _ = turn.send(place);
    }
}

/// The right to a place, now or in turn.
pub(crate) enum Turn {
    Now(Slot),
    Later(Waiting),
}

/// An entry in the queue, for as long as this lives.
pub(crate) struct Waiting {
    inner: Arc<Inner>,
    work: Work,
    ticket: u64,
    turn: oneshot::Receiver<Slot>,
    full: Full,
    _for_memory: Option<WaitsForMemory>,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.inner.state.lock().lines[self.work as usize].leave(self.ticket);
        // The leaving entry may have been the only one.
        if self.inner.memory.is_wanted_by_any() {
            self.inner.memory_came();
        }
    }
}

impl Turn {
    /// Waits for the place, however long that takes.
    pub(crate) async fn come(self) -> Slot {
        match self {
            Self::Now(place) => place,
            Self::Later(mut waiting) => (&mut waiting.turn)
                .await
                .expect("only its own end takes a waiter from the line"),
        }
    }
}

impl Admission {
    pub(crate) fn new(limits: &Limits, shares: &[Share], memory: Budget) -> Self {
        let mut state = State {
            limits: limits.clone(),
            ledger: Ledger::new(limits, shares),
            lines: Default::default(),
            ends: Default::default(),
            copies_first: false,
            ramp: Ramp::new(limits.copies_at_first(), Instant::now()),
            watched: false,
        };
        state.bound_copies();
        let inner = Arc::new(Inner {
            memory,
            bandwidth: Bandwidth::new(limits, shares),
            state: Mutex::new(state),
        });
        let weak = Arc::downgrade(&inner);
        inner.memory.on_return(move || {
            if let Some(inner) = weak.upgrade() {
                inner.memory_came();
            }
        });
        Self(inner)
    }

    /// Changes the limits. Slots in use stay; new slots go to waiting requests.
    pub(crate) fn adjust(&self, limits: &Limits, shares: &[Share]) {
        self.0.bandwidth.adjust(limits, shares);
        let turns: Vec<_> = {
            let mut state = self.0.state.lock();
            state.limits = limits.clone();
            state.ledger.adjust(limits, shares);
            state.ramp.set_least(limits.copies_at_first());
            if !state.watched {
                state.ramp.rest();
            }
            state.bound_copies();
            let works = [Work::Transfer, Work::Copy, Work::Listing].into_iter();
            works.flat_map(|work| self.0.turns(&mut state, work)).collect()
        };
        hand_out(turns);
    }

    /// A place, after a little patience if need be.
    ///
    /// # Errors
    /// None became free in that time, or too many wait already.
    pub(crate) async fn enter(&self, work: Work, party: Party) -> Result<Slot, Refusal> {
        match self.line_up(work, party)? {
            Turn::Now(place) => Ok(place),
            Turn::Later(mut waiting) => {
                let patience = self.0.state.lock().limits.patience;
                if let Ok(Ok(place)) = timeout(patience, &mut waiting.turn).await {
                    return Ok(place);
                }
                let state = self.0.state.lock();
                Err(refusal(&waiting.full, &state))
            }
        }
    }

    /// A slot, or an entry in the queue for it.
    ///
    /// # Errors
    /// The queue is full: the endpoint's, or the party's.
    pub(crate) fn line_up(&self, work: Work, party: Party) -> Result<Turn, Refusal> {
        let mut state = self.0.state.lock();
        let taken = self.0.take(&mut state, work, &party);
        self.0.watch_processors(&mut state);
        let full = match taken {
            Ok(memory) => {
                let inner = self.0.clone();
                return Ok(Turn::Now(Slot {
                    inner,
                    work,
                    party,
                    memory,
                }));
            }
            Err(full) => full,
        };
        let (line, most) = (&state.lines[work as usize], state.most_waiting(work));
        if work == Work::Copy
            && let Some(most) = too_many_waiting(&state, &party)
        {
            let text = format!("{most} third-party copies of yours are waiting, as many as you may queue");
            return Err(busy(StatusCode::TOO_MANY_REQUESTS, text, time_for(&state, work)));
        }
        if line.len() >= most {
            let text = match work {
                Work::Copy => format!("{most} third-party copies are waiting, as many as this endpoint queues"),
                Work::Transfer | Work::Listing => full.to_string(),
            };
            return Err(busy(StatusCode::SERVICE_UNAVAILABLE, text, time_for(&state, work)));
        }
        let (turn, receiver) = oneshot::channel();
        let group = party.group().to_owned();
        let ticket = state.lines[work as usize].join(&group, Waiter { party, turn });
        drop(state);
        let waiting = Waiting {
            inner: self.0.clone(),
            work,
            ticket,
            turn: receiver,
            _for_memory: full.is_memory().then(|| self.0.memory.count_waiting()),
            full,
        };
        // Memory returned before the entry was queued was offered to others, which did not need it.
        if waiting.full.is_memory() {
            self.0.memory_came();
        }
        Ok(Turn::Later(waiting))
    }

    /// The limits of bandwidth.
    pub(crate) fn bandwidth(&self) -> Bandwidth {
        self.0.bandwidth.clone()
    }

    /// How many wait.
    #[cfg(test)]
    pub(crate) fn waiting(&self, work: Work) -> usize {
        self.0.state.lock().lines[work as usize].len()
    }
}

impl Inner {
    /// Removes the entries whose turn has come, with their slots.
    fn turns(self: &Arc<Self>, state: &mut State, work: Work) -> Turns {
        let turns = self.begin(state, work);
        if work == Work::Copy {
            self.watch_processors(state);
        }
        turns
    }

    fn begin(self: &Arc<Self>, state: &mut State, work: Work) -> Turns {
        let State {
            ledger, lines, ramp, ..
        } = state;
        let mut turns = Vec::new();
        loop {
            // Without any free slot no entry needs to be checked.
            if !ledger.has_room(work) {
                return turns;
            }
            let (mut memory, mut scarce) = (None, false);
            let next = |waiter: &Waiter| {
                if scarce || ledger.take(work, &waiter.party).is_err() {
                    return false;
                }
                match self.floor(work, &waiter.party) {
                    Ok(lease) => {
                        memory = lease;
                        true
                    }
                    Err(why) => {
                        // A client that holds its share lets other clients pass.
                        scarce = why == Scarce::All;
                        ledger.give(work, &waiter.party);
                        false
                    }
                }
            };
            let Some(waiter) = lines[work as usize].next(next) else {
                return turns;
            };
            if work == Work::Copy {
                ramp.began(Instant::now());
            }
            let place = Slot {
                inner: self.clone(),
                work,
                party: waiter.party,
                memory,
            };
            turns.push((waiter.turn, place));
        }
    }

    /// The memory that such work begins with; none for listings.
    fn floor(&self, work: Work, party: &Party) -> Result<Option<Arc<Lease>>, Scarce> {
        if !work.moves_data() {
            return Ok(None);
        }
        let client = self.memory.client(&party.client);
        self.memory.floor(Some(&client)).map(Some)
    }

    /// Takes a slot with its memory for a new request.
    fn take(&self, state: &mut State, work: Work, party: &Party) -> Result<Option<Arc<Lease>>, Full> {
        state.ledger.take(work, party)?;
        let memory = if work.moves_data() && self.memory.is_wanted() {
            // Earlier waiters have the memory first.
            Err(Scarce::All)
        } else {
            self.floor(work, party)
        };
        let memory = memory.map_err(|scarce| {
            state.ledger.give(work, party);
            Full::of_memory(work, self.memory.figures().0, scarce)
        })?;
        if work == Work::Copy {
            state.ramp.began(Instant::now());
        }
        Ok(memory)
    }

    /// Starts the task that watches the processors while many copies run, or wait.
    fn watch_processors(self: &Arc<Self>, state: &mut State) {
        if state.watched || !state.ramp.is_near(state.ledger.taken(Work::Copy)) {
            return;
        }
        // Slots are returned on any thread; the next request starts the task on a runtime's thread.
        if let Ok(runtime) = Handle::try_current() {
            state.watched = true;
            runtime.spawn(look_on(Arc::downgrade(self)));
        }
    }

    /// Adjusts the number of copies by the load of the processors; returns whether to look again.
    fn looked(self: &Arc<Self>, busy: bool) -> bool {
        let mut state = self.state.lock();
        let under_way = state.ledger.taken(Work::Copy);
        state.watched = state.ramp.is_near(under_way) || state.lines[Work::Copy as usize].len() > 0;
        if state.watched {
            state.ramp.look(busy, under_way, Instant::now());
        } else {
            state.ramp.rest();
        }
        state.bound_copies();
        let (turns, go_on) = (self.turns(&mut state, Work::Copy), state.watched);
        drop(state);
        hand_out(turns);
        go_on
    }

    /// Memory came free: both lines are asked, in turns which is first.
    fn memory_came(self: &Arc<Self>) {
        let turns = {
            let mut state = self.state.lock();
            self.memory.forget_wanted();
            state.copies_first = !state.copies_first;
            let (first, second) = if state.copies_first {
                (Work::Copy, Work::Transfer)
            } else {
                (Work::Transfer, Work::Copy)
            };
            let mut turns = self.turns(&mut state, first);
            turns.extend(self.turns(&mut state, second));
            turns
        };
        hand_out(turns);
    }
}

/// Looks at the processors until few copies are under way, or the endpoint is gone.
async fn look_on(inner: Weak<Inner>) {
    let cores = weir_http::cores();
    let mut before = ProcessorUse::now();
    loop {
        tokio::time::sleep(ramp::LOOK).await;
        // Here, and not where disks are waited for: the kernel answers out of memory.
        let now = ProcessorUse::now();
        let busy = now.is_busy_since(&before, cores);
        before = now;
        if !inner.upgrade().is_some_and(|inner| inner.looked(busy)) {
            return;
        }
    }
}

impl State {
    /// As many copies as there is a place for, and as the processors have time for.
    fn bound_copies(&mut self) {
        let most = self.limits.copies.min(self.ramp.limit());
        self.ledger.set_all(Work::Copy, most);
    }

    /// Copies for which there is a place, and no time yet: they do not wait in the queue that is configured.
    fn withheld(&self) -> usize {
        let begun = self.ledger.taken(Work::Copy).max(self.ramp.limit());
        self.limits.copies.saturating_sub(begun)
    }

    fn most_waiting(&self, work: Work) -> usize {
        match work {
            Work::Copy => self.limits.copies_queued.saturating_add(self.withheld()),
            // Patience bounds the waiting time, and every entry has a connection.
            Work::Transfer | Work::Listing => self.limits.connections,
        }
    }
}

fn refusal(full: &Full, state: &State) -> Refusal {
    let status = if full.is_theirs() {
        StatusCode::TOO_MANY_REQUESTS
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    busy(status, full.to_string(), time_for(state, full.work()))
}

/// The share of the queue that a party, or its VO, has used up.
fn too_many_waiting(state: &State, party: &Party) -> Option<usize> {
    let line = &state.lines[Work::Copy as usize];
    let shares = state.ledger.queue_shares(party, state.withheld()).into_iter();
    let mut full = shares.filter(|(kind, most)| {
        let name = party.name(*kind);
        line.count(|waiter| waiter.party.name(*kind) == name) >= *most
    });
    full.next().map(|(_, most)| most)
}

/// When it is worth coming again.
fn time_for(state: &State, work: Work) -> Duration {
    state.ends[work as usize].time_for(state.lines[work as usize].len(), Instant::now())
}

fn busy(status: StatusCode, text: String, after: Duration) -> Refusal {
    Refusal::new(status, text).coming_again(after)
}

#[cfg(test)]
mod tests;
