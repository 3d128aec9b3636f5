"""Warp specialisation: registers by role, and a clinic of broken kernels."""
