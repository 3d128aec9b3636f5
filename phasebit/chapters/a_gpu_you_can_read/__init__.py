"""The emulator, read: planted mistakes, and how answers are checked."""
