//! Queue depths: waiting transfers per VO, per client and per link. A submission beyond a limit is refused at the door,
//! with the reason, before any other work; every client can read the current depth.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use weir_executor::job::NewJob;
use weir_sched::{JobSpec, Link, LiveState, Names, Record};
use weir_service::time::Millis;

use crate::config::{QueueLimit, QueueLimits};

const MINUTE: Millis = 60_000;

/// The owner of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Whose {
    Vo(u32),
    Client(u32),
    Link(Link),
}

/// Unfinished transfers of one owner.
#[derive(Debug, Default)]
struct Queue {
    live: u64,
    /// Transfers that never started, by the minute in which they came.
    waiting: BTreeMap<u32, u64>,
    /// The current minute, the ends in it, and the ends in the minute before.
    ends: (u32, u64, u64),
}

/// A job with files that have not ended. Its files have consecutive ids.
#[derive(Debug)]
struct JobRow {
    /// Ids from the first to the last.
    span: u32,
    live: u32,
    vo: u32,
    client: u32,
    minute: u32,
    links: Links,
    /// The only file that counts, if the others wait for their turn after it.
    leader: Option<u64>,
    /// A bit for each file that has started; empty until the first does.
    started: Vec<u64>,
}

#[derive(Debug)]
enum Links {
    /// All files use this one.
    One(Link),
    /// By file.
    Each(Box<[Link]>),
}

/// Names by number.
#[derive(Debug, Default)]
struct Words {
    numbers: HashMap<String, u32>,
    words: Vec<String>,
}

impl Words {
    fn number(&mut self, word: &str) -> u32 {
        if let Some(known) = self.numbers.get(word) {
            return *known;
        }
        let number = self.words.len() as u32;
        self.numbers.insert(word.to_owned(), number);
        self.words.push(word.to_owned());
        number
    }
}

/// Too much waits already.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Full {
    /// For people.
    pub reason: String,
    /// When it may be worth asking again.
    pub retry_after: Duration,
    /// Whether there is no telling yet: the queue is being brought back.
    pub unknown: bool,
}

/// The request of another node before it takes a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Room {
    /// Of the job.
    pub vo: String,
    /// The submitter: issuer and subject, or the name of a certificate.
    pub client: String,
    /// When it came in.
    pub at: Millis,
    /// Source and destination of each file.
    pub links: Vec<(String, String)>,
    /// One goes after the other.
    #[serde(default)]
    pub route: bool,
}

/// How deep a queue is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueDepth {
    /// `vo`, `client` or `link`.
    pub kind: &'static str,
    /// The owner.
    pub name: String,
    /// The link, of a link's.
    pub link: Option<Link>,
    /// Transfers that have not ended.
    pub depth: u64,
    /// Arrival of the oldest transfer that never started, to the minute.
    pub oldest: Option<Millis>,
    /// The limit.
    pub limit: QueueLimit,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Depth {
    limits: QueueLimits,
    /// Whether more waits than is counted here.
    restoring: bool,
    /// By the id of their first file.
    jobs: BTreeMap<u64, JobRow>,
    queues: BTreeMap<Whose, Queue>,
    words: Words,
}

fn minute(at: Millis) -> u32 {
    u32::try_from(at / MINUTE).unwrap_or_default()
}

impl Queue {
    fn ended(&mut self, now: u32) {
        let (current, count, _) = self.ends;
        self.ends = match now.saturating_sub(current) {
            0 => (current, count + 1, self.ends.2),
            1 => (now, 1, count),
            _ => (now, 1, 0),
        };
    }

    /// Ends per minute, of the last two.
    fn pace(&self, now: u32) -> u64 {
        match now.saturating_sub(self.ends.0) {
            0 => self.ends.1.max(self.ends.2),
            1 => self.ends.1,
            _ => 0,
        }
    }

    fn waits_no_more(&mut self, since: u32) {
        if let Some(count) = self.waiting.get_mut(&since) {
            *count -= 1;
            if *count == 0 {
                self.waiting.remove(&since);
            }
        }
    }
}

impl Depth {
    /// Sets the limits from now on; transfers that wait already stay.
    pub fn limit_to(&mut self, limits: QueueLimits) {
        self.limits = limits;
    }

    /// Marks the queue as not yet counted: until then there is no room, if there are limits.
    pub fn await_queue(&mut self) {
        self.restoring = true;
    }

    /// Everything that waits was counted.
    pub fn queue_is_back(&mut self) {
        self.restoring = false;
    }

    pub fn is_restoring(&self) -> bool {
        self.restoring
    }

    fn counted(&self) -> Result<(), Full> {
        if !self.restoring || self.limits.is_none() {
            return Ok(());
        }
        Err(Full {
            reason: "the queue is being brought back, and its limits cannot be kept before it is there".to_owned(),
            retry_after: Duration::from_secs(1),
            unknown: true,
        })
    }

    fn limit(&self, whose: Whose) -> QueueLimit {
        match whose {
            Whose::Vo(_) => self.limits.vo,
            Whose::Client(_) => self.limits.client,
            Whose::Link(_) => self.limits.link,
        }
    }

    fn name(&self, whose: Whose, names: &Names) -> (&'static str, String) {
        match whose {
            Whose::Vo(number) => ("vo", self.words.words[number as usize].clone()),
            Whose::Client(number) => ("client", self.words.words[number as usize].clone()),
            Whose::Link(link) => ("link", names.link_name(link)),
        }
    }

    /// Counts a submission in, if there is room for all of it. An empty queue takes any job.
    pub fn submitted(&mut self, job: &NewJob, spec: &JobSpec, names: &Names) -> Result<(), Full> {
        let Some(first) = spec.transfers.first().map(|transfer| transfer.id.0) else {
            return Ok(());
        };
        self.counted()?;
        let links = spec
            .transfers
            .iter()
            .map(weir_sched::TransferSpec::link)
            .collect::<Vec<_>>();
        let (vo, client) = (self.words.number(&job.vo), self.words.number(&job.cred_id));
        let at = job.submitted;
        // The files of a route go one after the other: they are one transfer in every queue.
        let leader = (!spec.routes.is_empty()).then_some(first);
        let counted = if leader.is_some() { &links[..1] } else { &links[..] };
        let mut asked = BTreeMap::from([
            (Whose::Vo(vo), counted.len() as u64),
            (Whose::Client(client), counted.len() as u64),
        ]);
        for link in counted {
            *asked.entry(Whose::Link(*link)).or_default() += 1;
        }
        for (whose, more) in asked {
            self.check(whose, more, at, names)?;
        }
        let absent = (0..links.len()).map(|place| leader.is_some() && place > 0);
        let absent = absent.collect::<Vec<_>>();
        self.insert(first, (vo, client), at, links, &absent, leader);
        Ok(())
    }

    /// Whether there is room for a job of another node. Nothing is counted in: it will be, when it has arrived.
    pub fn room(&self, room: &Room, names: &Names) -> Result<(), Full> {
        self.counted()?;
        let number = |word: &str| self.words.numbers.get(word).copied();
        // As in `submitted`.
        let links = &room.links[..if room.route {
            room.links.len().min(1)
        } else {
            room.links.len()
        }];
        let files = links.len() as u64;
        let (vo, client) = (number(&room.vo).map(Whose::Vo), number(&room.client).map(Whose::Client));
        let mut asked = vo
            .into_iter()
            .chain(client)
            .map(|whose| (whose, files))
            .collect::<BTreeMap<_, _>>();
        for (source, destination) in links {
            if let (Some(source), Some(destination)) = (names.find_se(source), names.find_se(destination)) {
                *asked.entry(Whose::Link(Link { source, destination })).or_default() += 1;
            }
        }
        for (whose, more) in asked {
            self.check(whose, more, room.at, names)?;
        }
        Ok(())
    }

    fn check(&self, whose: Whose, more: u64, at: Millis, names: &Names) -> Result<(), Full> {
        let (limit, Some(queue)) = (self.limit(whose), self.queues.get(&whose)) else {
            return Ok(());
        };
        let pace = queue.pace(minute(at));
        if let Some(depth) = limit.depth
            && queue.live > 0
            && queue.live + more > depth
        {
            let (kind, name) = self.name(whose, names);
            let surplus = queue.live + more - depth;
            let seconds = (surplus.saturating_mul(60)).checked_div(pace).unwrap_or(60);
            return Err(Full {
                reason: format!(
                    "{} transfers of the {kind} {name} have not ended, {more} more would be beyond its limit of {depth}",
                    queue.live
                ),
                retry_after: Duration::from_secs(seconds.clamp(5, 600)),
                unknown: false,
            });
        }
        if let Some(age) = limit.age
            && let Some((oldest, _)) = queue.waiting.first_key_value()
            && Millis::from(*oldest) * MINUTE + (age.as_millis() as Millis) < at
        {
            let (kind, name) = self.name(whose, names);
            let waited = (at - Millis::from(*oldest) * MINUTE) / 1000;
            return Err(Full {
                reason: format!(
                    "a transfer of the {kind} {name} waits for {waited} s, longer than its limit of {} s",
                    age.as_secs()
                ),
                retry_after: Duration::from_secs(60),
                unknown: false,
            });
        }
        Ok(())
    }

    /// `absent`: which files do not count, by place.
    fn insert(
        &mut self,
        first: u64,
        (vo, client): (u32, u32),
        at: Millis,
        links: Vec<Link>,
        absent: &[bool],
        leader: Option<u64>,
    ) {
        let row = JobRow {
            span: links.len() as u32,
            live: links.len() as u32,
            vo,
            client,
            minute: minute(at),
            links: match links.split_first() {
                Some((one, others)) if others.iter().all(|link| link == one) => Links::One(*one),
                _ => Links::Each(links.into()),
            },
            leader,
            started: Vec::new(),
        };
        for place in 0..row.span {
            if !absent.get(place as usize).is_some_and(|absent| *absent) {
                for whose in row.queues(place) {
                    let queue = self.queues.entry(whose).or_default();
                    queue.live += 1;
                    *queue.waiting.entry(row.minute).or_default() += 1;
                }
            }
        }
        let live = row.span - absent.iter().filter(|absent| **absent).count() as u32;
        self.jobs.insert(first, JobRow { live, ..row });
    }

    /// Counts transfers restored from the store. They were accepted before: no limit applies to them.
    pub fn restored(&mut self, job: &NewJob, files: &[Record]) {
        let files = files.iter().filter_map(|record| match record {
            Record::Live(live) => Some(live),
            _ => None,
        });
        let files = files.collect::<Vec<_>>();
        let (Some(first), Some(last)) = (files.first(), files.last()) else {
            return;
        };
        let first = first.transfer.id.0;
        // A restore that failed is tried again, and brings everything again.
        if self.jobs.contains_key(&first) {
            return;
        }
        let span = (last.transfer.id.0 - first + 1) as usize;
        let (mut links, mut absent) = (vec![last.transfer.link(); span], vec![true; span]);
        let mut leader = None;
        for file in &files {
            let place = (file.transfer.id.0 - first) as usize;
            links[place] = file.transfer.link();
            absent[place] = file.state == LiveState::Held;
            if file.route.is_some() && !absent[place] {
                leader = Some(file.transfer.id.0);
            }
        }
        let (vo, client) = (self.words.number(&job.vo), self.words.number(&job.cred_id));
        self.insert(first, (vo, client), job.submitted, links, &absent, leader);
        for file in files.iter().filter(|file| file.attempt > 0) {
            self.started(file.transfer.id.0);
        }
    }

    /// Takes out a job that was not taken after all.
    pub fn refused(&mut self, first: u64) {
        let span = self.jobs.get(&first).map_or(0, |row| row.span);
        for file in first..first + u64::from(span) {
            self.leave(file, None);
        }
    }

    /// Updates the counts by a record of the core.
    pub fn follow(&mut self, record: &Record, now: Millis) {
        match record {
            Record::Started { op, .. } => self.started(op.transfer.0),
            Record::Submitted(spec) => {
                if let (Some(route), Some(first)) = (spec.routes.first(), spec.transfers.first()) {
                    self.pass_on(first.id.0, spec.transfers[route.live].id.0, None);
                }
            }
            Record::Ended { op, released, next, .. } if next.settled().is_some() => match released {
                Some(next) => self.pass_on(op.transfer.0, next.0, Some(now)),
                None => self.leave(op.transfer.0, Some(now)),
            },
            Record::Cancelled { settled, released, .. } => {
                for next in released {
                    if let Some(leader) = self.row(next.0).and_then(|(_, _, row)| row.leader) {
                        self.pass_on(leader, next.0, Some(now));
                    }
                }
                for transfer in settled {
                    self.leave(transfer.0, Some(now));
                }
            }
            _ => {}
        }
    }

    fn row(&mut self, file: u64) -> Option<(u64, u32, &mut JobRow)> {
        let (first, row) = self.jobs.range_mut(..=file).next_back()?;
        let place = u32::try_from(file - first).ok().filter(|place| *place < row.span)?;
        Some((*first, place, row))
    }

    fn started(&mut self, file: u64) {
        let Some((_, place, row)) = self.row(file) else { return };
        if !row.start(place) {
            return;
        }
        let (queues, since) = (row.queues(place), row.minute);
        for whose in queues {
            if let Some(queue) = self.queues.get_mut(&whose) {
                queue.waits_no_more(since);
            }
        }
    }

    /// From now on, another file of the same route counts.
    fn pass_on(&mut self, from: u64, to: u64, ended: Option<Millis>) {
        let Some((_, place, row)) = self.row(to).filter(|_| from != to) else {
            return;
        };
        row.live += 1;
        let (queues, since) = (row.queues(place), row.minute);
        self.leave(from, ended);
        if let Some((_, _, row)) = self.row(to) {
            row.leader = Some(to);
        }
        for whose in queues {
            let queue = self.queues.entry(whose).or_default();
            queue.live += 1;
            *queue.waiting.entry(since).or_default() += 1;
        }
    }

    /// `ended`: when, if it came to its end here.
    fn leave(&mut self, file: u64, ended: Option<Millis>) {
        let Some((first, place, row)) = self.row(file) else {
            return;
        };
        if row.leader.is_some_and(|leader| leader != file) {
            return;
        }
        let waited = row.start(place);
        row.live -= 1;
        let (queues, since, empty) = (row.queues(place), row.minute, row.live == 0);
        if empty {
            self.jobs.remove(&first);
        }
        for whose in queues {
            if let Some(queue) = self.queues.get_mut(&whose) {
                queue.live -= 1;
                if waited {
                    queue.waits_no_more(since);
                }
                if let Some(at) = ended {
                    queue.ended(minute(at));
                }
            }
        }
    }

    /// All queues that hold something, or have a limit and held something before.
    pub fn standings(&self, names: &Names) -> Vec<QueueDepth> {
        let standing = |(whose, queue): (&Whose, &Queue)| {
            let (kind, name) = self.name(*whose, names);
            QueueDepth {
                kind,
                name,
                link: match whose {
                    Whose::Link(link) => Some(*link),
                    _ => None,
                },
                depth: queue.live,
                oldest: queue
                    .waiting
                    .first_key_value()
                    .map(|(oldest, _)| Millis::from(*oldest) * MINUTE),
                limit: self.limit(*whose),
            }
        };
        self.queues.iter().map(standing).collect()
    }
}

impl JobRow {
    fn queues(&self, place: u32) -> [Whose; 3] {
        let link = match &self.links {
            Links::One(link) => *link,
            Links::Each(links) => links[place as usize],
        };
        [Whose::Vo(self.vo), Whose::Client(self.client), Whose::Link(link)]
    }

    /// True if the file had not started before.
    fn start(&mut self, place: u32) -> bool {
        if self.started.is_empty() {
            self.started = vec![0; self.span.div_ceil(64) as usize];
        }
        let (word, bit) = (&mut self.started[place as usize / 64], 1 << (place % 64));
        let first = *word & bit == 0;
        *word |= bit;
        first
    }
}

#[cfg(test)]
mod tests;
