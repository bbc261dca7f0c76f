"""How many cores small problems should use: one."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache

import torch
from threadpoolctl import ThreadpoolController, threadpool_limits


@contextmanager
def one_thread() -> Iterator[None]:
    """torch and BLAS on one core: small products gain nothing from two, and waiting for each other costs much on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with one_blas_thread():
            yield
    finally:
        torch.set_num_threads(before)


def one_blas_thread() -> AbstractContextManager:
    """numpy on one core: with small matrices its threads would only fight torch's."""
    return _controller().limit(limits=1, user_api="blas")


@lru_cache(maxsize=1)
def one_thread_for_good() -> None:
    """One thread for the rest of this process."""
    threadpool_limits(1)
    torch.set_num_threads(1)


@lru_cache(maxsize=1)
def _controller() -> ThreadpoolController:
    """Looking for the libraries takes milliseconds: once is enough."""
    return ThreadpoolController()
