"""Launches that begin early, in a stream and in a graph, are right; the record's names fit."""

import pytest

from phasebit.chapters.measuring import launch_gaps
from tests.kernels.emulated import emulate


@pytest.mark.nvcc
def test_early_and_not_in_a_stream_and_in_a_graph() -> None:
    done = emulate(launch_gaps.TEXT)
    assert done.ok and not done.stderr, done.stdout + done.stderr
    assert done.stdout.endswith("one after another and early\n")


def test_the_record_names_what_the_program_keeps() -> None:
    for words in (*launch_gaps.KINDS, *(f"{way}, " for way in launch_gaps.WAYS)):
        assert f'"{words}"' in launch_gaps.TEXT, words
    for words in launch_gaps.STAMPED:
        assert f'": {words}"' in launch_gaps.TEXT, words
