"""*One thread multiplies*: a product that a single thread issues, its descriptors, its order."""
