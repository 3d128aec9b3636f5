"""Every order of a small kernel's steps: which of them need be run, and what they show."""
