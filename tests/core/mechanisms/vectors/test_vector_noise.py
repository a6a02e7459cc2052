"""The stream behind continuous noise."""

import os

import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from core.mechanisms.vectors.noise import noise_generator


def test_the_stream_is_aes_128_in_counter_mode_under_the_systems_key(monkeypatch: pytest.MonkeyPatch) -> None:
    key = os.urandom(16)
    monkeypatch.setattr(os, "urandom", lambda size: key[:size])
    stream = noise_generator().bit_generator.random_raw(64).astype("<u8").tobytes()

    encryptor = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
    assert stream == b"".join(encryptor.update(block.to_bytes(16, "little")) for block in range(32))
