"""The attacks people use, run on our networks: foolbox and torchattacks, each where it is installed.

An answer is, per point, the norm of the perturbation the tool found (inf: none, so the tool calls the point robust). Every perturbation
is evaluated on the network itself. The box of a tool is the user's guess: these inputs have none.
"""

import logging
from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from featureprism.networks import TwoLogits

WIDE = 10.0  # a box far wider than the data, in units of its largest entry


class AttackTask(NamedTuple):
    """A network with points, and the radius of a fixed-radius attack."""

    net: nn.Module
    x: Tensor
    y: Tensor
    eps: float


class Answer(NamedTuple):
    """What a tool in one mode found; `error` is the message of a tool that raised."""

    tool: str
    mode: str
    radius: Tensor
    error: str = ""


class _SingleOutput(nn.Module):
    """The ±1 network as it is: one output column, which tools take for one class."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x.flatten(1)).unsqueeze(1)


class _Images(nn.Module):
    """Two logits for points shaped like images (n, 1, 1, d)."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.logits = TwoLogits(net)

    def forward(self, x: Tensor) -> Tensor:
        return self.logits(x.flatten(1))


def answers(task: AttackTask) -> Iterator[Answer]:
    """Every installed tool in every mode."""
    for package, run in (("foolbox", _foolbox), ("torchattacks", _torchattacks)):
        if find_spec(package):
            yield from run(task)


def verified_radius(task: AttackTask, moved: Tensor) -> Tensor:
    """‖δ‖ where the perturbation flips the network itself, inf where it does not."""
    x, y = task.x, task.y
    with torch.no_grad():
        flips = y * task.net(moved.reshape(x.shape)) <= 0
    length = torch.linalg.vector_norm(moved.reshape(x.shape) - x, dim=1)
    return torch.where(flips, length, torch.full_like(length, torch.inf))


def answer_of(task: AttackTask, tool: str, mode: str, call: Callable[[], Tensor]) -> Answer:
    """The tool's answer, or its error as an answer that found nothing."""
    try:
        with torch.random.fork_rng():
            torch.manual_seed(0)  # tools draw from the global generator; rows must repeat
            return Answer(tool, mode, verified_radius(task, call()))
    except Exception as error:  # whatever a tool raises is part of the finding
        nothing = torch.full_like(task.y, torch.inf)
        return Answer(tool, mode, nothing, f"{type(error).__name__}: {' '.join(str(error).split())[:120]}")


def _foolbox(task: AttackTask) -> Iterator[Answer]:
    fb: Any = import_module("foolbox")

    logging.getLogger("foolbox").setLevel(logging.ERROR)
    net, x, y, eps = task
    labels, bound = (y > 0).long(), WIDE * float(x.abs().max())
    modes: dict[str, tuple[nn.Module, tuple[float, float]]] = {
        "single output": (_SingleOutput(net), (-bound, bound)),
        "box [0, 1]": (TwoLogits(net), (0.0, 1.0)),
        "defaults": (TwoLogits(net), (-bound, bound)),
        "tuned": (TwoLogits(net), (-bound, bound)),
    }
    reach = max(1.0, eps)  # DDN's first radius and CW's step know nothing of the data's scale
    attacks: dict[str, dict[str, Any]] = {
        "L2PGD": {
            "defaults": fb.attacks.L2PGD(),
            "tuned": fb.attacks.L2PGD(steps=200, rel_stepsize=0.0125).repeat(10),
        },
        "DDN": {
            "defaults": fb.attacks.DDNAttack(),
            "tuned": fb.attacks.DDNAttack(steps=1000, init_epsilon=eps),
        },
        "DeepFool": {
            "defaults": fb.attacks.L2DeepFoolAttack(),
            "tuned": fb.attacks.L2DeepFoolAttack(steps=500, overshoot=1e-4),
        },
        "Carlini-Wagner": {
            "defaults": fb.attacks.L2CarliniWagnerAttack(steps=300),
            "tuned": fb.attacks.L2CarliniWagnerAttack(steps=500, stepsize=0.01 * reach / bound),
        },
    }
    for name, variants in attacks.items():
        for mode, (module, bounds) in modes.items():
            if name == "L2PGD" or mode in variants:
                attack = variants.get(mode, variants["defaults"])
                model = fb.PyTorchModel(module.eval(), bounds=bounds)
                call = partial(attack, model, x, labels, epsilons=eps if name == "L2PGD" else None)
                yield answer_of(task, f"foolbox {name}", mode, lambda call=call: call()[1].detach())


def _torchattacks(task: AttackTask) -> Iterator[Answer]:
    torchattacks: Any = import_module("torchattacks")

    net, x, y, eps = task
    images, labels = x.float().reshape(len(x), 1, 1, -1), (y > 0).long()
    module = _Images(deepcopy(net)).float().eval()
    for mode, options in {"box [0, 1]": {}, "tuned, box [0, 1]": {"steps": 200, "alpha": eps / 40}}.items():

        def call(options=options) -> Tensor:
            attack = torchattacks.PGDL2(module, eps=eps, **options)
            return attack(images.clamp(0, 1), labels).reshape(x.shape).to(x.dtype)

        yield answer_of(task, "torchattacks PGDL2", mode, call)
