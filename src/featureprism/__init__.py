"""What features gradient descent finds, and how far the networks that use them are from breaking."""
