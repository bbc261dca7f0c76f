"""What features gradient descent finds, and how far the networks that use them are from breaking.

The names at the top are those most people need; the rest is in modules such as `featureprism.data` and `featureprism.networks`.
Names and modules are imported when they are used, so that `import featureprism` takes no time. What begins with an underscore,
and what the reference does not list, may change without notice.
"""
# ruff: noqa: F401 - type checkers are shown the modules that __getattr__ imports

from difflib import get_close_matches
from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.14.0"  # the only place: pyproject.toml and the command line read it here

if TYPE_CHECKING:
    import featureprism.attacks as attacks
    import featureprism.audit as audit
    import featureprism.data as data
    import featureprism.geometry as geometry
    import featureprism.heads as heads
    import featureprism.lab as lab
    import featureprism.models as models
    import featureprism.networks as networks
    import featureprism.probes as probes
    import featureprism.seeds as seeds
    import featureprism.training as training
    import featureprism.verify as verify
    import featureprism.zoo as zoo
    from featureprism.audit import explain
    from featureprism.brackets import RadiusBracket
    from featureprism.heads import DecoupledHead, GaussianHead, PReLUHead, load_head
    from featureprism.lab import Claim, Experiment, Paper
    from featureprism.models import read_model
    from featureprism.seeds import generator_for
    from featureprism.verify import Budget, check, robust_radius, verify_property

_MODULES = (
    "attacks",
    "audit",
    "data",
    "geometry",
    "heads",
    "lab",
    "models",
    "networks",
    "probes",
    "seeds",
    "training",
    "verify",
    "zoo",
)
_NAMES = {
    "audit": ("explain",),
    "brackets": ("RadiusBracket",),
    "heads": (
        "DecoupledHead",
        "GaussianHead",
        "PReLUHead",
        "load_head",
    ),
    "lab": (
        "Claim",
        "Experiment",
        "Paper",
    ),
    "models": ("read_model",),
    "seeds": ("generator_for",),
    "verify": (
        "Budget",
        "check",
        "robust_radius",
        "verify_property",
    ),
}
_MODULE_OF = {name: module for module, names in _NAMES.items() for name in names}

__all__ = [
    "Budget",
    "Claim",
    "DecoupledHead",
    "Experiment",
    "GaussianHead",
    "PReLUHead",
    "Paper",
    "RadiusBracket",
    "check",
    "explain",
    "generator_for",
    "load_head",
    "read_model",
    "robust_radius",
    "verify_property",
]


def __getattr__(name: str) -> Any:
    """A public name from its module, or a module of the reference; kept here from then on."""
    if name in _MODULES:
        return import_module(f"featureprism.{name}")
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'featureprism' has no attribute {name!r}. {_where(name)}")
    value = getattr(import_module(f"featureprism.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def _where(name: str) -> str:
    """The module that has a name, or the nearest name at the top."""
    for module in () if name.startswith("_") else _MODULES:
        if name in getattr(import_module(f"featureprism.{module}"), "__all__", ()):
            return f"It is featureprism.{module}.{name}."
    near = get_close_matches(name, (*__all__, *_MODULES), n=1)
    return f"Did you mean {near[0]!r}?" if near else f"Public names are {', '.join(__dir__())}."


def __dir__() -> list[str]:
    return sorted({"__version__", *__all__, *_MODULES})
