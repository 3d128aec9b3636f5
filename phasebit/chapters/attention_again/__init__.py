"""What only *Attention again* needs."""
