"""Bulk copies and boxes of tensors: the asynchronous work of the copy engine."""
