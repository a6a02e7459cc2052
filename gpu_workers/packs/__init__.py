"""Domain packs: those shipped in this folder and those in the operator's own."""

from __future__ import annotations

from pathlib import Path

SHIPPED = Path(__file__).parent
VECTOR_PACK = SHIPPED / "vectors" / "general.safetensors"  # see core.mechanisms.vectors.vector_pack


def pack_paths(own: Path | None = None) -> dict[str, Path]:
    """Name to file of every pack. An operator's pack replaces a shipped one of the same name."""
    folders = [SHIPPED] if own is None else [SHIPPED, own]
    return {path.stem: path for folder in folders for path in sorted(folder.glob("*.safetensors"))}
