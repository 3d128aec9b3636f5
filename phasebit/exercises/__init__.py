"""The checks behind the book's exercises, one module a chapter.

A check tries an answer on many systems, with sizes and data that vary, and returns a
``Verdict``. It never raises because of an answer: an unsolved notebook still executes.
"""
