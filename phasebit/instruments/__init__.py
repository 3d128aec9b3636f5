"""What records are made with: programs run and timed, a profiler, sanitizers, rivals by turns."""
