"""Classifiers as data, and how they are read."""
