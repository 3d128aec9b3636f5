"""*Past the vendor*: products of every shape."""
