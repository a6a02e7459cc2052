"""The models of all requests by their names, which are those of the OpenAPI document."""

from __future__ import annotations

from privacy_gateway_client import alert_requests, job_requests, presidio_requests, requests

MODELS: dict[str, type[requests.Body]] = {
    name: kind
    for module in (requests, job_requests, alert_requests, presidio_requests)
    for name, kind in vars(module).items()
    if isinstance(kind, type) and issubclass(kind, requests.Body) and kind is not requests.Body
}
NAMES = frozenset(name for kind in MODELS.values() for name in kind.model_fields)
