"""Theorems as data: premises and predictions, blind to the outcome."""
