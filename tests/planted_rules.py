"""Each rule with a test that plants what breaks it, and fails when that is not found.

`conftest.py` watches these tests: what they raise is noted, and a test that no longer raises its
rule fails, whatever else it asserts.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

_BY_FILE: dict[str, dict[str, str]] = {
    "tests/emulator/test_async_overwrite.py": {
        "mbarrier-initialised-again": "test_9_7_13_15_9_one_thread_initialises_a_barrier[late]",
        "misaligned-tile": "test_9_7_16_4_1_a_misaligned_swizzled_tile_is_found[32B]",
        "setmaxnreg-mismatch": "test_9_7_19_5_the_warps_of_a_warp_group_must_agree[late]",
        "setmaxnreg-waits-for-ever": "test_9_7_19_5_more_registers_than_there_are[late]",
    },
    "tests/emulator/test_bad_input.py": {
        "invalid-ptx": "test_a_module_is_made_of_text[7]",
    },
    "tests/emulator/test_bulk.py": {
        "block-leaves-too-early":
            "TestLoad::test_a_block_that_leaves_before_the_bytes_have_come_is_found",
        "bulk-in-flight-at-exit": "TestCluster::test_the_source_must_stay",
        "bulk-source-overwritten":
            "TestStore::test_the_source_may_be_overwritten_after_wait_group_read",
        "missing-bulk-wait": "TestStore::test_wait_group_n_leaves_the_newest",
        "missing-mbarrier-wait": "TestLoad::test_another_barriers_phase_is_not_enough",
    },
    "tests/emulator/test_cluster.py": {
        "access-to-departed-block":
            "TestClusterBarrier::test_reaching_into_a_block_that_has_left_is_found",
        "narrow-scope": "TestScopes::test_what_another_block_wrote_needs_cluster_scope[0]",
        "barrier-misuse": "TestClusterBarrier::test_arriving_twice_is_found",
        "deadlock": "TestClusterBarrier::test_a_block_that_does_not_arrive_is_named",
    },
    "tests/emulator/test_cuda.py": {
        "assertion": "test_printf_and_assert[sm_75-G]",
        "invalid-free": "test_freed_memory_is_gone[1]",
        "stack-overflow": "test_endless_recursion_is_a_stack_overflow",
        "use-after-free": "test_freed_memory_is_gone[0]",
    },
    "tests/emulator/test_departed_lanes.py": {
        "divergent-barrier": "TestBarrier::test_a_barrier_of_all_that_a_warp_goes_around[late]",
        "shuffle-from-departed": "TestShuffle::test_from_a_lane_that_has_left[late]",
    },
    "tests/emulator/test_findings_engines.py": {
        "access-to-live-mbarrier": "test_found[a-load-of-a-live-barrier-late0]",
        "empty-bulk-group": "test_found[nothing-in-the-bulk-group-late0]",
        "generic-shared-address": "test_9_7_16_12_1_a_commit_with_a_generic_address[late-0]",
        "late-expect-tx": "test_bytes_announced_when_nothing_keeps_the_phase_open",
        "mbarrier-invalidated-in-use": "test_found[invalidated-while-others-wait-late0]",
        "missing-tcgen05-commit": "test_found[a-shift-after-a-copy-late0]",
        "missing-tcgen05-fence": "test_found[no-fence-before-the-barrier-late0]",
        "product-over-operand": "test_found[sums-over-A-late0]",
        "tensor-memory-grows": "test_found[a-larger-allocation-after-a-smaller-one-late0]",
        "unannounced-bytes": "test_bytes_that_nobody_announced_are_told_with_the_copy",
    },
    "tests/emulator/test_findings_planted.py": {
        "mbarrier-phase-unseen": "TestPlanted::test_found[mbarriers/two_phases_unseen-late0]",
        "race-in-one-store": "TestPlanted::test_found[races/all_write_one_word-late0]",
        "uninitialised-mbarrier": "TestPlanted::test_found[mbarriers/never_initialised-late0]",
    },
    "tests/emulator/test_findings_warps.py": {
        "divergent-sync":
            "TestWarps::test_found[a vote that names lanes which go around it-late0]",
        "wrong-member-mask": "TestWarps::test_found[two masks in one shuffle-late0]",
    },
    "tests/emulator/test_foreign.py": {
        "invalid-operation": "test_a_tensor_map_made_from_zeros[5]",
        "mbarrier-fault": "test_a_parity_of_minus_one",
        "misaligned-access": "test_a_vector_atomic_must_be_aligned",
        "out-of-bounds": "test_a_parameter_by_a_computed_address",
        "uninitialised-read": "test_the_systems_shared_memory_is_initialised",
    },
    "tests/emulator/test_livelock.py": {
        "livelock": "test_a_livelock_is_one_at_once[a loop-True-late]",
        "step-limit": "test_a_count_that_decides_meets_the_limit_of_turns",
    },
    "tests/emulator/test_race_grades.py": {
        "race": "test_stores_of_two_values_are_a_race[shared]",
        "race-beside-atomics":
            "test_a_plain_load_beside_an_atomic_is_of_another_grade[True-global]",
        "race-equal-stores": "test_stores_of_one_value_are_of_another_grade[global]",
    },
    "tests/emulator/test_rulebook.py": {
        "announced-bytes-missing": "test_bytes_that_are_announced_and_never_come",
        "defect": "test_a_fault_of_the_emulator",
        "invalid-tensor-map": "test_a_program_that_is_not_there_and_a_tensor_map_that_cannot_be",
        "program": "test_a_program_that_is_not_there_and_a_tensor_map_that_cannot_be",
        "too-many-arrivals": "test_an_arrival_too_many",
        "trap": "test_a_trap",
    },
    "tests/emulator/test_tcgen05_mma.py": {
        "repeated-tensor-operation":
            "test_9_7_16_6_planted_mistakes_are_found[every thread of a warp multiplies-late]",
        "tensor-memory-leak": "test_9_7_16_6_planted_mistakes_are_found[leaked-late]",
    },
    "tests/emulator/test_tcgen05_pair.py": {
        "tensor-memory-pair-peer-unknown":
            "test_9_7_16_7_1_a_pair_allocates_before_its_blocks_have_met[late]",
    },
    "tests/emulator/test_tcgen05_scaled.py": {
        "reserved-descriptor-bit":
            "test_9_7_16_4_2_bit_12_must_be_0_and_is_taken_for_it[mxf4-2]",
    },
    "tests/emulator/test_tensor_memory.py": {
        "missing-tcgen05-wait": "test_9_7_16_6_4_5_a_use_of_a_register_waits_for_its_value",
        "uninitialised-tensor-memory": "test_9_7_16_1_nobody_has_written_it",
        "wrong-tensor-quarter":
            "test_9_7_16_8_1_the_address_of_the_first_quarter_is_found_and_means_ones_own",
    },
    "tests/emulator/test_tensor_memory_shared.py": {
        "tensor-memory-hold-and-wait":
            "test_9_7_16_7_1_the_danger_is_seen_where_each_block_is_alone[late]",
    },
    "tests/emulator/test_maps_in_use.py": {
        "tensor-map-changed-in-use": "test_a_map_is_changed_when_its_copy_is_over[load-late]",
    },
    "tests/emulator/test_tensormap.py": {
        "missing-tensormap-fence":
            "TestReplace::test_without_the_fence_of_the_tensormap_proxy_it_is_found",
    },
    "tests/emulator/test_wgmma_findings.py": {
        "missing-proxy-fence": "test_found[no-proxy-fence-late0]",
        "missing-wgmma-fence": "test_found[no-wgmma.fence-late0]",
        "missing-wgmma-wait": "test_found[A-overwritten-before-the-wait-late0]",
        "uninitialised-accumulator": "test_found[accumulators-that-nobody-has-written-late0]",
        "wgmma-source-overwritten": "test_found[wait-for-the-tile-by-too-few-late0]",
        "wrong-descriptor": "test_found[rows-that-lie-on-each-other-late0]",
    },
    "tests/emulator/test_wgmma_sparse.py": {
        "illegal-metadata": "test_9_7_15_6_1_metadata_that_are_illegal[two elements at one place]",
    },
    "tests/test_bugs.py": {
        "phase-may-be-missed":
            "test_the_broken_program_is_found_with_its_line[lane_behind_the_copy]",
        "tensor-memory-pair-freed-early":
            "test_the_broken_program_is_found_with_its_line[pair_freed_too_early]",
    },
    "tests/runtime/test_dependent_launches.py": {
        "missing-grid-wait":
            "test_what_the_kernel_before_touches_is_found_before_the_wait[reads]",
    },
    "tests/runtime/test_two_devices.py": {
        "device-scope": "test_what_orders_too_little_is_found[1-0-rules0]",
        "no-peer-access": "test_memory_of_a_peer_must_be_opened",
    },
    "tests/runtime/test_run_options.py": {
        "refused-launch": "test_what_comes_after_a_refused_launch",
        "invalid-copy": "test_a_finding_has_a_status_of_its_own",
        "missing-copy-wait": "test_lines_of_json_name_rule_and_grade",
        "time-limit": "test_a_kernel_that_runs_when_time_is_up_is_told_of",
    },
}  # fmt: skip
"""File -> rule -> the test in it."""

PLANTED = {
    rule: f"{file}::{test}" for file, tests in _BY_FILE.items() for rule, test in tests.items()
}
"""Rule -> the id of a test."""


def planted_in(node: str) -> set[str]:
    """The rules that a test must raise, by its id."""
    return {rule for rule, test in PLANTED.items() if test == node}


def lost(collected: set[str]) -> list[str]:
    """Tests of the table that are not in files which were collected whole."""
    files = {node.partition("::")[0] for node in collected}
    return sorted(
        test for test in set(PLANTED.values())
        if test.partition("::")[0] in files and test not in collected
    )  # fmt: skip


@contextmanager
def noted() -> Iterator[set[str]]:
    """The rules of all findings and errors that are made meanwhile."""
    from phasebit.emulator import EmulatorError, Finding

    seen: set[str] = set()
    finding, error = Finding.__post_init__, EmulatorError.__init__

    def found(self: Finding) -> None:
        finding(self)
        seen.add(self.rule)

    def raised(self: EmulatorError, *arguments: object) -> None:
        error(self, *arguments)  # type: ignore[arg-type]
        seen.add(self.rule)

    Finding.__post_init__, EmulatorError.__init__ = found, raised  # type: ignore[method-assign, assignment]
    try:
        yield seen
    finally:
        Finding.__post_init__, EmulatorError.__init__ = finding, error  # type: ignore[method-assign]
