import pytest


@pytest.fixture(autouse=True)
def few_steps(monkeypatch):
    """Heads of the tests are small: 200 steps are enough for them."""
    monkeypatch.setattr("featureprism.heads.descent.MIN_STEPS", 200)
