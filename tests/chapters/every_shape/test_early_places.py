"""The picture of where blocks were: its legend names what it shows, and nothing else."""

from phasebit import measure
from phasebit.chapters.every_shape import early_places
from phasebit.chapters.every_shape.early_controls import EARLY, NOT_EARLY


def test_a_legend_names_the_colours_of_its_picture() -> None:
    record = measure.read("every_shape_early")
    early, later = (early_places.picture(record, way) for way in (EARLY, NOT_EARLY))
    longer = "longer than any block not early"
    for drawn in (early.svg, early.narrow):
        assert drawn.count(longer) == 1
        assert drawn.count(">a block<") == drawn.count(">no block<") == 1
    for drawn in (later.svg, later.narrow):
        assert longer not in drawn
        assert drawn.count(">a block<") == drawn.count(">no block<") == 1
