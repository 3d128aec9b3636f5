"""The copy engine: boxes, a ladder of products, and a ring broken on purpose."""
