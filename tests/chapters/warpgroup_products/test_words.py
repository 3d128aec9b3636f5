"""What the chapter says in words of products beside copies: a new measurement must keep it."""

from __future__ import annotations

from phasebit import measure
from phasebit.chapters.warpgroup_products import asking, beside_copies, view

RECORD = measure.read(beside_copies.NAME)
ASKED = measure.read(asking.NAME)


def test_boxes_take_nothing_from_products() -> None:
    for a in beside_copies.MEMORY:
        for n in beside_copies.WIDTHS:
            alone, _ = view.beside_row(RECORD, n=n, a=a, asked=0)
            for how in ({"bytes": 8192}, {}, {"bytes": 32768}, {"warps": 2}, {"same": True}):
                cycles, _ = view.beside_row(RECORD, n=n, a=a, asked=-1, **how)
                assert abs(cycles / alone - 1) < 0.003, "as many as without copies"
    for n in beside_copies.WIDTHS:
        cycles, arrived = view.beside_row(RECORD, n=n, a="shared", bytes=32768, asked=-1)
        assert arrived > 50 and cycles < 0.92 * view.supposed(n, "shared", arrived)
    everywhere = {"a": "shared", "bytes": 32768, "asked": -1, "blocks": 132}
    come = [view.beside_row(RECORD, n=n, **everywhere) for n in beside_copies.WIDTHS]
    assert sorted(round(arrived) for _, arrived in come)[:: len(come) - 1] == [41, 44]
    for n, (cycles, _) in zip(beside_copies.WIDTHS, come, strict=True):
        alone, _ = view.beside_row(RECORD, n=n, a="shared", asked=0, blocks=132)
        assert abs(cycles / alone - 1) < 0.003, "no cycle is lost either"
    cycles, arrived = view.beside_row(RECORD, n=32, a="shared", bytes=32768, asked=-1)
    assert 127 < 3072 / cycles <= 128.1 and round(arrived) == 55


def test_looks_at_the_clock_cost() -> None:
    for n in (64, 128, 256):
        alone, _ = view.beside_row(RECORD, n=n, a="shared", asked=0)
        looks, arrived = view.beside_row(RECORD, n=n, a="shared", asked=beside_copies.DRY)
        assert round(100 * (looks / alone - 1)) == 6 and arrived == 0
        for asked in (16, 32, 48, 64):
            paced, _ = view.beside_row(RECORD, n=n, a="shared", asked=asked)
            assert 4 <= round(100 * (paced / alone - 1)) <= 7, "4 to 7 per cent longer"
        for bytes_, comes in ((8192, 12.5), (32768, 50)):
            bulk, arrived = view.beside_row(
                RECORD, n=n, a="shared", asked=-1, bytes=bytes_, boxes=False
            )
            assert round(100 * (bulk / alone - 1)) == 2 and abs(arrived / comes - 1) < 0.04


def test_the_table_shows_them() -> None:
    rows = view.beside(RECORD).rows
    assert [row[0] for row in rows] == [f"64 × {n} × 16" for n in beside_copies.WIDTHS]
    assert all(float(row[4]) < 0.92 * float(row[3]) for row in rows)


def test_multiplications_alone_slow_the_products() -> None:
    kinds = {(row["n"], row["a"]) for row in ASKED["rows"]}
    assert kinds == {(64, "shared"), (64, "registers"), (256, "registers")}
    for kind in kinds:
        nothing = view.asking_row(ASKED, *kind, "nothing")
        more = {
            how: 100 * (view.asking_row(ASKED, *kind, how) / nothing - 1)
            for how in (*asking.COPIES, *asking.LOOPS)
        }
        for how in ("boxes", "boxes, no swizzle", "bulk, added", "looks", "additions"):
            assert abs(more[how]) < 0.2, "cost nothing"
        assert round(more["boxes, multiplied"]) == round(more["bulk"]) == 2
        assert 5 < more["looks, multiplied"] < 6 and 17 < more["multiplications"] < 18.5


def test_each_way_stands_beside_the_same_with_a_multiplication() -> None:
    rows = view.asking(ASKED).rows
    assert [row[0] for row in rows][:2] == ["boxes", "bulk copies"] and len(rows) == 4
    for _, *cycles in rows:
        for without, multiplied in zip(cycles[::2], cycles[1::2], strict=True):
            assert float(multiplied) > 1.01 * float(without)
