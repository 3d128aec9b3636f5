"""Whether packing pays: what is measured, and how answers are checked."""
