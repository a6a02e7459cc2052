"""The settings of tenants' recognisers."""

from __future__ import annotations

from pydantic import BaseModel, Field

MIB = 1024 * 1024

# The lengths of lists that the models of JSON bodies take. The settings below may only be smaller.
RECOGNISERS_TAKEN = 64
PATTERNS_TAKEN = 1024
TERMS_TAKEN = 500_000


class RecogniserSettings(BaseModel):
    """Recognisers of tenants."""

    recognisers_per_tenant_max: int = Field(64, ge=0)
    recognisers_per_request_max: int = Field(16, ge=1, le=RECOGNISERS_TAKEN)
    recognisers_loaded_max: int = Field(16, ge=1)
    recogniser_patterns_max: int = Field(64, ge=0, le=PATTERNS_TAKEN)
    recogniser_pattern_chars_max: int = Field(1_000, ge=1)
    recogniser_program_bytes_max: int = Field(1 * MIB, ge=4096, le=64 * MIB)
    recogniser_context_words_max: int = Field(64, ge=0, le=PATTERNS_TAKEN)
    recogniser_terms_max: int = Field(100_000, ge=0, le=TERMS_TAKEN)
    recogniser_term_chars_max: int = Field(256, ge=1, le=512)  # a window shows that much around a find
    recogniser_terms_chars_max: int = Field(4_000_000, ge=0)
    recogniser_test_chars_max: int = Field(100_000, ge=1)
