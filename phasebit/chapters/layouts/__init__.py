"""Layouts: drawn, computed, and measured in packed operands."""
