//! The flows under way: a table of all, and a heap for each class in the order in which they end.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::clocks::{Mark, STEPS};
use super::shares::NONE;

/// A flow, numbered in the order of starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowId {
    pub(super) number: u64,
    pub(super) slot: u32,
}

impl FlowId {
    /// How many flows the network had started before this one.
    pub fn number(self) -> u64 {
        self.number
    }
}

#[derive(Debug)]
pub(super) struct Flow {
    /// Its number; another flow may have its slot later.
    pub(super) number: u64,
    pub(super) class: u32,
    pub(super) bytes: u64,
    /// The reading of its class at its start; `None` as long as it waits for a place.
    pub(super) from: Option<Mark>,
}

/// A class as the event loop sees it.
#[derive(Debug)]
pub(super) struct Class {
    pub(super) weight: f64,
    pub(super) boundless: bool,
    /// The clock it follows; `NONE` if none.
    pub(super) clock: u32,
    /// Its own clock, for when it is at its cap; `NONE` before it first is.
    pub(super) own_clock: u32,
    /// Its reading minus that of its clock; without a clock, its reading.
    pub(super) offset: Mark,
    /// Its flows, including waiting ones.
    pub(super) flows: u32,
    /// Flows in it at the last solution.
    pub(super) solved: u32,
    /// In the list of classes whose population may have changed.
    pub(super) changed: bool,
    /// Marks of its flows; marks of stopped flows stay until they come up.
    pub(super) marks: BinaryHeap<Reverse<(Mark, u64, u32)>>,
}

impl Class {
    pub(super) fn new(weight: f64, boundless: bool) -> Class {
        Class {
            weight,
            boundless,
            clock: NONE,
            own_clock: NONE,
            offset: 0,
            flows: 0,
            solved: 0,
            changed: false,
            marks: BinaryHeap::new(),
        }
    }

    /// The distance between the marks of start and end, rounded up.
    pub(super) fn way(&self, bytes: u64) -> Mark {
        if self.weight.to_bits() == 1.0_f64.to_bits() {
            return Mark::from(bytes) << 48;
        }
        (bytes as f64 / self.weight * STEPS).ceil() as Mark
    }

    /// Whole bytes moved over this distance.
    pub(super) fn bytes(&self, way: Mark) -> u64 {
        if self.weight.to_bits() == 1.0_f64.to_bits() {
            return u64::try_from(way >> 48).unwrap_or(0);
        }
        (way as f64 / STEPS * self.weight) as u64
    }
}

/// All flows under way.
#[derive(Debug, Default)]
pub(super) struct FlowTable {
    slots: Vec<Option<Flow>>,
    vacant: Vec<u32>,
    numbers: u64,
}

impl FlowTable {
    pub(super) fn insert(&mut self, class: u32, bytes: u64) -> FlowId {
        let number = self.next_number();
        let flow = Flow {
            number,
            class,
            bytes,
            from: None,
        };
        let slot = self.vacant.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() as u32 - 1
        });
        self.slots[slot as usize] = Some(flow);
        FlowId { number, slot }
    }

    /// Numbers a flow that ends as it starts.
    pub(super) fn number(&mut self) -> FlowId {
        FlowId {
            number: self.next_number(),
            slot: NONE,
        }
    }

    pub(super) fn get(&mut self, id: FlowId) -> Option<&mut Flow> {
        self.slots
            .get_mut(id.slot as usize)?
            .as_mut()
            .filter(|flow| flow.number == id.number)
    }

    pub(super) fn remove(&mut self, id: FlowId) -> Option<Flow> {
        self.get(id)?;
        self.vacant.push(id.slot);
        self.slots[id.slot as usize].take()
    }

    fn next_number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers - 1
    }
}
