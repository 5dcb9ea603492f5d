//! Doubly linked lists inside a vector of nodes: push, pop and remove anywhere in constant time, without allocation.

/// No node.
pub(crate) const NIL: u32 = u32::MAX;

/// Where nodes keep their neighbours. A node is in at most one list at a time.
pub(crate) trait Nodes {
    fn previous(&mut self, node: u32) -> &mut u32;
    fn next(&mut self, node: u32) -> &mut u32;
}

/// The ends of one list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct List {
    head: u32,
    tail: u32,
    len: u32,
}

impl Default for List {
    fn default() -> Self {
        Self {
            head: NIL,
            tail: NIL,
            len: 0,
        }
    }
}

impl List {
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    pub(crate) fn head(&self) -> Option<u32> {
        (self.head != NIL).then_some(self.head)
    }

    pub(crate) fn push_back(&mut self, nodes: &mut impl Nodes, node: u32) {
        *nodes.previous(node) = self.tail;
        *nodes.next(node) = NIL;
        match self.tail {
            NIL => self.head = node,
            tail => *nodes.next(tail) = node,
        }
        self.tail = node;
        self.len += 1;
    }

    pub(crate) fn push_front(&mut self, nodes: &mut impl Nodes, node: u32) {
        *nodes.previous(node) = NIL;
        *nodes.next(node) = self.head;
        match self.head {
            NIL => self.tail = node,
            head => *nodes.previous(head) = node,
        }
        self.head = node;
        self.len += 1;
    }

    /// Takes out a node that is in this list.
    pub(crate) fn remove(&mut self, nodes: &mut impl Nodes, node: u32) {
        let (previous, next) = (*nodes.previous(node), *nodes.next(node));
        match previous {
            NIL => self.head = next,
            previous => *nodes.next(previous) = next,
        }
        match next {
            NIL => self.tail = previous,
            next => *nodes.previous(next) = previous,
        }
        self.len -= 1;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    struct Plain(Vec<(u32, u32)>);

    impl Nodes for Plain {
        fn previous(&mut self, node: u32) -> &mut u32 {
            &mut self.0[node as usize].0
        }
        fn next(&mut self, node: u32) -> &mut u32 {
            &mut self.0[node as usize].1
        }
    }

    proptest::proptest! {
        /// A list that differs from a deque loses transfers, or runs them twice.
        #[test]
        fn behaves_as_a_deque(moves in proptest::collection::vec((0..3u8, 0..12u32), 0..200)) {
            let (mut nodes, mut list, mut model) = (Plain(vec![(0, 0); 12]), List::default(), VecDeque::new());
            for (kind, node) in moves {
                let inside = model.contains(&node);
                match kind {
                    0 if !inside => { list.push_back(&mut nodes, node); model.push_back(node); }
                    1 if !inside => { list.push_front(&mut nodes, node); model.push_front(node); }
                    2 if inside => { list.remove(&mut nodes, node); model.retain(|other| *other != node); }
                    _ => {}
                }
                assert_eq!((list.len() as usize, list.head()), (model.len(), model.front().copied()));
            }
        }
    }
}
