"""Limits that several kinds of release share."""

from __future__ import annotations

from core.errors import InvalidInput
from service.config.settings import Settings


def check_epsilon(epsilon: float, settings: Settings, *, field: str = "epsilon") -> None:
    """Raises InvalidInput for an epsilon outside the operator's range."""
    if not settings.epsilon_min <= epsilon <= settings.epsilon_max:
        raise InvalidInput(
            f"epsilon must be between {settings.epsilon_min:g} and {settings.epsilon_max:g}", field=field
        )
