"""From an operation to a method, which waits for the operation or returns a coroutine, by the driver of its client."""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from typing_extensions import Self

from privacy_gateway_client.core import Core
from privacy_gateway_client.effects import Op

if TYPE_CHECKING:
    from privacy_gateway_client.async_client import AsyncDriver
    from privacy_gateway_client.blocking_client import BlockingDriver

P = ParamSpec("P")
T = TypeVar("T")
Driver = TypeVar("Driver")
Operation = Callable[Concatenate[Core, P], Op[T]]


class Space(Generic[Driver]):
    """A group of methods of a client, or the client itself."""

    def __init__(self, core: Core, driver: Driver) -> None:
        self._core, self._driver = core, driver


class Emits(Generic[T]):
    """The type of what an operation emits."""


class Documented(Generic[P]):
    """Has the documentation and the signature of its operation."""

    def __init__(self, operation: Operation[P, Any]) -> None:
        self.operation = operation
        self.__doc__ = operation.__doc__
        self.__name__ = getattr(operation, "__name__", "")

    @property
    def __signature__(self) -> inspect.Signature:
        signature = inspect.signature(self.operation)
        return signature.replace(parameters=list(signature.parameters.values())[1:])


class Method(Documented[P], Generic[P, T]):
    """A method that returns the result of an operation."""

    def __init__(self, operation: Operation[P, T]) -> None:
        super().__init__(operation)

    @overload
    def __get__(self, owner: None, kind: Any) -> Self: ...
    @overload
    def __get__(self, owner: Space[BlockingDriver], kind: Any) -> Callable[P, T]: ...
    @overload
    def __get__(self, owner: Space[AsyncDriver], kind: Any) -> Callable[P, Awaitable[T]]: ...
    def __get__(self, owner: Space[Any] | None, kind: Any) -> Any:
        return self if owner is None else functools.partial(self, owner)

    def __call__(self, owner: Space[Any], *args: P.args, **kwargs: P.kwargs) -> Any:
        return owner._driver.run(self.operation(owner._core, *args, **kwargs))


class Listing(Documented[P], Generic[P, T]):
    """A method that iterates over what an operation emits."""

    def __init__(self, operation: Operation[P, None], _: Emits[T]) -> None:
        super().__init__(operation)

    @overload
    def __get__(self, owner: None, kind: Any) -> Self: ...
    @overload
    def __get__(self, owner: Space[BlockingDriver], kind: Any) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(self, owner: Space[AsyncDriver], kind: Any) -> Callable[P, AsyncIterator[T]]: ...
    def __get__(self, owner: Space[Any] | None, kind: Any) -> Any:
        return self if owner is None else functools.partial(self, owner)

    def __call__(self, owner: Space[Any], *args: P.args, **kwargs: P.kwargs) -> Any:
        return owner._driver.iterate(self.operation(owner._core, *args, **kwargs))
