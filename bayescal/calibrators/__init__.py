"""Calibrators of scores: one file each, read top to bottom."""
