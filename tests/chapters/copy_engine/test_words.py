"""What the chapter says in words of its record: a new measurement must keep it."""

from __future__ import annotations

from statistics import median

from phasebit import measure
from phasebit.chapters.copy_engine import prefetch, view
from phasebit.chapters.copy_engine import record as benchmark

RECORD = measure.read("copy_engine")


def rate(how: str, threads: int, bytes_: int) -> float:
    (row,) = (
        row for row in RECORD["memory"]
        if (row["how"], row["threads"], row["bytes"]) == (how, threads, bytes_)
    )  # fmt: skip
    return median(row["gb_s"])


def test_the_rows_that_are_shown() -> None:
    rows = view.threads(RECORD).rows
    assert len(rows) == len(view.SHOWN) + len(view.COPIES)
    loads, copies = rows[: len(view.SHOWN)], rows[len(view.SHOWN) :]
    assert sorted((int(row[0]), int(row[1].split()[0])) for row in loads) == sorted(view.SHOWN)
    for row in loads:
        assert row[3] == f"{rate('loads', int(row[0]), int(row[2].replace(',', ''))):,.0f}"
    assert [int(row[2].replace(",", "")) for row in copies] == list(view.COPIES)


def test_one_thread_is_enough() -> None:
    best = max(median(row["gb_s"]) for row in RECORD["memory"])
    assert rate("copies", 1, 65536) > 0.95 * best
    assert rate("copies", 1, 32768) > 0.9 * best > rate("copies", 1, 16384)
    assert rate("loads", 1024, 16384) < 0.9 * best, "not even 1,024 threads with one load"
    assert rate("loads", 1024, 32768) > 0.9 * best and rate("loads", 512, 32768) > 0.9 * best
    assert all(rate("loads", 512, n) < 0.9 * best for n in (8192, 16384)), (
        "512 threads need four loads"
    )


def test_bytes_wait_longer_when_more_are_under_way() -> None:
    found = list(view.times(RECORD).values())
    assert found == sorted(found) and 380 < found[0] < 460 and found[1] < 1.1 * found[0]


def test_announcements() -> None:
    cases = {(case["copies"], case["more"]): case["blocks"] for case in RECORD["announced"]}
    for (copies, more), blocks in cases.items():
        assert sum(blocks.values()) == 2112
        if not more:
            assert blocks["complete"] == 2112
        elif (copies, more) != (2, -4096):
            assert blocks["never"] == 2112
    assert all(blocks > 100 for blocks in cases[2, -4096].values()), "all three"


def test_hints() -> None:
    rates = {mib: [median(each) for each in hints.values()]
             for mib, hints in RECORD["hints"].items()}  # fmt: skip
    assert all(abs(last / first - 1) < 0.03 for _, first, last in rates.values()), "nothing more"
    assert rates["16"][0] < 0.85 * rates["4"][0], "from 16 MiB on"
    assert 1.4 < rates["32"][1] / rates["32"][0] < 1.6, "half as many again"
    assert abs(rates["48"][1] / rates["48"][0] - 1) < 0.05, "at 48 MiB no hint helps"


def test_what_the_programs_print_is_read() -> None:
    said = "⏱ loads threads=32 bytes=512 171.5\n⏱ loads threads=32 bytes=512 172.5\n"
    assert list(benchmark._memory(said)) == [
        {"how": "loads", "threads": 32, "bytes": 512, "gb_s": [171.5, 172.5]}
    ]
    said = "2 copies, -4096 bytes: complete 1, too early 2, never 3\n"
    assert list(benchmark._announced(said)) == [
        {"copies": 2, "more": -4096, "blocks": {"complete": 1, "too early": 2, "never": 3}}
    ]
    assert benchmark._hints("⏱ table=4 and table last: 8.5\n") == {"4": {"and table last": [8.5]}}


def test_a_prefetch() -> None:
    took = {what: median(each) for what, each in measure.read(prefetch.NAME)["cycles"].items()}
    asked = "from memory", "in the cache", "500", "0"
    assert [took[what] for what in asked] == [950, 426, 615, 836]
    later = [took[str(cycles)] for cycles in (250, 500, 750, 1000, 1500, 2000)]
    assert max(later) - min(later) < 15 and 1 / 3 < 1 - later[0] / took["from memory"] < 0.36


def test_the_lines_of_prefetches_are_read() -> None:
    said = "⏱ prefetched, 250 cycles before: 7\n⏱ from memory, 0 cycles before: 9\n"
    assert prefetch.read(said * 2) == {"250": [7, 7], "from memory": [9, 9]}
