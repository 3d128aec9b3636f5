"""*In other languages*: Triton's and Gluon's products for Blackwell, compiled and watched."""
