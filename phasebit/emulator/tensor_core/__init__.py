"""What tensor cores compute, the memory that they have, and the descriptors that tell them."""
