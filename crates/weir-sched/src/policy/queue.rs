//! The queues of one lane: one per priority, activity and deadline.
//!
//! Within a level, activities take turns by their shares, with start-time fair queueing (Goyal, Vin, Cheng, SIGCOMM
//! 1996). The cost of a transfer is the time for which it will hold a slot. A queue that empties keeps its tag as long
//! as that is ahead of the others, so that submitting files one by one brings no advantage.

use std::time::Duration;

use weir_units::Timestamp;

use super::list::List;
use super::{HIGHEST, LEVELS};
use crate::ActivityId;

/// Queues of one lane, beyond which activities share one: each turn looks at all of them, and names come from clients.
const MOST: usize = 256;

/// Deadlines within the same stretch of time share a queue: the farther off, the longer the stretch, in seconds.
const STRETCHES: [(u64, u64); 3] = [(3_600, 60), (86_400, 900), (u64::MAX, 21_600)];

/// A deadline as queues know it: a little earlier, so that few are enough. Zero stays zero.
pub(crate) fn rounded(deadline: Timestamp, now: Timestamp) -> Timestamp {
    if deadline == Timestamp(0) {
        return deadline;
    }
    let left = deadline.since(now).as_secs();
    let (_, stretch) = STRETCHES
        .into_iter()
        .find(|(below, _)| left < *below)
        .unwrap_or(STRETCHES[2]);
    let seconds = deadline.0 / 1_000_000_000;
    Timestamp::from_secs((seconds - seconds % stretch).max(1))
}

/// Key of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueueKey {
    pub(crate) level: usize,
    pub(crate) activity: ActivityId,
    /// Zero for none.
    pub(crate) deadline: Timestamp,
}

/// Transfers of one lane that are served first come, first served.
#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) key: QueueKey,
    pub(crate) list: List,
    /// Sizes of its transfers, as far as known.
    pub(crate) bytes: u64,
    /// Virtual time at which its next transfer starts.
    tag: u64,
    /// When it was served last, or got its first transfer.
    since: Timestamp,
    /// By how many levels it has risen with age.
    risen: usize,
    /// Its deadline is so near that it goes first.
    pub(crate) pressing: bool,
}

impl Queue {
    /// The level at which it is served now.
    pub(crate) fn level(&self) -> usize {
        if self.key.level <= HIGHEST {
            self.key.level
        } else {
            (self.key.level - self.risen).max(HIGHEST)
        }
    }
}

/// All queues of a lane. Numbers stay valid while a queue holds transfers.
#[derive(Debug, Default)]
pub(crate) struct Queues {
    all: Vec<Queue>,
    /// Transfers in all of them.
    len: u64,
    times: [u64; LEVELS],
}

impl Queues {
    /// The number of a queue, which is made if there is none.
    pub(crate) fn number(&mut self, key: QueueKey, now: Timestamp) -> u16 {
        if let Some(found) = self.all.iter().position(|queue| queue.key == key) {
            return found as u16;
        }
        let queue = Queue {
            key,
            list: List::default(),
            bytes: 0,
            tag: self.times[key.level],
            since: now,
            risen: 0,
            pressing: false,
        };
        let times = &self.times;
        let spent = |queue: &Queue| queue.list.is_empty() && queue.tag <= times[queue.key.level];
        if let Some(found) = self.all.iter().position(spent) {
            self.all[found] = queue;
            return found as u16;
        }
        if self.all.len() >= MOST
            && let Some(found) = self.all.iter().position(|queue| queue.key.level == key.level)
        {
            return found as u16;
        }
        self.all.push(queue);
        (self.all.len() - 1) as u16
    }

    /// Notes that a queue gets its first transfer.
    pub(crate) fn wakes(&mut self, number: u16, now: Timestamp) {
        let queue = &mut self.all[usize::from(number)];
        queue.since = now;
        queue.risen = 0;
        queue.pressing = false;
        queue.tag = queue.tag.max(self.times[queue.key.level]);
    }

    /// A transfer joined one of the queues.
    pub(crate) fn joined(&mut self) {
        self.len += 1;
    }

    /// A transfer left one of the queues.
    pub(crate) fn left(&mut self) {
        self.len -= 1;
    }

    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn has_deadlines(&self) -> bool {
        self.all.iter().any(|queue| queue.key.deadline > Timestamp(0))
    }

    pub(crate) fn at(&mut self, number: u16) -> &mut Queue {
        &mut self.all[usize::from(number)]
    }

    pub(crate) fn filled(&self) -> impl Iterator<Item = &Queue> {
        self.all.iter().filter(|queue| !queue.list.is_empty())
    }

    /// The most urgent level at which there is something to do.
    pub(crate) fn level(&self) -> Option<usize> {
        self.filled().map(Queue::level).min()
    }

    /// The next queue: the one with the earliest pressing deadline, else by shares.
    pub(crate) fn first(&self) -> Option<u16> {
        let level = self.level()?;
        let candidates = self.all.iter().enumerate();
        let candidates = candidates.filter(|(_, queue)| !queue.list.is_empty() && queue.level() == level);
        let order = |queue: &Queue| {
            if queue.pressing {
                (0, queue.key.deadline.0)
            } else {
                (1, queue.tag)
            }
        };
        let first = candidates.min_by_key(|(number, queue)| (order(queue), *number));
        first.map(|(number, _)| number as u16)
    }

    /// The row of the next transfer.
    pub(crate) fn first_transfer(&self) -> Option<u32> {
        self.first()
            .and_then(|number| self.all[usize::from(number)].list.head())
    }

    /// Notes that a transfer of this queue starts.
    pub(crate) fn served(&mut self, number: u16, cost: u64, now: Timestamp) {
        let queue = &mut self.all[usize::from(number)];
        let time = &mut self.times[queue.key.level];
        *time = (*time).max(queue.tag);
        queue.tag = queue.tag.saturating_add(cost);
        queue.since = now;
        queue.risen = 0;
    }

    /// Charges a transfer of this queue that starts out of turn: it costs as much as any other, and changes no other
    /// queue's turn.
    pub(crate) fn charged(&mut self, number: u16, cost: u64) {
        let queue = &mut self.all[usize::from(number)];
        queue.tag = queue.tag.saturating_add(cost);
    }

    /// Lets queues rise that waited long; gives the next time at which one will.
    pub(crate) fn age(&mut self, now: Timestamp, after: Duration) -> Option<Timestamp> {
        let mut next: Option<Timestamp> = None;
        for queue in self.all.iter_mut().filter(|queue| !queue.list.is_empty()) {
            let steps = (now.since(queue.since).as_nanos() / after.as_nanos().max(1)).min(LEVELS as u128) as usize;
            queue.risen = steps.min(queue.key.level.saturating_sub(HIGHEST));
            if queue.level() > HIGHEST {
                let at = queue.since + after.saturating_mul(1 + queue.risen as u32);
                next = Some(next.map_or(at, |next| next.min(at)));
            }
        }
        next
    }

    /// Marks deadlines that press, given the throughput in bytes per second; returns the next time at which one will.
    pub(crate) fn mark_urgent_deadlines(&mut self, now: Timestamp, bytes_per_second: f64) -> Option<Timestamp> {
        let mut next: Option<Timestamp> = None;
        let dated = |queue: &&mut Queue| !queue.list.is_empty() && queue.key.deadline > Timestamp(0);
        for queue in self.all.iter_mut().filter(dated) {
            let needed = Duration::from_secs_f64((2.0 * queue.bytes as f64 / bytes_per_second.max(1.0)).min(1e9));
            let latest = Timestamp(queue.key.deadline.0.saturating_sub(needed.as_nanos() as u64));
            queue.pressing = latest <= now;
            if !queue.pressing {
                next = Some(next.map_or(latest, |next| next.min(latest)));
            }
        }
        next
    }

    /// The earliest deadline that presses at the level that is served.
    pub(crate) fn pressing(&self) -> Option<Timestamp> {
        let level = self.level()?;
        let pressing = self.filled().filter(|queue| queue.pressing && queue.level() == level);
        pressing.map(|queue| queue.key.deadline).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(level: usize, activity: u32, deadline: Timestamp) -> QueueKey {
        QueueKey {
            level,
            activity: ActivityId(activity),
            deadline,
        }
    }

    #[test]
    fn clients_cannot_make_queues_without_end() {
        // A hundred thousand names or deadlines would make every turn slow, and in the end overflow their numbers.
        let (mut queues, now) = (Queues::default(), Timestamp::from_secs(1));
        for n in 0..100_000 {
            let deadline = rounded(Timestamp::from_secs(u64::from(n) * 10), now);
            let number = queues.number(key(2 + n as usize % 5, n, deadline), now);
            queues.wakes(number, now);
            queues.served(number, 1_000_000, now);
        }
        assert!(queues.all.len() <= MOST + LEVELS, "{}", queues.all.len());
    }

    #[test]
    fn deadlines_are_rounded_to_earlier_ones() {
        let (now, second) = (Timestamp::from_secs(1_000_000), 1_000_000_000);
        for left in [0, 1, 59, 3_000, 50_000, 10_000_000] {
            let deadline = now + Duration::from_secs(left);
            let rounded = rounded(deadline, now);
            assert!(rounded <= deadline && rounded.0 + 21_600 * second > deadline.0);
        }
        assert_eq!(rounded(Timestamp(0), now), Timestamp(0));
        assert!(rounded(Timestamp(1), now) > Timestamp(0));
    }
}
