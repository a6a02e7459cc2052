"""What Presidio's operators make of a find: replace, redact, mask, hash, encrypt, keep, and decrypt.

Guarantee: none. `hash` and `encrypt` are deterministic functions of the find, a key or salt of the caller, and random
bytes; a hash with a salt that others know is found by trying values. `encrypt` is AES in CBC mode with a random
initialisation vector, as Presidio's is, so that each decrypts what the other has encrypted. It is not authenticated.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
from collections.abc import Callable, Mapping

from cryptography.hazmat.primitives import padding
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from core.errors import InvalidInput
from service.presidio.schemas import Anonymizer, Deanonymizer

DEFAULT = "DEFAULT"
_SALT_BYTES = 32
_IV_BYTES = 16
_BLOCK_BITS = 128


def replacement(operator: Anonymizer, entity: str, text: str) -> str:
    """What replaces the find `text` of the type `entity`."""
    return ANONYMIZERS[operator.type](operator, entity, text)


def original(operator: Deanonymizer, text: str) -> str:
    """What the place `text` stood for. Raises InvalidInput for what the key did not encrypt."""
    return decrypted(operator.key or "", text) if operator.type == "decrypt" else text


def anonymizer_of(operators: Mapping[str, Anonymizer] | None, entity: str) -> Anonymizer:
    operators = operators or {}
    return operators.get(entity) or operators.get(DEFAULT) or Anonymizer(type="replace")


def deanonymizer_of(operators: Mapping[str, Deanonymizer], entity: str) -> Deanonymizer:
    """Raises InvalidInput where neither the type nor `DEFAULT` has one."""
    operator = operators.get(entity) or operators.get(DEFAULT)
    if operator is None:
        raise InvalidInput("A type of the results has no deanonymizer, and there is no DEFAULT.", field="deanonymizers")
    return operator


def _replace(operator: Anonymizer, entity: str, _: str) -> str:
    return operator.new_value or f"<{entity}>"


def _mask(operator: Anonymizer, _: str, text: str) -> str:
    count = min(len(text), max(operator.chars_to_mask or 0, 0))
    masked = (operator.masking_char or "") * count
    return text[: len(text) - count] + masked if operator.from_end else masked + text[count:]


def _hash(operator: Anonymizer, _: str, text: str) -> str:
    salt = secrets.token_bytes(_SALT_BYTES) if operator.salt is None else operator.salt.encode()
    return hashlib.new(operator.hash_type or "sha256", _bytes(text) + salt).hexdigest()


def _encrypt(operator: Anonymizer, _: str, text: str) -> str:
    padder = padding.PKCS7(_BLOCK_BITS).padder()
    vector = secrets.token_bytes(_IV_BYTES)
    encryptor = Cipher(algorithms.AES((operator.key or "").encode()), modes.CBC(vector)).encryptor()
    sealed = encryptor.update(padder.update(_bytes(text)) + padder.finalize()) + encryptor.finalize()
    return base64.urlsafe_b64encode(vector + sealed).decode()


def decrypted(key: str, text: str) -> str:
    """Raises InvalidInput, which repeats nothing of the text."""
    try:
        raw = base64.urlsafe_b64decode(text)
        decryptor = Cipher(algorithms.AES(key.encode()), modes.CBC(raw[:_IV_BYTES])).decryptor()
        unpadder = padding.PKCS7(_BLOCK_BITS).unpadder()
        padded = decryptor.update(raw[_IV_BYTES:]) + decryptor.finalize()
        return (unpadder.update(padded) + unpadder.finalize()).decode()
    except ValueError:  # also of base64, of UTF-8, and for a text that is too short
        raise InvalidInput("A place was not encrypted with this key.", field="anonymizer_results") from None


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


ANONYMIZERS: Mapping[str, Callable[[Anonymizer, str, str], str]] = {
    "encrypt": _encrypt,
    "hash": _hash,
    "keep": lambda _, __, text: text,
    "mask": _mask,
    "redact": lambda _, __, ___: "",
    "replace": _replace,
}
DEANONYMIZERS = ("decrypt", "deanonymize_keep")
