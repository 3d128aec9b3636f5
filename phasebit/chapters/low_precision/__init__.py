"""What only *Low precision, block by block* needs."""
