"""Readers of torch modules, scikit-learn estimators, ONNX and .npz files."""
