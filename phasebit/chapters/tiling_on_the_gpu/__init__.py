"""The f32 ladder on a GPU: its rungs, what is measured, and how answers are checked."""
