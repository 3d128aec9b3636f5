"""How far a search goes, if nobody says otherwise."""

MOST_RUNS = 1000
"""Orders after which it stops."""

SECONDS = 60.0
"""The same in seconds."""

TURNS = 20_000
"""Turns of loops that one run may take: most of these would be loops without an end.  The one run
under the late schedule that a search adds which is not complete has as many."""

LONGEST = 2000
"""Steps of one run: one that takes more is given up, and the search is not complete."""
