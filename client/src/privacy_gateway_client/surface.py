"""From an operation to the methods of both clients."""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, overload

from typing_extensions import Self

from privacy_gateway_client.core import Core
from privacy_gateway_client.drivers import AsyncDriver, BlockingDriver
from privacy_gateway_client.effects import Op

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R")
Operation = Callable[Concatenate[Core, P], Op[T]]


class _OfBlocking(Protocol):
    _core: Core
    _driver: BlockingDriver


class _OfAsync(Protocol):
    _core: Core
    _driver: AsyncDriver


Owner = _OfBlocking | _OfAsync


class Emits(Generic[T]):
    """The type of what an operation emits."""


class Method(Generic[P, R]):
    """A method of a client. Its documentation and signature are those of the operation."""

    def __init__(self, operation: Operation[P, Any], run: Callable[[Any, Op[Any]], R]) -> None:
        self.operation, self._run = operation, run
        self.__doc__ = operation.__doc__
        self.__name__ = getattr(operation, "__name__", "")
        signature = inspect.signature(operation)
        self.__signature__ = signature.replace(parameters=list(signature.parameters.values())[1:])

    @overload
    def __get__(self, owner: None, kind: Any) -> Self: ...
    @overload
    def __get__(self, owner: Owner, kind: Any) -> Callable[P, R]: ...
    def __get__(self, owner: Owner | None, kind: Any) -> Self | Callable[P, R]:
        if owner is None:
            return self
        return functools.partial(self, owner)

    def __call__(self, owner: Owner, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._run(owner._driver, self.operation(owner._core, *args, **kwargs))


def blocking(operation: Operation[P, T]) -> Method[P, T]:
    """A method that waits for the operation."""
    return Method(operation, BlockingDriver.run)


def awaiting(operation: Operation[P, T]) -> Method[P, Awaitable[T]]:
    """A method that returns a coroutine."""
    return Method(operation, AsyncDriver.run)


def listing(operation: Operation[P, None], _: Emits[T]) -> Method[P, Iterator[T]]:
    """A method that iterates over what the operation emits."""
    return Method(operation, BlockingDriver.iterate)


def listing_async(operation: Operation[P, None], _: Emits[T]) -> Method[P, AsyncIterator[T]]:
    """As `listing`, for `async for`."""
    return Method(operation, AsyncDriver.iterate)
