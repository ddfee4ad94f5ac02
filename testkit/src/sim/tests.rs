//! The engine keeps its rules, and the simulation notices when one is broken.

use super::*;

/// So many seeds run on every `cargo test`.
const SEEDS: u64 = 3_000;

/// Runs seeds until one breaks a rule.
fn first_failure(seeds: u64, faults: Faults) -> Option<Failure> {
    (0..seeds).find_map(|seed| run(seed, faults).err())
}

/// Checks that a run fails by the rule itself when it is broken on purpose.
#[track_caller]
fn breaks(fault: Fault, invariant: Invariant) {
    let of_rule = |seed| {
        let failure = run(seed, Faults::breaking(fault)).err();
        failure.filter(|failure| failure.invariant == invariant)
    };
    let found = (0..500).find_map(of_rule);
    assert!(
        found.is_some(),
        "500 seeds with {fault:?} have kept {invariant:?}"
    );
}

/// Checks that rows differ in the end when the rule is broken.
#[track_caller]
fn diverges(fault: Fault) {
    let failure = first_failure(4_000, Faults::breaking_unseen(fault));
    assert!(
        failure.is_some(),
        "4000 seeds with {fault:?} have converged"
    );
}

/// Checks that a row is reported as different that is not.
#[track_caller]
fn compares_wrongly(fault: Fault) {
    let failure = first_failure(4_000, Faults::breaking(fault));
    let invariant = failure.map(|failure| failure.invariant);
    assert_eq!(invariant, Some(Invariant::Compares), "{fault:?}");
}

#[test]
fn every_seed_converges_and_keeps_every_rule() {
    let mut stats = Stats::default();
    for seed in 0..SEEDS {
        match run(seed, Faults::NONE) {
            Ok(run) => stats.add(&run),
            Err(failure) => {
                panic!("seed {seed}: {failure}; replay: xtask simulate --start {seed} --seeds 1")
            }
        }
    }
    let counts = [
        stats.discarded,
        stats.crashes,
        stats.reconnects,
        stats.repairs,
        stats.indexes_built,
        stats.compared,
        stats.sessions_left,
        stats.server_ordered,
        stats.keys_repaired,
    ];
    assert!(
        counts.iter().all(|count| *count > SEEDS / 10),
        "too little happens: {stats}"
    );
    let rare = [
        stats.mismatches,
        stats.attempts_failed,
        stats.drains_failed,
        stats.refused,
    ];
    assert!(
        rare.iter().all(|count| *count > SEEDS / 300),
        "too little goes wrong: {stats}"
    );
}

#[test]
fn a_seed_replays_exactly() {
    for seed in 0..20 {
        assert_eq!(run(seed, Faults::NONE), run(seed, Faults::NONE));
    }
}

#[test]
fn i1_a_barrier_that_waits_for_nothing_is_noticed() {
    breaks(Fault::BarrierSkipped, Invariant::I1);
    diverges(Fault::BarrierSkipped);
}

#[test]
fn i1_a_chunk_that_opens_inside_a_transaction_is_noticed() {
    breaks(Fault::TransactionsSplit, Invariant::I1);
    diverges(Fault::TransactionsSplit);
}

#[test]
fn i2_throwing_away_changes_in_an_open_chunk_is_noticed() {
    breaks(Fault::OpenDiscarded, Invariant::I2);
    diverges(Fault::OpenDiscarded);
}

#[test]
fn i2_throwing_away_changes_in_a_closed_range_is_noticed() {
    breaks(Fault::ClosedDiscarded, Invariant::I2);
    diverges(Fault::ClosedDiscarded);
}

#[test]
fn i2_throwing_away_changes_in_ordered_mode_is_noticed() {
    breaks(Fault::OrderedDiscards, Invariant::I2);
    diverges(Fault::OrderedDiscards);
}

#[test]
fn i2_forgetting_what_a_failed_cutover_drained_is_noticed() {
    diverges(Fault::DrainForgotten);
}

#[test]
fn i3_applying_a_change_before_its_chunk_is_noticed() {
    breaks(Fault::ChunkClosedEarly, Invariant::I3);
    diverges(Fault::ChunkClosedEarly);
}

#[test]
fn i4_applying_changes_of_a_key_out_of_order_is_noticed() {
    breaks(Fault::OrderReversed, Invariant::I4);
    diverges(Fault::OrderReversed);
}

#[test]
fn i4_a_batch_that_overtakes_one_in_flight_is_noticed() {
    breaks(Fault::BatchReportedEarly, Invariant::I4);
    diverges(Fault::BatchReportedEarly);
}

/// That ending them is enough, `every_seed_converges_and_keeps_every_rule`
/// shows: there they have committed before the next run begins, or never do.
#[test]
fn i4_sessions_that_outlive_their_connection_unended_are_noticed() {
    diverges(Fault::SessionsNotEnded);
}

#[test]
fn i4_applying_a_failed_cutovers_changes_after_newer_ones_is_noticed() {
    diverges(Fault::DrainOvertaken);
}

#[test]
fn i5_a_checkpoint_ahead_of_the_target_is_noticed() {
    breaks(Fault::CheckpointAhead, Invariant::I5);
    diverges(Fault::CheckpointAhead);
}

#[test]
fn i5_a_checkpoint_inside_a_transaction_is_noticed() {
    breaks(Fault::CheckpointInside, Invariant::I5);
}

#[test]
fn i5_emptying_a_range_apart_from_its_copy_is_noticed() {
    diverges(Fault::EmptiedApart);
}

#[test]
fn i6_a_checkpoint_that_goes_back_is_noticed() {
    breaks(Fault::StoreTakesStale, Invariant::I6);
}

#[test]
fn i6_a_range_that_is_read_again_without_being_emptied_is_noticed() {
    breaks(Fault::NotEmptied, Invariant::PlainInsert);
    diverges(Fault::NotEmptied);
}

#[test]
fn i8_a_stream_that_does_not_wait_for_room_is_noticed() {
    breaks(Fault::BufferLimitIgnored, Invariant::I8);
}

#[test]
fn i9_taking_over_without_evidence_is_noticed() {
    breaks(Fault::TakeOverUnproven, Invariant::I9);
}

#[test]
fn i9_damage_is_found_before_the_target_takes_over() {
    let runs = (0..1_000).filter_map(|seed| run(seed, Faults::NONE).ok());
    let damaged = runs.filter(|stats| stats.damaged > 0);
    let (found, refused) = damaged.fold((0, 0), |(found, refused), stats| {
        (found + stats.mismatches, refused + stats.refused)
    });
    assert!(found > 20, "only {found} damaged rows were found");
    assert!(refused > 5, "only {refused} cutovers were refused");
}

#[test]
fn i9_a_comparison_that_does_not_wait_for_the_stream_is_noticed() {
    compares_wrongly(Fault::ReachSkipped);
}

#[test]
fn i9_a_comparison_that_misses_a_part_of_a_transaction_is_noticed() {
    compares_wrongly(Fault::PartsNotSettled);
}

#[test]
fn i9_a_verifier_that_is_not_told_of_changes_is_noticed() {
    compares_wrongly(Fault::ChangesNotNoted);
}

#[test]
fn a_unique_index_built_away_from_a_consistent_point_is_noticed() {
    diverges(Fault::IndexBuiltEarly);
}

#[test]
fn a_unique_index_on_a_ranged_target_is_noticed() {
    diverges(Fault::WrongMode);
}

#[test]
fn i2_guessing_the_order_of_keys_is_noticed() {
    diverges(Fault::OrderGuessed);
}

#[test]
fn i4_writing_a_key_before_its_other_spelling_is_deleted_is_noticed() {
    diverges(Fault::DeletesOvertaken);
}
