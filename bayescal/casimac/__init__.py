"""Calibrated simplex-mapping classification: geometry, neighbours, latent Gaussian process, classifier."""
