"""Connections to other servers, each to an address that was checked.

Guarantee: a name is resolved once for each connection, and the connection goes to an address of that answer that
`admitted` lets pass. The certificate is still that of the name. Multicast, unspecified, link-local and reserved
addresses are never admitted, private and loopback ones only where the operator allows them, and over `http://` no
others are. An address that contains an IPv4 address (mapped, NAT64, 6to4, Teredo) counts as that one.
"""

import asyncio
import ipaddress
import socket
import ssl
import time
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Protocol

import httpcore

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolve = Callable[[str, int], Awaitable[list[str]]]

ADDRESSES_TRIED = 4
TAIL_BYTES = 64

_PRIVATE = tuple(
    ipaddress.ip_network(text)
    for text in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7")
)
# What Python calls global and is not: addresses of protocols, one of which serves a cloud's credentials, and of sites.
_SPECIAL = tuple(ipaddress.ip_network(text) for text in ("192.0.0.0/24", "fec0::/10"))
# Threads of their own: a name server that hangs takes none from the rest of the gateway.
_RESOLVERS = ThreadPoolExecutor(4, thread_name_prefix="resolve")
_NAT64 = ipaddress.ip_network("64:ff9b::/96")


class Destination(Protocol):
    """A server that the gateway calls."""

    @property
    def encrypted(self) -> bool:
        """Whether the connection uses TLS."""

    @property
    def private_addresses(self) -> bool:
        """Whether private addresses are admitted."""

    @property
    def loopback_addresses(self) -> bool:
        """Whether addresses of this machine are admitted."""

    @property
    def connect_timeout_s(self) -> float:
        """The time for the name, the connections that are tried, and no more."""


class NotConnected(httpcore.ConnectError):
    """No connection, for a reason of our own: `address-refused`, `certificate`, or `tls` for another failure of it."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


async def system_resolve(host: str, port: int) -> list[str]:
    """The addresses of a name. Raises OSError."""
    ask = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
    found = await asyncio.get_running_loop().run_in_executor(_RESOLVERS, ask)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def admitted(text: str, destination: Destination) -> bool:
    """Whether a server may be called at an address."""
    try:
        address = _inner(ipaddress.ip_address(text))
    except ValueError:
        return False
    if address.is_loopback:
        return destination.loopback_addresses
    if _is_in(address, _PRIVATE):
        return destination.private_addresses
    outside = address.is_multicast or address.is_unspecified or address.is_link_local or address.is_reserved
    outside = outside or _is_in(address, _SPECIAL)
    return destination.encrypted and address.is_global and not outside


def _is_in(address: Address, networks: Iterable[ipaddress.IPv4Network | ipaddress.IPv6Network]) -> bool:
    return any(address in network for network in networks if network.version == address.version)


def _inner(address: Address) -> Address:
    """The IPv4 address that an IPv6 address stands for, or the address itself."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
    if address.sixtofour is not None:
        return address.sixtofour
    return address.teredo[1] if address.teredo is not None else address


class CheckedNetwork(httpcore.AsyncNetworkBackend):
    """Opens the connections to one server."""

    def __init__(self, destination: Destination, resolve: Resolve = system_resolve) -> None:
        self._destination = destination
        self._resolve = resolve
        self._plain = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the interface of httpcore
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Connect to the first address that answers. Raises httpcore's ConnectError or ConnectTimeout, NotConnected."""
        end = time.monotonic() + (timeout or self._destination.connect_timeout_s)
        try:
            async with asyncio.timeout(end - time.monotonic()):
                found = await self._resolve(host, port)
        except TimeoutError:
            raise httpcore.ConnectTimeout from None
        except (OSError, UnicodeError):
            raise httpcore.ConnectError("the name has no address") from None
        addresses = [text for text in found if admitted(text, self._destination)][:ADDRESSES_TRIED]
        if not addresses:
            raise NotConnected("address-refused")
        for left, address in zip(range(len(addresses), 0, -1), addresses, strict=True):
            try:
                share_s = max(0.001, (end - time.monotonic()) / left)
                return UpstreamSocket(
                    await self._plain.connect_tcp(address, port, share_s, local_address, socket_options)
                )
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                if left == 1:
                    raise
        raise NotConnected("address-refused")

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class UpstreamSocket(httpcore.AsyncNetworkStream):
    """A connection that can be kept from being used again.

    Bytes that a server sends beyond the end of an answer would be read as the start of the next one, which may
    belong to another tenant. `tail` is what was read last, so that the client can see whether an answer ended there.
    """

    def __init__(self, stream: httpcore.AsyncNetworkStream) -> None:
        self._stream = stream
        self._is_spent = False
        self.has_answered = False
        self.tail = b""

    def spend(self) -> None:
        """Let the pool close this connection when its answer is closed."""
        self._is_spent = True

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109
        data = await self._stream.read(max_bytes, timeout)
        if not data and not self.has_answered:
            raise httpcore.ReadError("closed before an answer")
        self.has_answered = True
        self.tail = (self.tail + data)[-TAIL_BYTES:]
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109
        self.has_answered, self.tail = False, b""
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> httpcore.AsyncNetworkStream:
        try:
            return UpstreamSocket(await self._stream.start_tls(ssl_context, server_hostname, timeout))
        except httpcore.ConnectError as error:
            is_certificate = isinstance(error.__cause__, ssl.SSLCertVerificationError)
            raise NotConnected("certificate" if is_certificate else "tls") from None

    def get_extra_info(self, info: str) -> Any:
        # The pool closes an idle connection on which something can be read.
        if info == "is_readable" and self._is_spent:
            return True
        return self._stream.get_extra_info(info)
