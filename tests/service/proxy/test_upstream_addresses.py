"""To which addresses an upstream is called, and that no other one can take their place."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from upstream_kit import BODY, PATH, RawUpstream, answer, certificate, limits, resolving, sends, upstream

from core.upstream_errors import UpstreamUnreachable
from service.outbound.addresses import admitted
from service.proxy.client import Answer, UpstreamClient

PUBLIC = ["93.184.215.14", "2606:2800:21f:cb07::1", "64:ff9b::5db8:d70e", "::ffff:93.184.215.14"]
PRIVATE = ["10.1.2.3", "172.16.0.1", "192.168.1.1", "100.64.0.1", "fd00::1", "::ffff:10.1.2.3", "64:ff9b::a01:203"]
LOOPBACK = ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1", "2002:7f00:1::"]
NEVER = [
    "0.0.0.0", "::", "169.254.169.254", "fe80::1", "fe80::1%lo", "::ffff:169.254.169.254", "224.0.0.1", "ff02::1",
    "255.255.255.255", "240.0.0.1", "192.0.2.1", "198.18.0.1", "::127.0.0.1", "2001:db8::1", "localhost", "",
    "192.0.0.192", "::ffff:192.0.0.192", "fec0::1", "fec0::1%1", "feff::1",
]  # fmt: skip


def test_which_addresses_are_admitted() -> None:
    for url, private, expected in (
        ("https://models.example/v1", False, PUBLIC),
        ("https://models.example/v1", True, PUBLIC + PRIVATE + LOOPBACK),
        ("http://models.example/v1", True, PRIVATE + LOOPBACK),
        ("https://localhost/v1", False, PUBLIC + LOOPBACK),
        ("http://127.0.0.1/v1", False, LOOPBACK),
    ):
        given = upstream(url, private_addresses=private)
        assert [text for text in PUBLIC + PRIVATE + LOOPBACK + NEVER if admitted(text, given)] == expected


@pytest.mark.parametrize("address", ["127.0.0.1", "::ffff:127.0.0.1", "10.0.0.1", "169.254.169.254", "0.0.0.0"])
def test_a_name_that_leads_inside_is_not_called(address: str) -> None:
    async def run() -> None:
        async with RawUpstream([sends(answer(b"{}"))]) as server:
            given = upstream(f"https://models.example:{server.port}/v1")
            client = UpstreamClient([given], limits(), resolve=resolving(address))
            with pytest.raises(UpstreamUnreachable) as caught:
                await client.send(given, PATH, BODY, {})
            await client.aclose()
            assert caught.value.reason == "address-refused"
            assert server.connections == 0

    asyncio.run(run())


def test_the_connection_goes_to_the_address_that_was_checked(tmp_path: Path) -> None:
    """A name that resolves to another address the second time (DNS rebinding) is checked the second time, too."""
    made = certificate(tmp_path, "models.example")
    asked: list[str] = []

    async def run() -> tuple[Answer, str]:
        async with RawUpstream([sends(answer(b'{"a": 1}'), then="close")], tls=made.server) as server:

            async def resolve(host: str, _: int) -> list[str]:
                asked.append(host)
                return ["127.0.0.1"] if len(asked) == 1 else ["169.254.169.254"]

            url = f"https://models.example:{server.port}/v1"
            given = upstream(url, private_addresses=True, ca_file=made.ca_file)
            client = UpstreamClient([given], limits(), resolve=resolve)
            first = await client.send(given, PATH, BODY, {})
            with pytest.raises(UpstreamUnreachable) as caught:
                await client.send(given, PATH, BODY, {})
            await client.aclose()
            assert server.requests[0].headers["host"] == f"models.example:{server.port}"
            return first, caught.value.reason

    first, reason = asyncio.run(run())

    assert (first.body, reason) == (b'{"a": 1}', "address-refused")
    assert asked == ["models.example"] * 2


def test_a_further_address_is_tried_where_one_does_not_answer() -> None:
    async def run() -> Answer:
        async with RawUpstream([sends(answer(b"{}"))]) as server:
            given = upstream(f"http://models.example:{server.port}/v1", private_addresses=True)
            client = UpstreamClient([given], limits(), resolve=resolving("127.0.0.2", "127.0.0.1"))
            found = await client.send(given, PATH, BODY, {})
            await client.aclose()
            return found

    assert asyncio.run(run()).status == 200


@pytest.mark.parametrize("case", ["unknown authority", "other name", "expired"])
def test_a_certificate_is_verified_for_the_name_that_was_called(tmp_path: Path, case: str) -> None:
    made = certificate(
        tmp_path, "other.example" if case == "other name" else "models.example", expired=case == "expired"
    )

    async def run() -> UpstreamUnreachable:
        async with RawUpstream([sends(answer(b"{}"))], tls=made.server) as server:
            given = upstream(
                f"https://models.example:{server.port}/v1",
                private_addresses=True,
                ca_file=None if case == "unknown authority" else made.ca_file,
            )
            client = UpstreamClient([given], limits(), resolve=resolving("127.0.0.1"))
            with pytest.raises(UpstreamUnreachable) as caught:
                await client.send(given, PATH, BODY, {})
            await client.aclose()
            assert server.requests == []
            return caught.value

    assert asyncio.run(run()).reason == "certificate"


def test_a_name_without_an_address_is_unreachable() -> None:
    async def nothing(_: str, __: int) -> list[str]:
        raise OSError("no such name")

    async def run() -> UpstreamUnreachable:
        given = upstream("https://models.example/v1")
        with pytest.raises(UpstreamUnreachable) as caught:
            await UpstreamClient([given], limits(), resolve=nothing).send(given, PATH, BODY, {})
        return caught.value

    assert asyncio.run(run()).reason == "connect"
