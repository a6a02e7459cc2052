"""What a large request occupies is held until its answer has been sent."""

import orjson
from exchange_kit import Exchange
from inprocess_kit import Gateway, module_gateway

LARGE = orjson.dumps({"documents": [{"text": "All quiet. " * 7000}]})


single = module_gateway(changes={"large_requests_per_tenant_max": 1})


def test_the_place_of_a_large_request_is_held_until_its_answer_was_read(single: Gateway) -> None:
    tenant = single.tenant()

    def ask_large() -> Exchange:
        made = Exchange(single, tenant.key, "POST", "/sanitize", media_type="application/json", size=len(LARGE))
        made.body.put_nowait(LARGE)
        made.body.put_nowait(None)
        return made

    async def ask() -> None:
        slow = ask_large()
        slow.reads = False
        await slow.begun()
        next_one = ask_large()
        small = Exchange(single, tenant.key, "GET", "/budget")
        await small.ended()
        assert not next_one.messages
        slow.read.set()
        await slow.ended()
        await next_one.ended()
        assert (slow.status, next_one.status) == (200, 200)

    single.on_loop(ask())
