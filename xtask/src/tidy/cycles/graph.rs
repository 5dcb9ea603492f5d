//! Strongly connected parts of a graph (R. Tarjan, Depth-first search and linear graph algorithms, 1972).

use std::collections::BTreeMap;

/// The parts of more than one node, each sorted.
pub(super) fn strongly_connected<'n>(graph: &BTreeMap<&'n str, Vec<&'n str>>) -> Vec<Vec<&'n str>> {
    let mut search = Search {
        graph,
        numbers: BTreeMap::new(),
        lowest: BTreeMap::new(),
        stack: Vec::new(),
        found: Vec::new(),
    };
    for node in graph.keys() {
        if !search.numbers.contains_key(node) {
            search.visit(node);
        }
    }
    search.found.sort();
    search.found
}

struct Search<'g, 'n> {
    graph: &'g BTreeMap<&'n str, Vec<&'n str>>,
    /// In the order of discovery.
    numbers: BTreeMap<&'n str, usize>,
    /// The lowest number on the stack that can be reached.
    lowest: BTreeMap<&'n str, usize>,
    stack: Vec<&'n str>,
    found: Vec<Vec<&'n str>>,
}

impl<'n> Search<'_, 'n> {
    fn visit(&mut self, node: &'n str) {
        let number = self.numbers.len();
        self.numbers.insert(node, number);
        let mut low = number;
        self.stack.push(node);
        for next in self.graph.get(node).into_iter().flatten() {
            match self.numbers.get(next).copied() {
                None => {
                    self.visit(next);
                    low = low.min(self.lowest[next]);
                }
                Some(known) if self.stack.contains(next) => low = low.min(known),
                Some(_) => {}
            }
        }
        self.lowest.insert(node, low);
        if low == number {
            let start = self.stack.iter().position(|other| *other == node).unwrap_or(0);
            let mut part = self.stack.split_off(start);
            if part.len() > 1 {
                part.sort_unstable();
                self.found.push(part);
            }
        }
    }
}
