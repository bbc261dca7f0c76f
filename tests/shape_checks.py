"""Shapes in annotations are checked while the tests run: by beartype, with an int being good enough for a float.

A check costs more than most calls, and loops call with the same shapes over and over: each function, and each dataclass, is checked the
first few times that a test calls it. Functions inside functions are not checked: they are made anew, and would be compiled anew, on
every call.
"""

from dataclasses import is_dataclass
from functools import wraps
from types import FunctionType

import jaxtyping
from beartype import BeartypeConf, beartype

MOST = 2  # checked calls of one function in one test

checked = beartype(conf=BeartypeConf(is_pep484_tower=True))
_checks: dict[FunctionType, int] = {}  # how often each function was checked in this test


def begin_test():
    """From here on every function is checked again."""
    _checks.clear()


def sparing(decorator):
    """The decorator for the first few calls of a function in a test, the function itself from then on."""

    def decorate(function):
        if isinstance(function, type):
            own = vars(function).get("__init__")
            if is_dataclass(function) and own is not None and not hasattr(own, "__wrapped__"):
                function.__init__ = decorate(own)
            return function
        if not isinstance(function, FunctionType):
            return decorator(function)
        if "<locals>" in function.__qualname__:
            return function
        careful = None  # made at the first call: a check takes milliseconds to write, and most tests call few functions

        @wraps(function)
        def call(*args, **kwargs):
            nonlocal careful
            count = _checks.get(function, 0)
            if count >= MOST:
                return function(*args, **kwargs)
            _checks[function] = count + 1
            if careful is None:
                careful = decorator(function)
            return careful(*args, **kwargs)

        return call

    return decorate


def install():
    """Check everything in featureprism that is imported from here on."""
    every_call = jaxtyping.jaxtyped
    # the import hook puts jaxtyping.jaxtyped(typechecker=...) above every function and class
    jaxtyping.jaxtyped = lambda *, typechecker: sparing(every_call(typechecker=typechecker))
    return jaxtyping.install_import_hook("featureprism", "shape_checks.checked")
