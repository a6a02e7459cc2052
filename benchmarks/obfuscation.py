"""What a language model learns from a corpus whose words were masked and filled: the tables of Vats et al. 2023.

    python -m benchmarks.obfuscation --data DATA [--cache CACHE] [--sentences 1500] [--corpus IMDB]

DATA holds IMDB, WikiText-2 and, for the pretraining, GLUE's MNLI, QNLI and QQP, Yelp and 20 Newsgroups as JSON lines.

* Table 2: the share of tokens that each technique masks.
* Tables 3 to 5: perplexity by word of held-out clean sentences, of a small Transformer that was pretrained on other
  text and adapted to the corpus as it is (Oracle), masked (Baseline0: the marker is a word like others; Baseline1: it
  has no weight in the loss), or filled. The row without adaptation is ours.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from torch import nn
from torch.nn.functional import cross_entropy

from benchmarks.kit import arguments, head, machine, row
from core.amounts import NANO
from core.files.disk import FileVersion, file_version
from core.text.fill_marker import MARKER
from core.text.policy import (
    DEFAULT_ENTITIES,
    DP,
    MODEL_FILLS,
    TAGGED_ENTITIES,
    TOP_1,
    TOP_K,
    MaskPolicy,
    Sanitised,
    SanitizeTask,
)
from core.text.segment import sentences
from gpu_workers.handlers.sanitiser import Sanitiser
from gpu_workers.infill.fine_tuning import fine_tune, shipped_net, stream_of, trained
from gpu_workers.models.embedded import SHIPPED, embedded_vocabulary, save_adapter
from gpu_workers.models.sources import INFILL_BUNDLED, TAGGER_BUNDLED
from training.infill_texts import wikitext
from training.logged_training import CheckpointFile
from training.public_text import json_lines, show

_WORDS_MIN, _WORDS_MAX = 4, 40
_HELD_OUT = 1 / 3  # of all sentences
_QUOTED = re.compile(r"^\W|@|wrote:|writes:")  # lines of a post that are somebody else's, or no running text


@dataclass(frozen=True)
class Corpus:
    """`adapt` is what gets masked and filled, `test` stays as it is. No document is in both."""

    name: str
    adapt: list[str]
    test: list[str]


def _imdb(data: Path) -> Iterator[str]:
    for each in json_lines(data / "imdb" / "test.jsonl.gz"):
        yield str(each["text"]).replace("<br />", " ")


# the shipped infill was trained on neither
_DOCUMENTS: dict[str, Callable[[Path], Iterable[str]]] = {
    "IMDB": _imdb,
    "WikiText-2": lambda data: wikitext(data, "test"),
}
NAMES = tuple(_DOCUMENTS)


def corpus(name: str, data: Path, count: int) -> Corpus:
    """The corpus' first `count` sentences to adapt to, or two thirds of what there is; the test takes half as many
    from the documents that follow."""
    documents = [kept for text in _DOCUMENTS[name](data) if (kept := _kept(text))]
    count = min(count, int(sum(map(len, documents)) * (1 - _HELD_OUT)))
    place, adapt = 0, list[str]()
    while len(adapt) < count:
        adapt += documents[place]
        place += 1
    test = list(islice(chain.from_iterable(documents[place:]), count // 2))
    return Corpus(name, adapt[:count], test)


def _kept(text: str) -> list[str]:
    """Sentences of a usual length; a word that the corpus itself had removed would be neither masked nor kept."""
    return [
        sentence
        for sentence in sentences(text)
        if _WORDS_MIN <= len(sentence.split()) <= _WORDS_MAX and "[UNK]" not in sentence
    ]


def pretraining(data: Path) -> list[str]:
    """Sentences of MNLI, QNLI and QQP (speech, fiction, Wikipedia, the web), of restaurants' reviews (Yelp) and of
    20 Newsgroups. No film review is in it, and no article of WikiText."""
    texts = []
    for name in ("mnli", "qnli", "qqp"):
        for each in json_lines(data / "glue" / f"{name}_train.jsonl.gz"):
            texts += [str(value) for key, value in each.items() if key not in ("label", "idx")]
    reviews = (str(each["text"]) for each in json_lines(data / "lm" / "yelp_sentences.jsonl.gz"))
    texts += [text for text in reviews if "_num_" not in text and len(text.split()) >= _WORDS_MIN]
    for each in json_lines(data / "20news" / "train.jsonl.gz"):
        texts += _kept(" ".join(line for line in str(each["text"]).splitlines() if not _QUOTED.search(line)))
    return list(dict.fromkeys(texts))


END = "[END]"  # before and after every sentence
_PIECES = 8_000
_WIDTH, _LAYERS, _HEADS = 128, 2, 4
_LENGTH = 128
# passes over the text: sentences in a batch, and the highest rate
_PRETRAIN = ((32, 3e-3),)
_ADAPT = ((8, 1e-3),)  # best for clean text, on reviews that are in none of the tables
_TEST_ROWS = 32
_SEED = 20235


class _Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(
            _WIDTH, _HEADS, 4 * _WIDTH, dropout=0.1, activation="gelu", batch_first=True, norm_first=True
        )
        self.pieces = nn.Embedding(_PIECES, _WIDTH)
        self.places = nn.Embedding(_LENGTH, _WIDTH)
        self.layers = nn.TransformerEncoder(layer, _LAYERS, norm=nn.LayerNorm(_WIDTH), enable_nested_tensor=False)
        self.bias = nn.Parameter(torch.zeros(_PIECES))
        nn.init.normal_(self.pieces.weight, std=_WIDTH**-0.5)
        nn.init.normal_(self.places.weight, std=_WIDTH**-0.5)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        length = ids.shape[1]
        mask = nn.Transformer.generate_square_subsequent_mask(length)
        states = self.layers(self.pieces(ids) + self.places.weight[:length], mask=mask, is_causal=True)
        logits: torch.Tensor = states @ self.pieces.weight.T + self.bias
        return logits


class LanguageModel:
    """`pretrained` once; `perplexity` adapts a copy. All draws are seeded: two rows differ by their text alone."""

    def __init__(self, tokenizer: Tokenizer, net: _Net) -> None:
        self._tokenizer = tokenizer
        self._net = net
        self._end, self._marker = tokenizer.token_to_id(END), tokenizer.token_to_id(MARKER)

    @classmethod
    def pretrained(cls, texts: Sequence[str], cache: Path) -> LanguageModel:
        """From the cache, or trained: a quarter of an hour."""
        settings = (_PIECES, _WIDTH, _LAYERS, _HEADS, _LENGTH, _PRETRAIN, _SEED)
        digest = hashlib.sha256(repr((settings, texts)).encode()).hexdigest()[:16]
        path = cache / f"language-model-{digest}.pt"
        torch.manual_seed(_SEED)
        if path.exists():
            saved = torch.load(path, weights_only=True)
            model = cls(Tokenizer.from_str(saved["tokenizer"]), _Net())
            model._net.load_state_dict(saved["net"])
        else:
            model = cls(_tokenizer(texts), _Net())
            for rows, rate in _PRETRAIN:
                model._train(model._net, texts, rows=rows, rate=rate, marker_weight=1.0)
            torch.save({"tokenizer": model._tokenizer.to_str(), "net": model._net.state_dict()}, path)
        return model

    @property
    def fingerprint(self) -> str:
        """Of the weights, the vocabulary and how it is adapted."""
        digest = hashlib.sha256(repr((_ADAPT, _SEED)).encode())
        digest.update(self._tokenizer.to_str().encode())
        for tensor in self._net.state_dict().values():
            digest.update(tensor.numpy().tobytes())
        return digest.hexdigest()

    def perplexity(self, adapt: Sequence[str], test: Sequence[str], *, marker_weight: float) -> float:
        """By word of `test`, after training on `adapt`, if there is any. `marker_weight`: of a marker in the loss."""
        net = _Net()
        net.load_state_dict(self._net.state_dict())
        for rows, rate in _ADAPT if adapt else ():
            self._train(net, adapt, rows=rows, rate=rate, marker_weight=marker_weight)
        net.eval()
        with torch.inference_mode():
            total = sum(float(self._losses(net, ids).sum()) for ids in self._batches(test, _TEST_ROWS))
        words = sum(len(self._tokenizer.pre_tokenizer.pre_tokenize_str(text)) + 1 for text in test)
        return math.exp(total / words)

    def _train(self, net: _Net, texts: Sequence[str], *, rows: int, rate: float, marker_weight: float) -> None:
        """One pass: the rate rises over its first tenth, then falls to nothing."""
        torch.manual_seed(_SEED)
        batches = list(self._batches(texts, rows))
        optimiser = torch.optim.AdamW(net.parameters(), lr=rate)
        rates = torch.optim.lr_scheduler.OneCycleLR(
            optimiser, rate, total_steps=len(batches) + 1, pct_start=0.1, anneal_strategy="linear", cycle_momentum=False
        )
        net.train()
        for step, number in enumerate(np.random.default_rng(_SEED).permutation(len(batches))):
            ids = batches[number]
            weights = (ids[:, 1:] >= 0).float()
            weights[ids[:, 1:] == self._marker] = marker_weight
            loss = (self._losses(net, ids) * weights).sum() / weights.sum()
            loss.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimiser.step()
            rates.step()
            optimiser.zero_grad()
            if step % 20 == 0:
                show(f"step {step} of {len(batches)}, loss {float(loss):.3f}")
        show("")

    def _losses(self, net: _Net, ids: torch.Tensor) -> torch.Tensor:
        """Of each piece but the first, `[rows, length - 1]`; 0 where there is none."""
        with torch.autocast("cpu", torch.bfloat16):
            logits = net(ids[:, :-1].clamp(min=0))
        truth = ids[:, 1:]
        losses = cross_entropy(logits.float().flatten(0, 1), truth.flatten(), ignore_index=-1, reduction="none")
        return losses.view(truth.shape)

    def _batches(self, texts: Sequence[str], count: int) -> Iterator[torch.Tensor]:
        """`count` sentences of like length together, int64 `[rows, length]`, -1 where a sentence has ended."""
        rows = [
            [self._end, *item.ids[: _LENGTH - 1], self._end] for item in self._tokenizer.encode_batch_fast(list(texts))
        ]
        rows.sort(key=len)
        for start in range(0, len(rows), count):
            chosen = rows[start : start + count]
            ids = np.full((len(chosen), len(chosen[-1])), -1, dtype=np.int64)
            for own, each in zip(ids, chosen, strict=True):
                own[: len(each)] = each
            yield torch.from_numpy(ids)


def _tokenizer(texts: Sequence[str]) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(
        texts,
        trainers.BpeTrainer(
            vocab_size=_PIECES, special_tokens=[END, MARKER], initial_alphabet=alphabet, show_progress=False
        ),
    )
    return tokenizer


MASKS = {
    "allow_list": MaskPolicy(techniques=("allow_list",)),
    "vocabulary": MaskPolicy(techniques=("vocabulary",)),
    "entity": MaskPolicy(entities=(*DEFAULT_ENTITIES, *TAGGED_ENTITIES)),
}
_TOGETHER = 128
_SLOTS_MAX = 64


@dataclass(frozen=True)
class Obfuscated:
    """A corpus' sentences, filled, and how many of its tokens were masked."""

    texts: list[str]
    masked: int
    tokens: int


class Obfuscator:
    """`fine_tuning_steps`: of the infill model, on each corpus that it has filled itself."""

    def __init__(self, cache: Path, *, fine_tuning_steps: int) -> None:
        self._cache = cache
        self._steps = fine_tuning_steps
        self.infill, self._tagger = (
            hashlib.sha256((SHIPPED / f"{kind}.safetensors").read_bytes()).hexdigest() for kind in ("infill", "tagger")
        )

    @cached_property
    def _sanitiser(self) -> Sanitiser:
        return Sanitiser(tagger=TAGGER_BUNDLED, infill=INFILL_BUNDLED, fill_slots_max=_SLOTS_MAX, threads=1)

    def filled(
        self,
        texts: Sequence[str],
        mask: str,
        fill: str,
        *,
        epsilon: int | None = None,
        model: FileVersion | None = None,
    ) -> Obfuscated:
        """Each text under that mask with that fill. `epsilon`: of a slot, for `dp`. `model`: a fine-tuned one."""
        weights = [Path(model.path).name if model else self.infill] if fill in MODEL_FILLS else []
        weights += [self._tagger] if mask == "entity" else []
        path = self._path("filled", (list(texts), MASKS[mask], fill, epsilon, weights), "json")
        if path.exists():
            return Obfuscated(**json.loads(path.read_text()))
        nano = None if epsilon is None else epsilon * NANO
        tasks = [SanitizeTask(text, MASKS[mask], fill, nano, model=model) for text in texts]
        answers: list[Sanitised] = []
        for start in range(0, len(tasks), _TOGETHER):
            show(f"{mask}, {fill}: {start} of {len(tasks)} sentences")
            for answer in self._sanitiser.run(tasks[start : start + _TOGETHER]):
                if not isinstance(answer, Sanitised):
                    raise answer
                answers.append(answer)
        show("")
        done = Obfuscated(
            [answer.text for answer in answers],
            sum(answer.masked_tokens for answer in answers),
            sum(answer.tokens for answer in answers),
        )
        path.write_text(json.dumps(vars(done)))
        return done

    def fine_tuned(self, texts: Sequence[str], mask: str) -> Obfuscated:
        """`topk`, by a model that was fine-tuned on what `topk` had filled before (section 3.2, "FT")."""
        first = self.filled(texts, mask, TOP_K)
        path = self._path("infill", (self.infill, first.texts, self._steps), "safetensors")
        if not path.exists():
            info, net = shipped_net(torch.device("cpu"))
            tokenizer = embedded_vocabulary().tokenizer
            fine_tune(
                net,
                stream_of(tokenizer, iter(first.texts)),
                tokenizer,
                steps=self._steps,
                checkpoint=CheckpointFile(path.with_suffix(".pt")),
                progress=lambda done: show(f"{mask}: fine-tuning the infill, {done:.0%}"),
            )
            show("")
            save_adapter(path, replace(info, steps=self._steps, rounds=1, documents=len(texts)), trained(net))
            path.with_suffix(".pt").unlink()
        return self.filled(texts, mask, TOP_K, model=file_version(path))

    def _path(self, kind: str, of: object, suffix: str) -> Path:
        return self._cache / f"{kind}-{hashlib.sha256(repr(of).encode()).hexdigest()[:24]}.{suffix}"


CACHE = Path(tempfile.gettempdir()) / "privacy-gateway-obfuscation"
EPSILONS = (10, 20)


def perplexities(
    used: Corpus, model: LanguageModel, obfuscator: Obfuscator, cache: Path
) -> Iterator[tuple[str, list[float]]]:
    """The perplexity of each row, under each of `MASKS`. One that is in the cache is not computed again."""
    clean = used.adapt

    def adapted(adapt: Sequence[str], *, marker_weight: float = 1.0) -> float:
        key = repr((model.fingerprint, list(adapt), used.test, marker_weight)).encode()
        path = cache / f"perplexity-{hashlib.sha256(key).hexdigest()[:24]}.txt"
        if not path.exists():
            path.write_text(str(model.perplexity(adapt, used.test, marker_weight=marker_weight)))
        return float(path.read_text())

    def filled(fill: str, **options: Any) -> list[list[str]]:
        return [obfuscator.filled(clean, mask, fill, **options).texts for mask in MASKS]

    yield "not adapted", [adapted([])] * len(MASKS)
    yield "Oracle", [adapted(clean)] * len(MASKS)
    yield "Baseline0", [adapted(texts) for texts in filled("marker")]
    yield "Baseline1", [adapted(texts, marker_weight=0.0) for texts in filled("marker")]
    yield "top1", [adapted(texts) for texts in filled(TOP_1)]
    yield "topk", [adapted(texts) for texts in filled(TOP_K)]
    yield "topk, fine-tuned", [adapted(obfuscator.fine_tuned(clean, mask).texts) for mask in MASKS]
    for epsilon in EPSILONS:
        yield f"dp, epsilon {epsilon} a slot", [adapted(texts) for texts in filled(DP, epsilon=epsilon)]


def main() -> None:
    options = arguments(
        __doc__,
        needs_data=True,
        cache=CACHE,
        sentences=(1_500, "to adapt to, of each corpus"),
        corpus=list(NAMES),
        fine_tuning_steps=60,
    )
    logging.disable()
    torch.set_num_threads(1)
    options.cache.mkdir(parents=True, exist_ok=True)
    obfuscator = Obfuscator(options.cache, fine_tuning_steps=options.fine_tuning_steps)
    model = LanguageModel.pretrained(pretraining(options.data), options.cache)
    print(f"{machine()}; infill {obfuscator.infill[:12]}, {options.fine_tuning_steps} steps of fine-tuning\n")
    for name in options.corpus:
        used = corpus(name, options.data, options.sentences)
        marked = [obfuscator.filled(used.adapt, mask, "marker") for mask in MASKS]
        head(f"{name}, share of tokens masked", *MASKS)
        row(f"{len(used.adapt)} sentences", *(f"{each.masked / each.tokens:.1%}" for each in marked))
        found = dict(perplexities(used, model, obfuscator, options.cache))
        print()
        head(f"{name}, perplexity on {len(used.test)} sentences (ratio to Oracle)", *MASKS)
        for what, values in found.items():
            pairs = zip(values, found["Oracle"], strict=True)
            row(what, *(f"{value:.1f} ({value / best:.3f})" for value, best in pairs))


if __name__ == "__main__":
    main()
