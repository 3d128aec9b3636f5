"""Kernels in tests of one's own: a plugin that pytest finds where this package is installed.

    import numpy as np
    import pytest

    @pytest.mark.schedules(50)
    def test_scale(kernel):
        x = np.arange(64, dtype=np.float32)
        run = kernel("scale.cu").launch(grid=1, block=64, args=[x, 2.0])
        assert (x == 2 * np.arange(64)).all()
        assert run.counters["l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum"] == 0

``kernel`` compiles a ``.cu`` file, which lies beside the test, or CUDA text; what it launches runs
on the emulator. Whatever is found fails the test, with its message. ``schedules(50)`` runs the test
under the schedules ``late`` and ``eager`` and under 50 random ones, as 52 tests: the one that fails
bears its schedule in its name, and ``pytest "test_scale.py::test_scale[seed-17]"`` repeats it.
``schedules("every")`` runs it once, each launch in every order of its synchronisation that makes a
difference; the shortest order that fails is told, and a search that had to stop before the end is a
warning.

Where entry points are not read, ``-p phasebit.pytest_plugin`` loads it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from phasebit.checked_launches import Kernels

_MARK = "schedules"
_EVERY = "every"
_FIXED = ("late", "eager")
"""Schedules without a seed: the one that is usual, in which most mistakes show, comes first."""


def pytest_configure(config: pytest.Config) -> None:
    """Tell pytest the mark."""
    config.addinivalue_line(
        "markers", f"{_MARK}(count): launch its kernels late, eagerly, and under this many random "
        'schedules, in turn; "every": in every order of their synchronisation'
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test for each schedule that the mark asks for."""
    mark = metafunc.definition.get_closest_marker(_MARK)
    if mark is None:
        return
    count = mark.args[0] if len(mark.args) == 1 and not mark.kwargs else None
    if count != _EVERY and (not isinstance(count, int) or count < 1):
        pytest.fail(
            f"{metafunc.definition.nodeid}: say how many schedules, as in "
            f'@pytest.mark.{_MARK}(50), or "every"', pytrace=False,
        )  # fmt: skip
    if "schedule_seed" not in metafunc.fixturenames:
        pytest.fail(
            f"{metafunc.definition.nodeid} is marked {_MARK} and launches nothing: "
            "ask for the fixture kernel", pytrace=False,
        )  # fmt: skip
    seeds = [_EVERY] if count == _EVERY else [*_FIXED, *range(count)]
    names = [each if isinstance(each, str) else f"seed-{each}" for each in seeds]
    metafunc.parametrize("schedule_seed", seeds, indirect=True, ids=names)


@pytest.fixture
def schedule_seed(request: pytest.FixtureRequest) -> int | str | None:
    """The seed of this test's random schedule, or a schedule; None where it is not marked."""
    return getattr(request, "param", None)


@pytest.fixture
def kernel(request: pytest.FixtureRequest, schedule_seed: int | str | None) -> Kernels:
    """Compile a ``.cu`` file or CUDA text; its launches fail the test with what they find."""
    from phasebit.checked_launches import Kernels

    return Kernels(request.path.parent, schedule_seed)
