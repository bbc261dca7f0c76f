"""What the orders of the theorems may be at the sizes of this package: one constant for each, whatever the theorem."""

SMALL = 0.1  # o(1)
NEARLY_ALL = 1 - SMALL  # 1 - o(1)
HALF_ENERGY = 0.5**0.5  # the |cosine| with one feature from which a neuron is mostly that feature
FEW = 3  # |N_i| = O(1): so many features may be a neuron's own
