"""What only *Two GPUs* needs."""
