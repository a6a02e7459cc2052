"""Failures of an operator's language model, part of the tree of `core.errors`.

UpstreamFailed              a language model gave no answer that can be used; carries `reason`
├── UpstreamUnreachable     no connection, or it was closed before an answer began
├── UpstreamTimeout         it did not connect in time, went silent, or took too long as a whole
├── UpstreamAnswerInvalid   the answer is too large, cut off, or not of the form that was promised
└── UpstreamKeyRefused      it refused the key of the operator
"""

from __future__ import annotations

from core.errors import GatewayError


class UpstreamFailed(GatewayError):
    code = "upstream-failed"
    title = "The language model gave no answer that can be used."

    def __init__(self, *, reason: str) -> None:
        """`reason` is a fixed word, never a part of an answer."""
        super().__init__()
        self.reason = reason


class UpstreamUnreachable(UpstreamFailed):
    code = "upstream-unreachable"
    title = "The language model cannot be reached."


class UpstreamTimeout(UpstreamFailed):
    code = "upstream-timeout"
    title = "The language model did not answer in time."


class UpstreamAnswerInvalid(UpstreamFailed):
    code = "upstream-answer-invalid"
    title = "The language model's answer cannot be used."


class UpstreamKeyRefused(UpstreamFailed):
    code = "upstream-key-refused"
    title = "The language model refused the gateway's key; the operator must replace it."
