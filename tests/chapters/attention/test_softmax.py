"""The online softmax is the one at once; its bound holds, and is not far from what happens."""

from __future__ import annotations

import numpy as np
import pytest

from phasebit.chapters.attention import attend, softmax


@pytest.mark.parametrize("tile", [1, 3, 8, 100])
@pytest.mark.parametrize("spread", [1.0, 300.0])
def test_tile_by_tile_is_at_once(tile: int, spread: float) -> None:
    draw = np.random.default_rng(tile)
    scores, values = draw.normal(size=50) * spread, draw.normal(size=(50, 4))
    *_, last = softmax.online(scores, values, tile)
    p = np.exp(scores - scores.max())
    np.testing.assert_allclose(last.output / last.sum, p @ values / p.sum(), rtol=1e-12)


def test_a_tile_that_is_hidden_changes_nothing() -> None:
    scores = np.array([-np.inf, -np.inf, 1.0, -np.inf, -np.inf, -np.inf])
    *_, before, last = softmax.online(scores, np.ones((6, 2)), 2)
    assert last.top == before.top == 1 and last.sum == before.sum == 1
    np.testing.assert_array_equal(last.output, [1, 1])


def rounded(h: attend.Heads, tile: int, cut: bool) -> np.ndarray:
    """What a kernel computes for a head, with its roundings; ``cut``: scores cut, not rounded."""
    scale = np.float32(1 / np.sqrt(h.q.shape[2])) * attend.LOG2_E
    scores = (h.q[0] @ h.k[0].T).astype(np.float32)
    if cut:  # what an adder that cuts bits off may lose
        lost = np.abs(h.q[0]) @ np.abs(h.k[0]).T * h.q.shape[2] * 2.0**-23
        scores = (scores - lost).astype(np.float32)
    rows, keys = scores.shape
    top = np.full((rows, 1), -np.inf, np.float32)
    total = np.zeros((rows, 1), np.float32)
    output = np.zeros(h.q.shape[1:], np.float32)
    for first in range(0, keys, tile):
        part = scores[:, first : first + tile]
        most = np.maximum(top, part.max(axis=1, keepdims=True))
        shrink = np.exp2((top - most) * scale)
        p = np.exp2(part * scale - most * scale).astype(np.float32)
        total = total * shrink + p.sum(axis=1, keepdims=True)
        output = output * shrink + (attend.bf16(p) @ h.v[0, first : first + tile])
        output, top = output.astype(np.float32), most
    return attend.bf16(output / total)


@pytest.mark.parametrize("d", [64, 128])
@pytest.mark.parametrize("spread", [1.0, 30.0])
@pytest.mark.parametrize("cut", [False, True])
def test_the_bound_holds_against_float64(d: int, spread: float, cut: bool) -> None:
    for seed in range(4):
        h = attend.heads(d, 80, 300, spread=spread, seed=seed)
        exact, allowed = attend.exact(h, causal=False)
        worst = (np.abs(rounded(h, 128, cut) - exact[0]) / allowed[0]).max()
        assert worst <= 1
        assert cut or worst > 0.1  # or the bound says little


def test_a_forgotten_rescale_is_outside_the_bound() -> None:
    h = attend.heads(64, 80, 300)
    exact, allowed = attend.exact(h, causal=False)
    scores = h.q[0] @ h.k[0].T / 8
    p = np.exp(scores - np.maximum.accumulate(scores, axis=1))
    assert (np.abs(p @ h.v[0] / p.sum(axis=1, keepdims=True) - exact[0]) > allowed[0]).any()


def test_the_top_that_may_lag_moves_seldom_and_covers_all_scores() -> None:
    scores = np.array([[0.0, 1.0, 2.0, 9.0, 1.0, 0.0], [0.0, 5.0, 0.0, 0.0, 20.0, 0.0]])
    assert [softmax.moves(scores, 1, room) for room in (0, 2, 8, 100)] == [5, 4, 3, 1]
    assert softmax.moves(scores, 6, 8) == 1
