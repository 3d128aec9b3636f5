"""What only *Epilogues and groups* needs."""
