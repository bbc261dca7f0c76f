import pytest


@pytest.fixture(autouse=True)
def few_steps(monkeypatch):
    """Heads of the tests are small: 200 steps are enough for them."""
    monkeypatch.setattr("featureprism.heads.pace.MOST_STEPS", 200)
