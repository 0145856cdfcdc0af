"""Summaries of draws and measures of calibration: arrays in, numbers out."""
