"""How long a head is trained: so many passes, or until the loss that is watched no longer falls."""

import math
from dataclasses import dataclass

MOST_EPOCHS, MOST_STEPS = (
    6,
    1500,
)  # where nobody says how long: so many passes, or so many steps if that is more
BETWEEN = 25  # steps at least between two looks at the loss
PATIENCE = 4  # looks without a gain after which the step size falls to 0
TAIL = 4  # over a quarter of the steps made so far


def num_steps(epochs: float | None, per_epoch: int) -> int:
    """How many steps are made at most; a pass takes `per_epoch` of them."""
    return max(MOST_EPOCHS * per_epoch, MOST_STEPS) if epochs is None else max(1, round(epochs * per_epoch))


def steps_between_looks(per_epoch: int) -> int:
    """A pass, or a few when they are short."""
    return max(BETWEEN, per_epoch)


@dataclass
class Pace:
    """The step size, which falls linearly to 0 at the step `end`; sooner once the loss that is watched has stopped falling."""

    step_size: float
    end: int
    tol: float
    begin: int = 0
    best: float = math.inf
    looks: int = 0
    last_gain: int = 0
    is_slowing: bool = False

    def rate(self, step: int) -> float:
        """The step size of a step."""
        return self.step_size * (1 - (step - self.begin) / (self.end - self.begin))

    def look(self, loss: float, step: int) -> bool:
        """Whether the loss is the least so far; the end comes near when it has not fallen by `tol` for some looks."""
        self.looks += 1
        is_best = loss < self.best
        if loss < self.best - self.tol:
            self.last_gain = self.looks
        self.best = min(self.best, loss)
        if self.looks - self.last_gain >= PATIENCE and not self.is_slowing:
            self.step_size, self.begin = self.rate(step), step
            self.end = min(self.end, step + max(BETWEEN, step // TAIL))
            self.is_slowing = True
        return is_best
