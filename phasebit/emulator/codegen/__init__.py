"""From basic blocks of PTX to Python functions."""
