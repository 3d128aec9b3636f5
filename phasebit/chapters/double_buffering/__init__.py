"""Double buffering: what is measured, stamped and counted, and how answers are checked."""
