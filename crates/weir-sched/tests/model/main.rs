//! The core in a world that delays, repeats, reorders and loses, and that crashes between any two steps.
//!
//! A random list of [`moves::Move`]s drives one core after another against one store and one set of destinations. Everything
//! the core does is checked at once; then the faults stop, and all that was acknowledged must come to its end.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

#[path = "../common/mod.rs"]
mod common;
mod moves;
mod world;

use moves::{Move, a_move, busy_move, force_move, limit_move};
use proptest::prelude::*;
use world::{Shape, World};

fn play(moves: &[Move], starts_per_step: usize) {
    play_in(Shape::usual(starts_per_step), moves);
}

fn play_in(shape: Shape, moves: &[Move]) {
    let mut world = World::new(shape);
    for what in moves {
        world.make(what);
    }
    world.heal();
    world.check_settled();
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 5_000, max_shrink_time: 20_000, ..ProptestConfig::default() })]

    /// Anything that gets through here loses a file, copies it twice, or answers what a crash then takes back.
    #[test]
    fn nothing_is_lost_or_done_twice(moves in prop::collection::vec(a_move(), 1..250), starts in 1..5usize) {
        play(&moves, starts);
    }

    /// As above, while an operator changes limits.
    #[test]
    fn limits_may_change_at_any_time(
        moves in prop::collection::vec(prop_oneof![9 => a_move(), 1 => limit_move()], 1..250),
    ) {
        play(&moves, 1000);
    }

    /// A forced transfer goes past limits, and past nothing else; the others start within limits all the same.
    #[test]
    fn anything_may_be_forced_at_any_time(
        moves in prop::collection::vec(prop_oneof![8 => a_move(), 1 => limit_move(), 1 => force_move()], 1..250),
        starts in 1..5usize,
    ) {
        play(&moves, starts);
    }

    /// Work that may go on goes on, or waits for an alarm that is set: through pauses, bans and crowds, and once the faults
    /// stop, though the bans last.
    #[test]
    fn nothing_waits_for_ever(
        shape in world::shape(),
        moves in prop::collection::vec(prop_oneof![30 => busy_move(), 1 => limit_move(), 1 => force_move()], 1..30),
    ) {
        play_in(shape, &moves);
    }

    /// As above, where no limit ever changes.
    #[test]
    fn a_forced_transfer_counts(moves in prop::collection::vec(prop_oneof![8 => a_move(), 1 => force_move()], 1..250)) {
        play(&moves, 1000);
    }
}
