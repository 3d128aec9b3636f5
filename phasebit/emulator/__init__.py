"""A GPU that one can read: PTX executed in Python and NumPy."""
