"""Several layers of ReLU: linear and semidefinite relaxations with branch and bound."""
