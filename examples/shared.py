"""What the examples share: how they reach the gateway, and how they read what it charged."""

from __future__ import annotations

import argparse
import os
import sys
from itertools import takewhile

from privacy_gateway_client import Account, Gateway, GatewayError

URL_VARIABLE, KEY_VARIABLE = "PRIVACY_GATEWAY_URL", "PRIVACY_GATEWAY_API_KEY"


def parser(documentation: str | None) -> argparse.ArgumentParser:
    """The options of every example. `documentation`: the docstring of the script, which `--help` shows."""
    options = argparse.ArgumentParser(description=documentation, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument(
        "--url", default=os.environ.get(URL_VARIABLE, "http://127.0.0.1:8000"), help=f"default: {URL_VARIABLE}"
    )
    options.add_argument("--key", default=os.environ.get(KEY_VARIABLE), help=f"API key, default: {KEY_VARIABLE}")
    return options


def connect(arguments: argparse.Namespace) -> Gateway:
    """A client for the options `--url` and `--key`."""
    if not arguments.key:
        sys.exit(f"error: give the API key in {KEY_VARIABLE} or by --key")
    return Gateway(arguments.url, arguments.key)


def account(client: Gateway, unit: str) -> Account:
    """The tenant's own account of a unit: `token`, `sentence`, `vector` or `record`."""
    own = takewhile(lambda one: one.subject_hash is None, client.budget.accounts())
    return next(one for one in own if one.unit == unit)


def print_charge(before: Account, after: Account) -> None:
    """Print what the account was charged between its two states."""
    spent, was = after.committed, before.committed
    delta = f" and delta {spent.delta - was.delta:.3g}" if spent.delta > was.delta else ""
    print(
        f"\nThe gateway charged epsilon {spent.epsilon - was.epsilon:.6g}{delta} to {after.account}: "
        f"{spent.epsilon:.6g} of {after.limit.epsilon:.6g} is spent."
    )


def failed(error: GatewayError) -> str:
    """The message of an example that ends early. Errors of the client hold no text of a request."""
    return f"error: {error}"
