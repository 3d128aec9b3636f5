"""The order of blocks: a model of the L2 cache, what is measured, and how answers are checked."""
