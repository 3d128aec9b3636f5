"""The machine, slot by slot: what a reader's answers are checked with."""
