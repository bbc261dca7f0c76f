"""One hidden layer of powers of ReLU: quadratic cells, branch and bound, ellipsoids."""
