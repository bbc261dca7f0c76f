"""Properties of outputs on boxes of inputs, proven or refuted."""
