"""Domain packs and their routes: the shipped ones in this folder and the operator's own."""

from pathlib import Path

SHIPPED = Path(__file__).parent
VECTOR_PACK = SHIPPED / "vectors" / "general.safetensors"  # see core.mechanisms.vectors.projection
ROUTES = "routes.safetensors"  # see core.mechanisms.sentences.routes


def pack_paths(own: Path | None = None) -> dict[str, Path]:
    """Map the name of every pack to its file. An operator's pack replaces a shipped one of the same name."""
    files = [path for folder in _folders(own) for path in sorted(folder.glob("*.safetensors")) if path.name != ROUTES]
    return {path.stem: path for path in files}


def routes_path(own: Path | None = None) -> Path | None:
    """Return the file of the routes, None if none is installed. An operator's file replaces a shipped one."""
    files = [folder / ROUTES for folder in _folders(own) if (folder / ROUTES).exists()]
    return files[-1] if files else None


def _folders(own: Path | None) -> list[Path]:
    return [SHIPPED] if own is None else [SHIPPED, own]
