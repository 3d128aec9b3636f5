"""Layouts: drawn, computed, measured in packed operands and in orders of blocks."""
