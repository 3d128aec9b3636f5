"""Every order of a small kernel's steps: which of them need be run, and what they show.

=================  =============================================================
``limits``         how far a search goes
``reduction``      which orders need be run, of steps that touch this and that
``touches``        what each step of a launch touches
``explore``        runs them, and keeps what they found
=================  =============================================================
"""
