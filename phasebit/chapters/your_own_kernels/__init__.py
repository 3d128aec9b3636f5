"""*Your own kernels*: a small project, with the commands that a shell would get."""
