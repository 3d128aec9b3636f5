"""What a program uses: a module is read, a kernel launched, a run looked at."""
