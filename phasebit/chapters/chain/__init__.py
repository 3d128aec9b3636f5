"""What only *Four producers, four consumers* needs."""
