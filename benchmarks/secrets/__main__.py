"""Secrets, passwords, user names, dates of birth, ages, coordinates: what is hidden, and what is masked wrongly.

    python -m benchmarks.secrets [--split held-out] [--draws 20] [--code FOLDER ...] [--code-bytes 20000000] [--show 0]

Positives are drawn values in texts. `--split`: `development` are the texts that were read while the recognisers were
written (`texts.py`), `held-out` those that were written afterwards (`held_out_texts.py`). A value is hidden if finds
cover all of its letters and digits. Secrets and passwords are looked for with both types, as the profile `secrets` has
them.

Negatives: lines of logs, configurations, and dates, ages and numbers of other kinds (drawn), and the source files of
`--code` (default: this project and the installed Python packages) up to `--code-bytes`. Printed is the share of words
that a type masks. The packages hold some test keys and passwords, which count as errors. `--show N` prints N
finds of each type in code, and values that were missed.
"""

from __future__ import annotations

import argparse
import random
import re
import sysconfig
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

from benchmarks.secrets import dates, held_out_texts, plain_texts, texts, values
from core.text import mask_entity
from core.text.mask_words import AllowLists
from core.text.policy import MaskPolicy
from core.text.segment import tokenize

HELD_OUT = "held-out"
TYPES = ("SECRET", "PASSWORD", "USERNAME", "DATE_OF_BIRTH", "AGE", "COORDINATE", "DATE_TIME")
SECRETS = ("SECRET", "PASSWORD")
SUFFIXES = {
    ".py",
    ".js",
    ".css",
    ".json",
    ".yaml",
    ".yml",
    ".toml",
    ".html",
    ".md",
    ".rst",
    ".txt",
    ".cfg",
    ".h",
    ".sh",
    ".pyi",
}
FILE_CHARS_MAX = 200_000

Case = tuple[str, str, str, tuple[str, ...]]  # kind, text, value, types


def positives(split: str, draws: int, rng: random.Random) -> Iterator[Case]:
    chosen = held_out_texts if split == HELD_OUT else texts
    for _ in range(draws):
        for name, value in values.FORMATS.items():
            for frame in rng.sample(chosen.FORMAT_FRAMES, 2):
                drawn = value(rng)
                yield f"SECRET format: {name}", frame.replace("@@", drawn), drawn, SECRETS
        for frame in chosen.SECRET_FRAMES:
            for name in rng.sample(sorted(values.BLIND), 3):
                drawn = values.BLIND[name](rng)
                yield "SECRET by context", frame.replace("@@", drawn), drawn, SECRETS
        for kind, frames, value, types in (
            ("PASSWORD", chosen.PASSWORD_FRAMES, values.password, SECRETS),
            ("SECRET in URL", chosen.URL_FRAMES, values.plain_password, SECRETS),
            ("PASSWORD code", chosen.CODE_FRAMES, values.code, ("PASSWORD",)),
            ("USERNAME", chosen.USERNAME_FRAMES, values.username, ("USERNAME",)),
            ("USERNAME handle", chosen.HANDLE_FRAMES, values.handle, ("USERNAME",)),
            ("AGE", chosen.AGE_FRAMES, values.age, ("AGE",)),
        ):
            for frame in frames:
                drawn = value(rng)
                yield kind, frame.replace("@@", drawn), drawn, types
        for language, frames in chosen.BIRTH_FRAMES.items():
            for frame in frames:
                drawn = dates.drawn(rng, language)
                yield f"DATE_OF_BIRTH {language}", frame.replace("@@", drawn), drawn, ("DATE_OF_BIRTH",)
        for language, frames in plain_texts.DATE_FRAMES.items():
            for frame in frames:
                drawn = dates.drawn(rng, language, first_year=1990, days=13_000)
                yield f"DATE_TIME {language}", frame.replace("@@", drawn), drawn, ("DATE_TIME",)
        for frame in chosen.POSITION_FRAMES:
            text = position(frame, rng)
            yield "COORDINATE", text, " ".join(re.findall(r"\d+\.\d+", text)), ("COORDINATE",)


def position(frame: str, rng: random.Random) -> str:
    lat, lon = rng.uniform(-70, 70), rng.uniform(-170, 170)
    alat, alon = abs(lat), abs(lon)
    return frame.format(
        **{"lat": lat, "lon": lon, "alat": alat, "alon": alon},
        **{"ns": "N" if lat > 0 else "S", "ew": "E" if lon > 0 else "W"},
        **{"dlat": int(alat), "mlat": int(alat * 60) % 60, "slat": alat * 3600 % 60},
        **{"dlon": int(alon), "mlon": int(alon * 60) % 60, "slon": alon * 3600 % 60},
    )


def negatives(draws: int, rng: random.Random) -> Iterator[tuple[str, str]]:
    """Yield (kind, text) without a value of the types that the kind names."""
    for _ in range(draws):
        for language, frames in plain_texts.DATE_FRAMES.items():
            for frame in frames:
                yield "DATE_OF_BIRTH", frame.replace("@@", dates.drawn(rng, language, first_year=1990, days=13_000))
        for frame in plain_texts.NOT_AGE_FRAMES:
            yield "AGE", frame.replace("@@", values.age(rng))
        for frame in plain_texts.NOT_POSITION_FRAMES:
            a, b, c, d = (rng.uniform(-3, 3) for _ in range(4))
            yield (
                "COORDINATE",
                frame.format(a=a, b=b, c=c, d=d, i=rng.randrange(9), j=rng.randrange(99), k=rng.randrange(99)),
            )
        for line in plain_texts.PLACEHOLDER_LINES:
            yield "SECRET PASSWORD", line
        for line in plain_texts.LOG_FRAMES:
            yield "SECRET PASSWORD USERNAME COORDINATE AGE DATE_OF_BIRTH", log_line(line, rng)


def log_line(line: str, rng: random.Random) -> str:
    names = {
        "$SHA256": values.chars(64, "0123456789abcdef"),
        "$SHA": values.chars(40, "0123456789abcdef"),
        "$UUID": values.BLIND["uuid"],
        "$MAC": lambda rng: ":".join(f"{rng.randrange(256):02x}" for _ in range(6)),
        "$B64": values.BLIND["base64 88"],
        "$CAPS16": values.chars(16, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"),
        **{f"$HEX{size}": values.chars(size, "0123456789abcdef") for size in (32, 16, 10, 8, 7, 6)},
    }
    for name, value in names.items():
        while name in line:
            line = line.replace(name, value(rng), 1)
    while "$N" in line:
        line = line.replace("$N", str(rng.randrange(1, 9999)), 1)
    return line


def masks(text: str, types: tuple[str, ...]) -> list[tuple[int, int, str]]:
    found = mask_entity.find(text, (), MaskPolicy(entities=types), AllowLists())
    return [(mask.start, mask.end, mask.type) for mask in found]


def hidden(text: str, value: str, types: tuple[str, ...]) -> bool:
    covered = {place for start, end, _ in masks(text, types) for place in range(start, end)}
    for part in value.split(" ") if types == ("COORDINATE",) else (value,):
        start = text.index(part)
        if any(text[place].isalnum() and place not in covered for place in range(start, start + len(part))):
            return False
    return True


def recall(split: str, draws: int, show: int) -> None:
    hits, all_, missed = Counter[str](), Counter[str](), defaultdict[str, list[str]](list)
    for kind, text, value, types in positives(split, draws, random.Random(f"{split} 7")):
        good = hidden(text, value, types)
        for key in (kind, kind.split(" ")[0]):
            all_[key] += 1
            hits[key] += good
        if not good:
            missed[kind].append(text)
    print(f"\nhidden, {split} texts")
    for kind in sorted(all_):
        if not kind.startswith("SECRET format:") or hits[kind] < all_[kind]:
            print(f"{kind:<40}{all_[kind]:>7}{hits[kind] / all_[kind]:>8.3f}")
    count, good = all_["SECRET"] + all_["PASSWORD"], hits["SECRET"] + hits["PASSWORD"]
    print(f"{'secrets and passwords':<40}{count:>7}{good / count:>8.3f}")
    for kind, lines in missed.items():
        for text in lines[:show]:
            print(f"    missed {kind}: {text!r:.160}")


def false_finds(draws: int, show: int) -> None:
    wrong, lines, words, masked = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    shown = Counter[str]()
    for kinds, text in negatives(draws, random.Random("negatives 7")):
        for kind in kinds.split(" "):
            found = masks(text, (kind,))
            lines[kind] += 1
            wrong[kind] += bool(found)
            tokens = tokenize(text)
            words[kind] += len(tokens)
            masked[kind] += sum(any(s < token.end and token.start < e for s, e, _ in found) for token in tokens)
            if found and shown[text[:20]] < 1 and shown[kind] < show:
                shown.update((text[:20], kind))
                print(f"    wrong {kind}: {text!r:.150} {[text[s:e][:40] for s, e, _ in found]}")
    print("\nlogs, placeholders, other dates and numbers: lines with a find, share of words masked")
    for kind in sorted(lines):
        print(f"{kind:<40}{lines[kind]:>7}{wrong[kind] / lines[kind]:>8.4f}{masked[kind] / words[kind]:>9.5f}")


def source_files(folders: list[Path], limit: int, rng: random.Random) -> Iterator[str]:
    paths = sorted(
        path for folder in folders for path in folder.rglob("*") if path.suffix in SUFFIXES and path.is_file()
    )
    rng.shuffle(paths)
    for path in paths:
        if limit <= 0:
            return
        text = path.read_text(errors="replace")[:FILE_CHARS_MAX]
        limit -= len(text)
        yield text


def in_code(folders: list[Path], limit: int, show: int) -> None:
    words, size = 0, 0
    masked, finds, seconds = Counter[str](), Counter[str](), Counter[str]()
    for text in source_files(folders, limit, random.Random("code 7")):
        tokens = tokenize(text)
        words += len(tokens)
        size += len(text)
        for kind in TYPES:
            begun = time.perf_counter()
            found = masks(text, (kind,))
            seconds[kind] += time.perf_counter() - begun
            at = 0
            for start, end, _ in sorted(found):
                finds[kind] += 1
                while at < len(tokens) and tokens[at].end <= start:
                    at += 1
                while at < len(tokens) and tokens[at].start < end:
                    masked[kind] += 1
                    at += 1
                if finds[kind] <= show:
                    print(f"    {kind}: {text[max(0, start - 50) : start]!r} >>> {text[start:end]!r:.60} <<<")
    print(f"\ncode: {size} characters, {words} words; finds, share of words masked, seconds a million characters")
    for kind in TYPES:
        print(f"{kind:<40}{finds[kind]:>7}{masked[kind] / words:>10.6f}{seconds[kind] / size * 1e6:>8.3f}")
    both = masked["SECRET"] + masked["PASSWORD"]
    print(f"{'SECRET and PASSWORD':<40}{'':>7}{both / words:>10.6f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--split", choices=("development", HELD_OUT), default=HELD_OUT)
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--code", type=Path, nargs="*")
    parser.add_argument("--code-bytes", type=int, default=20_000_000)
    parser.add_argument("--show", type=int, default=0)
    options = parser.parse_args()
    folders = options.code or [
        Path("core"),
        Path("service"),
        Path("gpu_workers"),
        Path("docs"),
        Path(sysconfig.get_paths()["purelib"]),
    ]
    recall(options.split, options.draws, options.show)
    false_finds(options.draws, options.show)
    in_code(folders, options.code_bytes, options.show)


if __name__ == "__main__":
    main()
