"""A matrix product on a processor: its ladder, what is measured, and how answers are checked."""
