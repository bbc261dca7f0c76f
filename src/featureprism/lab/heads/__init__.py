"""Heads beside what people use instead: baselines, one table for all, and how far data is from what a head believes."""
