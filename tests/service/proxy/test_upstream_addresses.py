"""To which addresses an upstream is called, and that no other one can take their place."""

from pathlib import Path

import pytest
from upstream_kit import (
    BODY,
    PATH,
    Certificate,
    RawUpstream,
    answer,
    certificate,
    resolving,
    sends,
    upstream,
    with_upstream,
)

from core.errors import UpstreamUnreachable
from service.outbound import admitted
from service.proxy.client import UpstreamAnswer, UpstreamClient
from service.proxy.upstreams import Upstream

PUBLIC = ["93.184.215.14", "2606:2800:21f:cb07::1", "64:ff9b::5db8:d70e", "::ffff:93.184.215.14"]
PRIVATE = ["10.1.2.3", "172.16.0.1", "192.168.1.1", "100.64.0.1", "fd00::1", "::ffff:10.1.2.3", "64:ff9b::a01:203"]
LOOPBACK = ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1", "2002:7f00:1::"]
NEVER = [
    "0.0.0.0", "::", "169.254.169.254", "fe80::1", "fe80::1%lo", "::ffff:169.254.169.254", "224.0.0.1", "ff02::1",
    "255.255.255.255", "240.0.0.1", "192.0.2.1", "198.18.0.1", "::127.0.0.1", "2001:db8::1", "localhost", "",
    "192.0.0.192", "::ffff:192.0.0.192", "fec0::1", "fec0::1%1", "feff::1",
]  # fmt: skip
OK = [sends(answer(b"{}"))]


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


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return certificate(tmp_path_factory.mktemp("certificate"), "models.example")


async def send(client: UpstreamClient, called: Upstream, _: RawUpstream) -> UpstreamAnswer:
    return await client.send(called, PATH, BODY, {})


async def refusal(client: UpstreamClient, called: Upstream, server: RawUpstream) -> str:
    """The reason of the error of a call that sends nothing."""
    before = len(server.requests)
    with pytest.raises(UpstreamUnreachable) as caught:
        await send(client, called, server)
    assert len(server.requests) == before
    return caught.value.reason


def test_a_name_that_leads_inside_is_not_called(made: Certificate) -> None:
    async def use(client: UpstreamClient, called: Upstream, server: RawUpstream) -> tuple[str, int]:
        return await refusal(client, called, server), server.connections

    for address in ("127.0.0.1", "::ffff:127.0.0.1", "10.0.0.1", "169.254.169.254", "0.0.0.0"):
        assert with_upstream(OK, use, tls=made, resolve=resolving(address)) == ("address-refused", 0)


def test_the_connection_goes_to_the_address_that_was_checked(made: Certificate) -> None:
    """A name that resolves to another address the second time (DNS rebinding) is checked the second time, too."""
    asked: list[str] = []

    async def resolve(host: str, _: int) -> list[str]:
        asked.append(host)
        return ["127.0.0.1"] if len(asked) == 1 else ["169.254.169.254"]

    async def use(client: UpstreamClient, called: Upstream, server: RawUpstream) -> tuple[int, str]:
        first = await send(client, called, server)
        assert server.requests[0].headers["host"] == f"models.example:{server.port}"
        return first.status, await refusal(client, called, server)

    given = {"private_addresses": True, "ca_file": made.ca_file}
    closing = [sends(answer(b"{}"), then="close")]
    assert with_upstream(closing, use, given=given, tls=made, resolve=resolve) == (200, "address-refused")
    assert asked == ["models.example"] * 2


def test_a_further_address_is_tried_where_one_does_not_answer() -> None:
    addresses = resolving("127.0.0.2", "127.0.0.1")
    assert with_upstream(OK, send, given={"private_addresses": True}, resolve=addresses).status == 200


def test_a_certificate_is_verified_for_the_name_that_was_called(made: Certificate, tmp_path: Path) -> None:
    for case, names, expired in (("other", "other.example", False), ("expired", "models.example", True)):
        (tmp_path / case).mkdir()
        wrong = certificate(tmp_path / case, names, expired=expired)
        given = {"private_addresses": True, "ca_file": wrong.ca_file}
        assert with_upstream(OK, refusal, given=given, tls=wrong, resolve=resolving("127.0.0.1")) == "certificate"
    unknown = {"private_addresses": True}  # its authority is none of the system's
    assert with_upstream(OK, refusal, given=unknown, tls=made, resolve=resolving("127.0.0.1")) == "certificate"


def test_a_name_without_an_address_is_unreachable(made: Certificate) -> None:
    async def nothing(_: str, __: int) -> list[str]:
        raise OSError("no such name")

    assert with_upstream(OK, refusal, tls=made, resolve=nothing) == "connect"
