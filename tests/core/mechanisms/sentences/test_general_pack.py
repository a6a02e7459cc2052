"""The shipped domain pack is for the bundled encoder, whole, and small."""

from pathlib import Path

import gpu_workers.packs
from core.mechanisms.sentences.domain_pack import DomainPack
from core.mechanisms.sentences.registry import SENTENCE_MECHANISMS, sentence_mechanism
from gpu_workers.models.encoder import weights_fingerprint
from gpu_workers.models.encoder_model import bundled_path

PACK = Path(gpu_workers.packs.__file__).parent / "general.safetensors"


def test_the_general_pack_serves_every_mechanism() -> None:
    pack = DomainPack.load(PACK, encoder_fingerprint=weights_fingerprint(bundled_path()))
    assert PACK.stat().st_size < 16_000_000
    assert pack.info.candidates >= 3_000
    assert all(sentence_mechanism(name, pack).self_check() for name in SENTENCE_MECHANISMS)


def test_the_general_pack_has_a_card() -> None:
    assert "licence" in PACK.with_suffix(".md").read_text()
