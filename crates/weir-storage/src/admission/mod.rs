//! How much is done at one time, and for whom.
//!
//! A place is given back when it is dropped, and goes to whoever waits: VOs take turns, and within each who came first is first.
//! A third-party copy waits as long as its client does, which is kept alive by markers; other work waits a little, since most
//! bursts are short, and is then told when to come again. Who has used up a share of their own is answered 429, others 503.
//!
//! With the place of a transfer or copy comes the floor of its memory. Who finds none waits in the same line, whose turn it is when
//! some comes free, wherever it was held.

mod ledger;
mod line;
mod rate;

pub(crate) use ledger::{Party, Work};

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use http::StatusCode;
use tokio::{
    sync::oneshot,
    time::{Instant, timeout},
};

use crate::{
    bandwidth::{Bandwidth, Throttle},
    config::{Limits, Share},
    memory::{Budget, Lease, WaitsForMemory},
    refusal::Refusal,
};
use ledger::{Full, Ledger};
use line::Line;
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
    lines: [Line<Waiter>; 3],
    ends: [Rate; 3],
    /// Which line is asked first when memory comes free: they take turns.
    copies_first: bool,
}

struct Waiter {
    party: Party,
    turn: oneshot::Sender<Place>,
}

/// A place that was taken.
pub(crate) struct Place {
    inner: Arc<Inner>,
    work: Work,
    party: Party,
    /// None for listings.
    memory: Option<Arc<Lease>>,
}

impl Place {
    /// The memory of the transfer or copy that has it.
    pub(crate) fn memory(&self) -> Arc<Lease> {
        self.memory.clone().expect("listings alone have none, and ask for none")
    }

    /// How fast it may move bytes.
    pub(crate) fn throttle(&self) -> Throttle {
        self.inner.bandwidth.throttle(&self.party)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let turns = {
            let mut state = self.inner.state();
            state.ledger.give(self.work, &self.party);
            state.ends[self.work as usize].count(Instant::now());
            self.inner.turns(&mut state, self.work)
        };
        hand_out(turns);
    }
}

type Turns = Vec<(oneshot::Sender<Place>, Place)>;

/// Outside of the lock: the place of somebody who has just left comes back here.
fn hand_out(turns: Turns) {
    for (turn, place) in turns {
        let _ = turn.send(place);
    }
}

/// The right to a place, now or in turn.
pub(crate) enum Turn {
    Now(Place),
    Later(Waiting),
}

/// Somebody in the line, for as long as this lives.
pub(crate) struct Waiting {
    inner: Arc<Inner>,
    work: Work,
    ticket: u64,
    turn: oneshot::Receiver<Place>,
    full: Full,
    _for_memory: Option<WaitsForMemory>,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.inner.state().lines[self.work as usize].leave(self.ticket);
        // Who leaves may have been the only one.
        if self.inner.memory.is_wanted() {
            self.inner.memory_came();
        }
    }
}

impl Turn {
    /// Waits for the place, however long that takes.
    pub(crate) async fn come(self) -> Place {
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
        let state = State {
            limits: limits.clone(),
            ledger: Ledger::new(limits, shares),
            lines: Default::default(),
            ends: Default::default(),
            copies_first: false,
        };
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

    /// Other limits from now on. Nobody loses a place; where there are more, those who wait have their turn.
    pub(crate) fn adjust(&self, limits: &Limits, shares: &[Share]) {
        self.0.bandwidth.adjust(limits, shares);
        let turns: Vec<_> = {
            let mut state = self.0.state();
            state.limits = limits.clone();
            state.ledger.adjust(limits, shares);
            let works = [Work::Transfer, Work::Copy, Work::Listing].into_iter();
            works.flat_map(|work| self.0.turns(&mut state, work)).collect()
        };
        hand_out(turns);
    }

    /// A place, after a little patience if need be.
    ///
    /// # Errors
    /// None became free in that time, or too many wait already.
    pub(crate) async fn enter(&self, work: Work, party: Party) -> Result<Place, Refusal> {
        match self.line_up(work, party)? {
            Turn::Now(place) => Ok(place),
            Turn::Later(mut waiting) => {
                let patience = self.0.state().limits.patience;
                if let Ok(Ok(place)) = timeout(patience, &mut waiting.turn).await {
                    return Ok(place);
                }
                let state = self.0.state();
                Err(refusal(&waiting.full, &state))
            }
        }
    }

    /// A place, or one in the line for it.
    ///
    /// # Errors
    /// As many wait as may: of all, or of those who ask.
    pub(crate) fn line_up(&self, work: Work, party: Party) -> Result<Turn, Refusal> {
        let mut state = self.0.state();
        let full = match self.0.take(&mut state, work, &party) {
            Ok(memory) => {
                let inner = self.0.clone();
                return Ok(Turn::Now(Place {
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
        // What came free before it stood in the line was told to others, who did not need it.
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
        self.0.state().lines[work as usize].len()
    }
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Those whose turn has come, with their places.
    fn turns(self: &Arc<Self>, state: &mut State, work: Work) -> Turns {
        let State { ledger, lines, .. } = state;
        let mut turns = Vec::new();
        loop {
            // Without room at all nobody can go: nobody need be asked.
            if !ledger.has_room(work) {
                return turns;
            }
            let (mut memory, mut scarce) = (None, false);
            let next = |waiter: &Waiter| {
                if scarce || ledger.take(work, &waiter.party).is_err() {
                    return false;
                }
                memory = self.floor(work);
                scarce = memory.is_none() && work.moves_data();
                if scarce {
                    ledger.give(work, &waiter.party);
                }
                !scarce
            };
            let Some(waiter) = lines[work as usize].next(next) else {
                return turns;
            };
            let place = Place {
                inner: self.clone(),
                work,
                party: waiter.party,
                memory,
            };
            turns.push((waiter.turn, place));
        }
    }

    fn floor(&self, work: Work) -> Option<Arc<Lease>> {
        if work.moves_data() { self.memory.floor() } else { None }
    }

    /// A place for somebody who has just come, with its memory.
    fn take(&self, state: &mut State, work: Work, party: &Party) -> Result<Option<Arc<Lease>>, Full> {
        state.ledger.take(work, party)?;
        // Who came before and waits for memory has it first.
        let behind_others = work.moves_data() && self.memory.is_wanted();
        let memory = if behind_others { None } else { self.floor(work) };
        if memory.is_none() && work.moves_data() {
            state.ledger.give(work, party);
            return Err(Full::of_memory(work, self.memory.figures().0));
        }
        Ok(memory)
    }

    /// Memory came free: both lines are asked, in turns which is first.
    fn memory_came(self: &Arc<Self>) {
        let turns = {
            let mut state = self.state();
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

impl State {
    fn most_waiting(&self, work: Work) -> usize {
        match work {
            Work::Copy => self.limits.copies_queued,
            // Patience bounds the time, and nobody waits without a connection.
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
    let shares = state.ledger.queue_shares(party).into_iter();
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
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]

    use super::*;

    fn party(vo: &str) -> Party {
        Party {
            vo: Some(vo.to_owned()),
            client: "me".to_owned(),
            area: "data".to_owned(),
        }
    }

    fn admission(limits: &Limits, share: &[Share]) -> Admission {
        Admission::new(limits, share, Budget::new(1 << 30))
    }

    fn one_at_a_time() -> Limits {
        Limits {
            transfers: 1,
            copies: 1,
            copies_queued: 3,
            ..Limits::default()
        }
    }

    /// A burst that is over in a moment would cost a client a retry after seconds.
    #[tokio::test(start_paused = true)]
    async fn a_place_that_comes_free_soon_is_waited_for() {
        let admission = admission(&one_at_a_time(), &[]);
        let held = admission.enter(Work::Transfer, party("a")).await.unwrap();
        let waiting = tokio::spawn({
            let admission = admission.clone();
            async move { admission.enter(Work::Transfer, party("b")).await }
        });
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(admission.waiting(Work::Transfer), 1);
        drop(held);
        let place = waiting.await.unwrap().unwrap();
        let refusal = admission.enter(Work::Transfer, party("a")).await.err().unwrap();
        assert_eq!(refusal.status, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(admission.waiting(Work::Transfer), 0);
        drop(place);
        assert!(matches!(
            admission.line_up(Work::Transfer, party("a")).unwrap(),
            Turn::Now(_)
        ));
    }

    /// A VO that queues thousands of copies would have the endpoint for itself.
    #[tokio::test(start_paused = true)]
    async fn one_vo_does_not_starve_another() {
        let admission = admission(&one_at_a_time(), &[]);
        let held = admission.line_up(Work::Copy, party("many")).unwrap();
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = Vec::new();
        for vo in ["many", "many", "few"] {
            let (turn, order) = (admission.line_up(Work::Copy, party(vo)).unwrap(), order.clone());
            tasks.push(tokio::spawn(async move {
                let place = turn.come().await;
                order.lock().unwrap().push(vo);
                tokio::time::sleep(Duration::from_secs(1)).await;
                drop(place);
            }));
        }
        let refusal = admission.line_up(Work::Copy, party("few")).err().unwrap();
        assert_eq!(refusal.status, StatusCode::SERVICE_UNAVAILABLE);
        drop(held);
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(*order.lock().unwrap(), ["many", "few", "many"]);
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_used_up_a_share_is_told_so_and_others_go_on() {
        let share = Share {
            vo: Some("*".to_owned()),
            copies: Some(1),
            copies_queued: Some(1),
            transfers: Some(1),
            ..Share::default()
        };
        let limits = Limits {
            copies: 10,
            ..Limits::default()
        };
        let admission = admission(&limits, &[share]);
        let _first = admission.enter(Work::Transfer, party("a")).await.unwrap();
        let refusal = admission.enter(Work::Transfer, party("a")).await.err().unwrap();
        assert_eq!(refusal.status, StatusCode::TOO_MANY_REQUESTS);
        admission.enter(Work::Transfer, party("b")).await.unwrap();
        let _copy = admission.line_up(Work::Copy, party("a")).unwrap();
        let _queued = admission.line_up(Work::Copy, party("a")).unwrap();
        let refusal = admission.line_up(Work::Copy, party("a")).err().unwrap();
        assert_eq!(refusal.status, StatusCode::TOO_MANY_REQUESTS);
        assert!(matches!(
            admission.line_up(Work::Copy, party("b")).unwrap(),
            Turn::Now(_)
        ));
    }

    /// A client that queues much would have all of its VO refused.
    #[tokio::test]
    async fn a_clients_share_of_the_queue_is_its_own() {
        let share = Share {
            client: Some("*".to_owned()),
            copies_queued: Some(1),
            ..Share::default()
        };
        let admission = admission(&one_at_a_time(), &[share]);
        let of = |client: &str| Party {
            client: client.to_owned(),
            ..party("vo")
        };
        let _running = admission.line_up(Work::Copy, of("fts")).unwrap();
        let _queued = admission.line_up(Work::Copy, of("fts")).unwrap();
        assert!(admission.line_up(Work::Copy, of("fts")).is_err());
        assert!(admission.line_up(Work::Copy, of("me")).is_ok());
    }

    /// A reload that raises a limit would be felt only when somebody ends; one that brings in a share would lose count of those
    /// who had a place before it.
    #[tokio::test(start_paused = true)]
    async fn limits_change_under_those_who_have_places_and_those_who_wait() {
        let admission = admission(&one_at_a_time(), &[]);
        let first = admission.line_up(Work::Copy, party("a")).unwrap();
        let waiting = admission.line_up(Work::Copy, party("a")).unwrap();
        let two = Limits {
            copies: 2,
            ..one_at_a_time()
        };
        admission.adjust(&two, &[]);
        let second = waiting.come().await;
        assert_eq!(admission.waiting(Work::Copy), 0);
        let share = Share {
            vo: Some("*".to_owned()),
            copies: Some(2),
            ..Share::default()
        };
        let many = Limits {
            copies: 10,
            ..one_at_a_time()
        };
        admission.adjust(&many, &[share]);
        let Turn::Later(third) = admission.line_up(Work::Copy, party("a")).unwrap() else {
            panic!("those who were there before do not count")
        };
        drop(first);
        drop(second);
        let third = Turn::Later(third).come().await;
        // All are given back to where they were taken.
        drop(third);
        admission.adjust(&one_at_a_time(), &[]);
        assert!(matches!(
            admission.line_up(Work::Copy, party("a")).unwrap(),
            Turn::Now(_)
        ));
    }

    /// Copies that wait for memory would wait for ever while others come and go, or the others while copies do.
    #[tokio::test(start_paused = true)]
    async fn memory_goes_to_whoever_waits_for_whatever_work() {
        let limits = Limits {
            patience: Duration::from_secs(60),
            ..Limits::default()
        };
        let memory = Budget::new(2 * crate::memory::FLOOR);
        let admission = Admission::new(&limits, &[], memory.clone());
        let mut held = vec![
            admission.enter(Work::Transfer, party("a")).await.unwrap(),
            admission.enter(Work::Transfer, party("a")).await.unwrap(),
        ];
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = Vec::new();
        for number in 0..6 {
            let work = if number < 3 { Work::Transfer } else { Work::Copy };
            let (turn, order) = (admission.line_up(work, party("a")).unwrap(), order.clone());
            tasks.push(tokio::spawn(async move {
                let place = turn.come().await;
                order.lock().unwrap().push(work);
                tokio::time::sleep(Duration::from_secs(1)).await;
                drop(place);
            }));
        }
        // One who comes later does not pass those who wait.
        let late = admission.line_up(Work::Listing, party("a")).unwrap();
        assert!(matches!(late, Turn::Now(_)), "a listing needs none");
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(memory.figures().2, 6);
        assert!(matches!(
            admission.line_up(Work::Transfer, party("b")).unwrap(),
            Turn::Later(_)
        ));
        held.pop();
        for task in tasks {
            task.await.unwrap();
        }
        let order = order.lock().unwrap();
        let copies = |range: std::ops::Range<usize>| order[range].iter().filter(|work| **work == Work::Copy).count();
        assert!((1..=3).contains(&copies(0..4)), "{order:?}");
        assert_eq!((order.len(), copies(0..6)), (6, 3));
        assert_eq!(memory.figures(), (2 * crate::memory::FLOOR, crate::memory::FLOOR, 0));
    }

    /// A client that goes away while it waits must leave nothing behind, at whichever moment.
    #[tokio::test(start_paused = true)]
    async fn who_leaves_the_line_loses_no_place() {
        let admission = admission(&one_at_a_time(), &[]);
        let held = admission.line_up(Work::Copy, party("a")).unwrap();
        let leaving = admission.line_up(Work::Copy, party("b")).unwrap();
        let patient = admission.line_up(Work::Copy, party("c")).unwrap();
        drop(leaving);
        assert_eq!(admission.waiting(Work::Copy), 1);
        drop(held);
        // Its turn has come, and it leaves before it knows.
        drop(patient);
        assert!(matches!(
            admission.line_up(Work::Copy, party("a")).unwrap(),
            Turn::Now(_)
        ));
    }
}
