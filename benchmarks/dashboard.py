"""The pictures of the dashboard's views for the documentation: writes docs/guide/dashboard/*.png.

    python -m benchmarks.dashboard

Starts a gateway of its own with two tenants that have weeks of releases.
"""

import io
import json
import random
from dataclasses import dataclass
from typing import Any

import httpx
from alert_kit import until
from browser_kit import running_browser, until_shown
from constants_kit import constants
from gateway_kit import DOCUMENT, LEAN, Gateway, Tenant
from history_kit import DAY_MS, HOUR_MS, Past, tenant_with_history
from PIL import Image
from playwright.sync_api import Browser, BrowserContext, Page

from benchmarks.kit import ROOT, arguments, running
from core.accounting.events import Unit

FOLDER = ROOT / "docs/guide/dashboard"
BYTES_MAX = 600_000  # of all pictures together
COLOURS = 64
SETTINGS = constants(
    {"service.operation.maintenance.SERIES_INTERVAL_S": 0.5, "service.alerts.delivery.ALERT_INTERVAL_S": 0.5}
)


@dataclass(frozen=True)
class Picture:
    """One file: a view, or another path, of a seeded tenant or of the operator. It ends after `height` pixels."""

    name: str
    path: str
    tenant: str | None = "acme"
    dark: bool = False
    width: int = 1280
    height: int = 760


PICTURES = (
    Picture("headroom", "headroom"),
    Picture("headroom-dark", "headroom", dark=True),
    Picture("headroom-phone", "headroom", width=390, height=844),
    Picture("forecast", "forecast"),
    Picture("spending", "spending?by=key"),
    Picture("spending-dark", "spending", dark=True),
    Picture("masking", "masking", height=620),
    Picture("subjects", "subjects?near=6", tenant="clinic", height=620),
    Picture("bounds", "bounds", tenant="research", height=800),
    Picture("integrity", "integrity", height=520),
    Picture("journal", "journal"),
    Picture("alerts", "alerts", height=1000),
    Picture("alerts-phone", "alerts", width=390, height=1300),
    Picture("statement", "/budget/statement?format=html", height=1000),
    Picture("operator-tenants", "tenants?tenant=acme", tenant=None, height=1000),
    Picture("operator-audit", "audit", tenant=None, height=560),
    Picture("operator-alerts-dark", "alerts", tenant=None, dark=True, height=900),
    Picture("operator-integrity", "integrity", tenant=None, height=520),
    Picture("operator-integrity-phone", "integrity", tenant=None, width=390, height=844),
)


def seeded(gateway: Gateway) -> dict[str, Tenant]:
    """The tenants of the pictures, by name. Two have releases of weeks, and all have real ones of today."""
    draw = random.Random(1)
    acme = [
        Past(
            day * DAY_MS + draw.randint(1, 20) * HOUR_MS,
            epsilon=draw.choice([1, 1, 2, 4]),
            mechanism=draw.choice(["sentence_codes"] * 4 + ["clipped_cosine"]),
            key=draw.choice([0, 0, 1, 2]),
        )
        for day in range(25)
        for _ in range(draw.randint(1, 5))
    ]
    acme += [
        Past(day * DAY_MS + 5 * HOUR_MS, 1, "metric_dp_laplace", key=1, unit=Unit.TOKEN, route="sanitize")
        for day in range(12)
    ]
    clinic = [
        Past(day * DAY_MS + 9 * HOUR_MS, epsilon=draw.choice([0.5, 1, 2]), subject=f"person {number}")
        for number in range(14)
        for day in range(10)
        if draw.random() < 0.06 * number
    ]
    tenants = {
        "acme": tenant_with_history(gateway, "acme", acme, epsilon=400, keys=3),
        "clinic": tenant_with_history(gateway, "clinic", clinic, epsilon=500, subject_epsilon=10),
        "research": gateway.tenant("research", epsilon=8, delta=1e-6),
    }
    for name in ("acme", "research"):
        for epsilon in (0.5, 0.5, 1):
            tenants[name].embed(epsilon=epsilon).raise_for_status()
    body = {"model": "minilm-sentdp-eps10", "input": DOCUMENT}
    tenants["acme"].http.post("/v1/embeddings", json=body).raise_for_status()
    texts = [
        "Write to Maria Keller, maria@example.org.",
        "Call +1 212 555 0123 or 4111 1111 1111 1111.",
        "Ask paul@example.org.",
    ]
    for text in texts:
        tenants["acme"].http.post("/sanitize", json={"documents": [{"text": text}]}).raise_for_status()
    until(lambda: tenants["acme"].http.get("/masking/counts").json()["rows"])
    watch(gateway, tenants["acme"])
    gateway.admin.post("/admin/tenants", json={"name": "acme", "epsilon": 1})  # fails, which the audit log shows
    for name, state in (("research", "suspended"), ("clinic", "active")):
        gateway.admin.put(f"/admin/tenants/{name}/state", json={"state": state, "reason": "no contract this year"})
    return tenants


def watch(gateway: Gateway, tenant: Tenant) -> None:
    """Rules of the tenant and of the operator, of which two have fired. A name of the example domain is called by
    nobody."""
    webhook = {"url": "https://hooks.example/privacy"}
    rules: list[tuple[str, dict[str, Any], bool]] = [
        ("nearly-spent", {"kind": "budget_used", "share": 0.2, "accounts": ["acme/sentence"]}, False),
        ("runs-out", {"kind": "forecast", "days": 7}, True),
        ("jobs", {"kind": "job_ended", "statuses": ["failed"]}, False),
    ]
    for name, when, is_sent in rules:
        body = {"when": when, "webhook": webhook if is_sent else None}
        tenant.http.put(f"/alerts/rules/{name}", json=body).raise_for_status()
    for name, body in (
        ("fifth-spent", {"when": {"kind": "budget_used", "share": 0.2}}),
        ("any-loss", {"when": {"kind": "spent_without_output"}, "tenants": ["acme", "clinic"]}),
        ("seals", {"when": {"kind": "integrity"}, "webhook": webhook}),
    ):
        gateway.admin.put(f"/admin/alerts/rules/{name}", json=body).raise_for_status()
    until(lambda: tenant.http.get("/alerts").json()["alerts"])
    until(lambda: gateway.admin.get("/admin/alerts").json()["alerts"])


def profile(
    browser: Browser, gateway: Gateway, tenant: Tenant | None, *, dark: bool, width: int, height: int
) -> BrowserContext:
    """A profile without a cache, signed in as a tenant or as the operator."""
    key = tenant.key if tenant else (gateway.data_dir / "admin.key").read_text().strip()
    answer = httpx.post(f"{gateway.url}/dashboard/session", headers={"Authorization": f"Bearer {key}"}, timeout=60)
    context = browser.new_context(
        base_url=gateway.url,
        color_scheme="dark" if dark else "light",
        viewport={"width": width, "height": height},
        locale="en-GB",
    )
    context.add_cookies([{"name": "pgw_session", "value": answer.cookies["pgw_session"], "url": gateway.url}])
    return context


def take(browser: Browser, gateway: Gateway, tenants: dict[str, Tenant]) -> None:
    FOLDER.mkdir(exist_ok=True)
    total = 0
    for picture in PICTURES:
        tenant = tenants[picture.tenant] if picture.tenant else None
        context = profile(browser, gateway, tenant, dark=picture.dark, width=picture.width, height=picture.height)
        page: Page = context.new_page()
        page.goto(picture.path if picture.path.startswith("/") else f"/dashboard/{picture.path}")
        if page.locator("#view").count():
            until_shown(page)
        if page.locator(".chart").count():
            page.locator(".chart canvas").wait_for()
        image = Image.open(io.BytesIO(page.screenshot()))
        context.close()
        path = FOLDER / f"{picture.name}.png"
        image.convert("RGB").quantize(COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(
            path, optimize=True
        )
        total += path.stat().st_size
    print(json.dumps({"pictures": len(PICTURES), "bytes": total}))
    if total > BYTES_MAX:
        raise SystemExit(f"the pictures have more than {BYTES_MAX} bytes")


def main() -> None:
    arguments(__doc__)
    with running_browser() as browser, running(LEAN | SETTINGS) as gateway:
        take(browser, gateway, seeded(gateway))


if __name__ == "__main__":
    main()
