"""Fused steps of log densities with hand-written gradients, where an unrolled graph takes too long to compile."""
