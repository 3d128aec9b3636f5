"""Numbers and their places: formats, rounding, fragments of matrices, swizzles."""
