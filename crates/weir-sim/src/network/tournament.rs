//! The earliest of many moments that change one at a time.

/// A tournament tree: each node holds the number of the earlier of the two below it.
///
/// A change costs the matches on the way up, and no more once a match ends as it did before. Of equals, the lower number
/// wins.
#[derive(Debug, Default)]
pub(super) struct Tournament {
    /// `u128::MAX`: never.
    moments: Vec<u128>,
    /// Winners; the children of node n are 2n and 2n + 1, the root is node 1, the leaves are the second half.
    winners: Vec<u32>,
}

impl Tournament {
    /// Adds a place whose moment is never.
    pub(super) fn add(&mut self) {
        self.moments.push(u128::MAX);
        if self.moments.len() > self.leaves() {
            self.grow();
        }
    }

    /// Sets the moment of a place.
    pub(super) fn set(&mut self, place: u32, moment: Option<u128>) {
        let moment = moment.unwrap_or(u128::MAX);
        let before = std::mem::replace(&mut self.moments[place as usize], moment);
        if before == moment {
            return;
        }
        let mut node = (self.leaves() + place as usize) >> 1;
        while node > 0 {
            let winner = self.play(node);
            if winner == self.winners[node] && winner != place {
                break;
            }
            self.winners[node] = winner;
            node /= 2;
        }
    }

    /// The earliest moment and its place; `None` if there is none but never.
    pub(super) fn first(&self) -> Option<(u128, u32)> {
        let place = *self.winners.get(1)?;
        let moment = self.moment(place);
        (moment != u128::MAX).then_some((moment, place))
    }

    fn leaves(&self) -> usize {
        self.winners.len() / 2
    }

    fn moment(&self, place: u32) -> u128 {
        self.moments.get(place as usize).copied().unwrap_or(u128::MAX)
    }

    fn play(&self, node: usize) -> u32 {
        let (left, right) = (self.winners[2 * node], self.winners[2 * node + 1]);
        if self.moment(right) < self.moment(left) {
            right
        } else {
            left
        }
    }

    fn grow(&mut self) {
        let leaves = self.moments.len().next_power_of_two().max(2);
        self.winners = vec![0; 2 * leaves];
        for place in 0..leaves {
            self.winners[leaves + place] = place as u32;
        }
        for node in (1..leaves).rev() {
            self.winners[node] = self.play(node);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_winner_is_the_earliest_of_all_after_every_change() {
        let mut tree = Tournament::default();
        let mut plain: Vec<u128> = Vec::new();
        let mut state = 1_u64;
        for round in 0..2000_u32 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            if round % 20 == 0 {
                tree.add();
                plain.push(u128::MAX);
            }
            let place = (state >> 33) as usize % plain.len();
            plain[place] = if state.is_multiple_of(7) {
                u128::MAX
            } else {
                u128::from(state >> 58)
            };
            tree.set(place as u32, (plain[place] != u128::MAX).then_some(plain[place]));
            let first = plain
                .iter()
                .enumerate()
                .min_by_key(|(place, moment)| (**moment, *place));
            let expected = first.filter(|(_, moment)| **moment != u128::MAX);
            assert_eq!(tree.first(), expected.map(|(place, moment)| (*moment, place as u32)));
        }
    }
}
