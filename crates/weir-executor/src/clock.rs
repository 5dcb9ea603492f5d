//! The clock of one attempt: in which state it is, and how long it was in each.
//!
//! An attempt is in exactly one state at a time, so the times add up to its life. They come from a monotonic clock: a
//! step of the wall clock does not change them.
//!
//! While a storage copies, only that storage knows why it comes no faster. It says so in its markers (`Waits:`, a line of
//! Weir's own), as times since its order. The clock takes that time out of the **open** time of the order, and never
//! more than there is: a storage that tells more than has passed is not believed. Open time that nobody explains is
//! [`Wait::Data`] when the order ends, and at once where markers have no such line.

use std::{
    net::IpAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use weir_http::{ConnectStep, ConnectWatch};
use weir_world::{Wait, Waits};

/// The states of which a storage can tell.
const TOLD: [Wait; 11] = [
    Wait::Place,
    Wait::Look,
    Wait::FirstByte,
    Wait::Network,
    Wait::Window,
    Wait::Disk,
    Wait::Processor,
    Wait::Permit,
    Wait::Limiter,
    Wait::Checksum,
    Wait::Close,
];

/// A storage may tell so much more than has passed here, as its clock and the way of its answers differ.
const TOLERANCE: Duration = Duration::from_millis(100);

/// The clock of one attempt. Clones are the same clock.
#[derive(Debug, Clone)]
pub struct AttemptClock(Arc<Mutex<Times>>);

/// The time that an attempt spent in each state.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AttemptWaits {
    /// All of it.
    pub all: Waits,
    /// The part that is about the source, of orders to push. It is about the destination otherwise.
    pub at_source: Option<Box<Waits>>,
    /// The parts of the time in [`Wait::Data`] of storages that tell no states, by the address that they copied from or to, if they told it.
    pub servers: ServerTimes,
}

/// Times by the address of a server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerTimes(Vec<(IpAddr, Duration)>);

/// Addresses that are kept apart; the time of more is that of no server.
const SERVERS_MAX: usize = 64;

impl ServerTimes {
    /// Adds a time.
    pub fn add(&mut self, server: IpAddr, time: Duration) {
        if let Some((_, sum)) = self.0.iter_mut().find(|(known, _)| *known == server) {
            *sum = sum.saturating_add(time);
        } else if self.0.len() < SERVERS_MAX {
            self.0.push((server, time));
        }
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = (IpAddr, Duration)> {
        self.0.iter().copied()
    }
}

impl AttemptWaits {
    /// Adds the times of another attempt.
    pub fn merge(&mut self, other: &Self) {
        self.all.merge(&other.all);
        if let Some(at_source) = &other.at_source {
            self.at_source.get_or_insert_default().merge(at_source);
        }
        for (server, time) in other.servers.iter() {
            self.servers.add(server, time);
        }
    }
}

#[derive(Debug)]
struct Times {
    waits: AttemptWaits,
    /// The step of the attempt.
    step: Wait,
    /// The state: the step, or what it takes to connect for it.
    state: Wait,
    /// Until when all time is accounted for.
    until: Instant,
    order: Option<OrderTimes>,
    /// The newest order was one to push.
    pushes: bool,
}

/// The order that a storage carries out.
#[derive(Debug, Default)]
struct OrderTimes {
    /// Time that is not explained yet.
    open: Duration,
    /// The times that the storage has told so far; `None`: nothing.
    told: Option<Box<Waits>>,
    /// A marker came without such times.
    is_silent: bool,
    /// The address that the storage copies from or to, if it is one.
    server: Option<IpAddr>,
}

impl Default for AttemptClock {
    fn default() -> Self {
        Self::starting_at(Instant::now())
    }
}

impl AttemptClock {
    /// A clock that starts now, with the wait for a place in the executor.
    pub fn start() -> Self {
        Self::default()
    }

    fn starting_at(until: Instant) -> Self {
        Self(Arc::new(Mutex::new(Times {
            waits: AttemptWaits::default(),
            step: Wait::Executor,
            state: Wait::Executor,
            until,
            order: None,
            pushes: false,
        })))
    }

    /// The time in each state until now. No state ever loses time.
    pub fn waits(&self) -> AttemptWaits {
        let mut times = self.0.lock();
        times.pass(Instant::now());
        times.waits.clone()
    }

    /// The attempt goes on to its next step.
    pub(crate) fn enter(&self, step: Wait) {
        self.0.lock().enter(step, Instant::now());
    }

    /// Runs a step of the attempt, and returns to the one before.
    pub(crate) async fn during<T>(&self, step: Wait, work: impl Future<Output = T>) -> T {
        let before = self.0.lock().step;
        self.enter(step);
        let done = work.await;
        self.enter(before);
        done
    }

    /// A storage is ordered to copy: the source, if it is to push.
    pub(crate) fn order(&self, pushes: bool) {
        let mut times = self.0.lock();
        times.enter(Wait::Data, Instant::now());
        times.pushes = pushes;
        times.order = Some(OrderTimes::default());
    }

    /// A marker has told these times since the order; `None`: it had none.
    pub(crate) fn told(&self, told: Option<&Waits>) {
        self.0.lock().told(told, Instant::now());
    }

    /// A marker that is not over has told the address of the other side.
    pub(crate) fn copies_with(&self, server: IpAddr) {
        if let Some(order) = &mut self.0.lock().order {
            order.server = Some(server);
        }
    }

    /// Tells of the steps to a connection.
    pub(crate) fn watch(&self) -> ConnectWatch {
        let this = self.clone();
        ConnectWatch::new(move |step| this.connects(step))
    }

    fn connects(&self, step: ConnectStep) {
        let mut times = self.0.lock();
        times.pass(Instant::now());
        times.state = match step {
            ConnectStep::Place => Wait::Executor,
            ConnectStep::Resolve => Wait::Resolve,
            ConnectStep::Connect => Wait::Connect,
            ConnectStep::Handshake => Wait::Tls,
            ConnectStep::Over => times.step,
        };
    }
}

impl Times {
    /// Accounts for the time until now.
    fn pass(&mut self, now: Instant) {
        let time = now.saturating_duration_since(self.until);
        self.until = self.until.max(now);
        match &mut self.order {
            Some(order) if self.state == Wait::Data && !order.is_silent => order.open += time,
            Some(order) if self.state == Wait::Data => {
                let server = order.server;
                self.silent(server, time);
            }
            _ => self.add(self.state, time),
        }
    }

    /// The time of an order whose storage tells no states.
    fn silent(&mut self, server: Option<IpAddr>, time: Duration) {
        self.add(Wait::Data, time);
        if let Some(server) = server {
            self.waits.servers.add(server, time);
        }
    }

    fn add(&mut self, wait: Wait, time: Duration) {
        self.waits.all.add(wait, time);
        if self.pushes && TOLD.contains(&wait) && !time.is_zero() {
            self.waits.at_source.get_or_insert_default().add(wait, time);
        }
    }

    fn enter(&mut self, step: Wait, now: Instant) {
        self.pass(now);
        if let Some(order) = self.order.take() {
            self.add(Wait::Data, order.open);
        }
        // A storage that has no place for the order is asked again.
        self.pushes &= step == Wait::Place;
        (self.step, self.state) = (step, step);
    }

    fn told(&mut self, told: Option<&Waits>, now: Instant) {
        self.pass(now);
        let Some(order) = &mut self.order else { return };
        let Some(told) = told else {
            if order.told.is_none() {
                order.is_silent = true;
                let (open, server) = (std::mem::take(&mut order.open), order.server);
                self.silent(server, open);
            }
            return;
        };
        // A storage that begins anew, as after its restart, tells less than before: then nothing is new.
        let before = order
            .told
            .replace(Box::new(*told))
            .map_or_else(Waits::default, |told| *told);
        let newly = |wait: Wait| told.get(wait).saturating_sub(before.get(wait));
        let sum: Duration = TOLD
            .iter()
            .fold(Duration::ZERO, |sum, wait| sum.saturating_add(newly(*wait)));
        if sum > order.open + TOLERANCE {
            return;
        }
        let part = if sum > order.open {
            order.open.as_secs_f64() / sum.as_secs_f64()
        } else {
            1.0
        };
        let mut open = order.open;
        for wait in TOLD {
            let time = newly(wait).mul_f64(part).min(open);
            open = open.saturating_sub(time);
            self.add(wait, time);
        }
        if let Some(order) = &mut self.order {
            order.open = open;
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may panic")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// A clock and a hand that moves it.
    struct Hand(AttemptClock, Instant);

    impl Hand {
        fn new() -> Self {
            let now = Instant::now();
            Self(AttemptClock::starting_at(now), now)
        }

        fn times(&mut self, after: Duration, change: impl FnOnce(&mut Times, Instant)) {
            self.1 += after;
            change(&mut self.0.0.lock(), self.1);
        }

        fn order(&mut self, after: Duration) {
            self.times(after, |times, now| {
                times.enter(Wait::Data, now);
                times.order = Some(OrderTimes::default());
            });
        }

        fn told(&mut self, after: Duration, text: &str) {
            self.times(after, |times, now| times.told(Some(&Waits::parse(text).unwrap()), now));
        }

        fn text(&mut self, after: Duration) -> String {
            self.times(after, Times::pass);
            self.0.0.lock().waits.all.to_string()
        }

        fn enter(&mut self, after: Duration, step: Wait) {
            self.times(after, |times, now| times.enter(step, now));
        }
    }

    #[test]
    fn what_a_storage_tells_is_taken_out_of_the_time_of_its_order() {
        let mut hand = Hand::new();
        hand.enter(2 * MS, Wait::Look);
        hand.order(3 * MS);
        assert_eq!(hand.text(10 * MS), "executor=2000 look=3000", "nobody has said yet");
        hand.told(10 * MS, "place=4000 disk=12000");
        assert_eq!(hand.text(MS), "executor=2000 look=3000 place=4000 disk=12000");
        hand.told(9 * MS, "place=4000 disk=20000 close=1000");
        hand.enter(MS, Wait::Verify);
        let whole = "executor=2000 look=3000 place=4000 data=6000 disk=20000 close=1000 verify=7000";
        assert_eq!(hand.text(7 * MS), whole);
    }

    #[test]
    fn a_storage_that_tells_more_than_has_passed_is_not_believed() {
        let mut hand = Hand::new();
        hand.order(Duration::ZERO);
        hand.told(1000 * MS, "disk=5000000");
        hand.told(1000 * MS, "disk=5100000 slots=800000 token=100000");
        hand.enter(Duration::ZERO, Wait::Verify);
        // The second increment is possible; the states of others are not a storage's to tell.
        assert_eq!(hand.text(Duration::ZERO), "data=1900000 disk=100000");
    }

    #[test]
    fn a_clock_that_runs_a_little_faster_is_believed_as_far_as_time_goes() {
        let mut hand = Hand::new();
        hand.order(Duration::ZERO);
        hand.told(1000 * MS, "network=525000 disk=525000");
        assert_eq!(hand.text(Duration::ZERO), "network=500000 disk=500000");
    }

    #[test]
    fn time_that_a_silent_storage_takes_is_unexplained_at_once() {
        let mut hand = Hand::new();
        hand.order(Duration::ZERO);
        hand.times(5 * MS, |times, now| times.told(None, now));
        assert_eq!(hand.text(2 * MS), "data=7000");
        // A storage that told before has no silent marker: its other stripes have no such line.
        hand.order(Duration::ZERO);
        hand.told(3 * MS, "disk=3000");
        hand.times(Duration::ZERO, |times, now| times.told(None, now));
        assert_eq!(hand.text(2 * MS), "data=7000 disk=3000");
    }

    #[test]
    fn the_time_of_a_silent_storage_is_that_of_the_server_it_names() {
        // Wrong: of a site with one slow server all are slow.
        let mut hand = Hand::new();
        let [one, other] = [1, 2].map(|last| IpAddr::from([192, 0, 2, last]));
        let servers = |hand: &Hand| hand.0.0.lock().waits.servers.iter().collect::<Vec<_>>();
        hand.order(Duration::ZERO);
        hand.0.copies_with(one);
        hand.times(5 * MS, |times, now| times.told(None, now));
        assert_eq!(hand.text(2 * MS), "data=7000");
        hand.0.copies_with(other);
        hand.text(MS);
        assert_eq!(servers(&hand), [(one, 7 * MS), (other, MS)]);
        // Another order, of which nothing is told, and one to a storage that tells its states.
        hand.order(Duration::ZERO);
        hand.order(3 * MS);
        hand.0.copies_with(one);
        hand.told(3 * MS, "disk=1000");
        hand.enter(MS, Wait::Verify);
        assert_eq!(servers(&hand), [(one, 7 * MS), (other, MS)]);
    }

    #[test]
    fn a_source_that_pushes_tells_of_itself() {
        let mut hand = Hand::new();
        hand.order(Duration::ZERO);
        hand.0.0.lock().pushes = true;
        hand.told(10 * MS, "disk=4000");
        hand.enter(MS, Wait::Place);
        hand.enter(2 * MS, Wait::Verify);
        hand.text(5 * MS);
        let waits = hand.0.0.lock().waits.clone();
        assert_eq!(waits.all.to_string(), "place=2000 data=7000 disk=4000 verify=5000");
        assert_eq!(waits.at_source.unwrap().to_string(), "place=2000 disk=4000");
    }

    #[test]
    fn a_connection_interrupts_a_step() {
        let clock = AttemptClock::start();
        clock.order(false);
        clock.connects(ConnectStep::Connect);
        assert_eq!(clock.0.lock().state, Wait::Connect);
        clock.connects(ConnectStep::Over);
        assert_eq!(clock.0.lock().state, Wait::Data);
    }

    proptest! {
        /// The times add up to the life, and no state loses time, whatever a storage tells.
        #[test]
        fn times_add_up_to_the_life(
            steps in proptest::collection::vec((0..6_u8, 0..500_u64, 0..Wait::COUNT, any::<u32>()), 0..40),
        ) {
            let mut hand = Hand::new();
            let (began, mut told, mut before) = (hand.1, Waits::default(), Waits::default());
            for (kind, after, at, micros) in steps {
                let after = Duration::from_millis(after);
                match kind {
                    0 => hand.enter(after, Wait::ALL[at]),
                    1 => { told = Waits::default(); hand.order(after) }
                    2 => hand.times(after, |times, now| times.told(None, now)),
                    3 => { told = Waits::default(); hand.told(after, &told.to_string()) }
                    _ => {
                        told.add(Wait::ALL[at], Duration::from_micros(u64::from(micros % 1_000_000)));
                        hand.told(after, &told.to_string());
                    }
                }
                let now = hand.0.0.lock().waits.all;
                for wait in Wait::ALL {
                    prop_assert!(now.get(*wait) >= before.get(*wait));
                }
                before = now;
            }
            hand.enter(Duration::ZERO, Wait::Verify);
            let life = hand.1 - began;
            let total = hand.0.0.lock().waits.all.total();
            // Each addition is cut to a whole microsecond.
            prop_assert!(total <= life && life.saturating_sub(total) < Duration::from_millis(2), "{total:?} of {life:?}");
        }
    }
}
