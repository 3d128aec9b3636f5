"""The instruction families: one module a family, one function an instruction."""
