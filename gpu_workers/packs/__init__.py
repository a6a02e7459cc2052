"""Domain packs: the shipped ones in this folder and the operator's own."""

from __future__ import annotations

from pathlib import Path

SHIPPED = Path(__file__).parent
VECTOR_PACK = SHIPPED / "vectors" / "general.safetensors"  # see core.mechanisms.vectors.vector_pack


def pack_paths(own: Path | None = None) -> dict[str, Path]:
    """Map the name of every pack to its file. An operator's pack replaces a shipped one of the same name."""
    folders = [SHIPPED] if own is None else [SHIPPED, own]
    return {path.stem: path for folder in folders for path in sorted(folder.glob("*.safetensors"))}
