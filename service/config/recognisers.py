"""The settings of tenants' recognisers."""

from __future__ import annotations

from pydantic import BaseModel, Field

# The lengths of lists that the models of JSON bodies take. The settings below may only be smaller.
RECOGNISERS_TAKEN = 64
PATTERNS_TAKEN = 1024
TERMS_TAKEN = 500_000


class RecogniserSettings(BaseModel):
    """Recognisers of tenants."""

    recognisers_per_tenant_max: int = Field(64, ge=0)
    recognisers_per_request_max: int = Field(16, ge=1, le=RECOGNISERS_TAKEN)
    recognisers_loaded_max: int = Field(16, ge=1)
