"""Bounds that need no search: closed forms, Lipschitz constants, the linear relaxation of one hidden layer."""
