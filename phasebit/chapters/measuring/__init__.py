"""How to measure: what is measured, and how answers are checked."""
