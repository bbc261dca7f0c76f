"""Drawings of a paper that does not draw itself yet."""
