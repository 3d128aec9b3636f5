"""Matrix fragments and mma.sync (PTX ISA 9.7.14)."""
