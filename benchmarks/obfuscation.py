"""What a language model learns from a corpus whose words were masked and filled: the tables of Vats et al. 2023.

    python -m benchmarks.obfuscation --data DATA [--corpus IMDB] [--masks entity] [--smollm2]

DATA holds IMDB, WikiText-2, CoNLL-2003 and, for the pretraining, GLUE's MNLI, QNLI and QQP, Yelp and 20 Newsgroups as
JSON lines. `--smollm2`: needs its package (docs/concepts/model-fills.md).

* Table 2: the share of tokens that each technique masks. `entity`: by the bundled tagger and by patterns.
* Tables 3 to 5: perplexity by word of held-out clean sentences, of a small Transformer that was pretrained on other
  text and adapted to the corpus as it is (Oracle), masked (Baseline0: the marker is a word like others; Baseline1: it
  has no weight in the loss), or filled, as a ratio to Oracle. Each cell has as many seeds, of the adaptation and of the
  drawn fill. Below, the paper's ratio, on the corpus whose share of masked tokens is nearest.
* The paper's future work: combined masks, and a marker for each class.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import logging
import math
import operator
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
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
from core.errors import GatewayError
from core.mechanisms.words.pricing import SLOT
from core.text.fill_marker import MARKER
from core.text.fill_top_k import top_1, top_k
from core.text.mask_words import AllowLists
from core.text.model_fills import Blank, FillStrategy, InfillModel, dp_draws, fill_left_to_right, slots_of
from core.text.policy import (
    DEFAULT_ENTITIES,
    DP,
    ENTITIES,
    K_DEFAULT,
    NUMBER,
    TAGGED_ENTITIES,
    TOP_1,
    TOP_K,
    WORD,
    Mask,
    MaskPolicy,
    Sanitised,
    SanitizeTask,
)
from core.text.sanitize import Inspected, fill_in, inspect
from core.text.segment import sentences
from gpu_workers.handlers.entity_tagger import NameFinder
from gpu_workers.handlers.own_finder import OwnFinder
from gpu_workers.handlers.recognition import joined, recognise
from gpu_workers.infill.fine_tuning import fine_tune, shipped_net, stream_of, trained
from gpu_workers.models.embedded import SHIPPED, embedded_vocabulary, save_adapter
from gpu_workers.models.encoder_model import fastest_dtype
from gpu_workers.models.infill import MaskedInfill, embedded_infill
from gpu_workers.models.infill_sources import CausalInfill, infill_model, prompt_frame
from gpu_workers.models.pretrained import load_checkpoint
from gpu_workers.models.sources import INFILL_SMOLLM2, TAGGER_BUNDLED, smollm2_file
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


def _news(data: Path) -> Iterator[str]:
    """Whole sentences, without headlines and tables of results."""
    for each in json_lines(data / "ner" / "conll2003_train.jsonl.gz"):
        if each["tokens"][-1] == ".":
            yield " ".join(each["tokens"])


# No document of these was among the shipped infill's training texts, but other ones of IMDB and WikiText-2 were.
_DOCUMENTS: dict[str, Callable[[Path], Iterable[str]]] = {
    "IMDB": _imdb,
    "WikiText-2": lambda data: wikitext(data, "test"),
    "CoNLL-2003": _news,
}


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
    return list(dict.fromkeys(texts))[::2]


END = "[END]"  # before and after every sentence
_CLASS_MARKERS = [f"[{name}]" for name in (WORD, NUMBER, *ENTITIES)]
_PIECES = 4_000
_WIDTH, _LAYERS, _HEADS = 128, 2, 4
_LENGTH = 128
# one pass over the text: sentences in a batch, and the highest rate
_PRETRAIN = (16, 2e-3)
_ADAPT = (8, 1e-3)  # best for clean text, on reviews that are in none of the tables
_TEST_ROWS = 32
_SEED = 20235
_CPU = torch.device("cpu")


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
        """From the cache, or trained: seven minutes. A second process waits for the first."""
        settings = (_PIECES, _WIDTH, _LAYERS, _HEADS, _LENGTH, _PRETRAIN, _SEED, _CLASS_MARKERS)
        digest = hashlib.sha256(repr((settings, texts)).encode()).hexdigest()[:16]
        path = cache / f"language-model-{digest}.pt"
        with path.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            torch.manual_seed(_SEED)
            if path.exists():
                saved = torch.load(path, weights_only=True)
                model = cls(Tokenizer.from_str(saved["tokenizer"]), _Net())
                model._net.load_state_dict(saved["net"])
            else:
                model = cls(_tokenizer(texts), _Net())
                model._train(model._net, texts, *_PRETRAIN, marker_weight=1.0, seed=_SEED)
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

    def perplexity(self, adapt: Sequence[str], test: Sequence[str], *, marker_weight: float, seed: int) -> float:
        """By word of `test`, after training on `adapt`, if there is any. `marker_weight`: of a marker in the loss."""
        net = _Net()
        net.load_state_dict(self._net.state_dict())
        if adapt:
            self._train(net, adapt, *_ADAPT, marker_weight=marker_weight, seed=seed)
        net.eval()
        with torch.inference_mode():
            total = sum(float(self._losses(net, ids).sum()) for ids in self._batches(test, _TEST_ROWS))
        words = sum(len(self._tokenizer.pre_tokenizer.pre_tokenize_str(text)) + 1 for text in test)
        return math.exp(total / words)

    def _train(
        self, net: _Net, texts: Sequence[str], rows: int, rate: float, *, marker_weight: float, seed: int
    ) -> None:
        """One pass: the rate rises over its first tenth, then falls to nothing."""
        torch.manual_seed(seed)
        batches = list(self._batches(texts, rows))
        optimiser = torch.optim.AdamW(net.parameters(), lr=rate, fused=True)
        rates = torch.optim.lr_scheduler.OneCycleLR(
            optimiser, rate, total_steps=len(batches) + 1, pct_start=0.1, anneal_strategy="linear", cycle_momentum=False
        )
        net.train()
        for step, number in enumerate(np.random.default_rng(seed).permutation(len(batches))):
            ids = batches[number]
            weights = (ids[:, 1:] >= 0).float()
            weights[ids[:, 1:] == self._marker] = marker_weight
            loss = (self._losses(net, ids) * weights).sum() / weights.sum()
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimiser.step()
            rates.step()
            optimiser.zero_grad()
            if step % 20 == 0:
                show(f"step {step} of {len(batches)}, loss {loss.item():.3f}")
        show("")

    def _losses(self, net: _Net, ids: torch.Tensor) -> torch.Tensor:
        """Of each piece but the first, `[rows, length - 1]`; 0 where there is none."""
        with torch.autocast("cpu", torch.bfloat16, enabled=fastest_dtype(_CPU) is torch.bfloat16):
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
            vocab_size=_PIECES,
            special_tokens=[END, MARKER, *_CLASS_MARKERS],
            initial_alphabet=alphabet,
            show_progress=False,
        ),
    )
    return tokenizer


_ENTITIES = (*DEFAULT_ENTITIES, *TAGGED_ENTITIES)
MASKS = {
    "allow_list": MaskPolicy(techniques=("allow_list",)),
    "vocabulary": MaskPolicy(techniques=("vocabulary",)),
    "entity": MaskPolicy(entities=_ENTITIES),
    "entity+vocabulary": MaskPolicy(techniques=("entity", "vocabulary"), entities=_ENTITIES),
    "all three": MaskPolicy(techniques=("entity", "vocabulary", "allow_list"), entities=_ENTITIES),
}
ALONE = tuple(MASKS)[:3]  # the masks of the paper; it names combinations as future work
EPSILON = 10  # of a slot, for `dp`


class Cache:
    """Of what has been computed, so that a run that was stopped continues."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def kept(self, key: object, make: Callable[[], Any]) -> Any:
        path = self._folder / f"{hashlib.sha256(repr(key).encode()).hexdigest()[:24]}.json"
        if not path.exists():
            path.write_text(json.dumps(make()))
        return json.loads(path.read_text())


class Remembered:
    """An infill model that reads equal blanks once: draws of the same sentence share their first places."""

    def __init__(self, model: InfillModel) -> None:
        self.name, self.candidates, self.considered = model.name, model.candidates, model.considered
        self.logits = model.logits
        self._model = model
        self._known: dict[Blank, list[str]] = {}

    def ranked(self, blanks: Sequence[Blank], *, count: int) -> list[list[str]]:
        new = [blank for blank in dict.fromkeys(blanks) if blank not in self._known]
        words = self._model.ranked(new, count=max(K_DEFAULT, self.considered)) if new else []
        self._known |= zip(new, words, strict=True)
        return [self._known[blank][:count] for blank in blanks]


class Obfuscator:
    """A corpus' sentences, masked and filled. A mask is found once for all fills, and a fill is one draw."""

    def __init__(self, texts: Sequence[str], cache: Cache) -> None:
        self._texts = texts
        self._cache = cache
        self._lists = AllowLists()
        self._found: dict[str, list[Inspected]] = {}
        self._versions = [
            hashlib.sha256((SHIPPED / f"{kind}.safetensors").read_bytes()).hexdigest() for kind in ("infill", "tagger")
        ]

    @cached_property
    def _bundled(self) -> Remembered:
        return Remembered(MaskedInfill(embedded_infill()))

    @cached_property
    def _names(self) -> NameFinder:
        return NameFinder(TAGGER_BUNDLED, device="cpu")

    def found(self, mask: str) -> list[Inspected]:
        if mask not in self._found:
            tasks = [SanitizeTask(text, MASKS[mask]) for text in self._texts]
            names = self._names if "entity" in MASKS[mask].techniques else None
            finds = recognise(tasks, names, OwnFinder(loaded_max=1))
            self._found[mask] = [
                inspect(task.text, task.policy, self._lists, joined(task, own))
                for task, own in zip(tasks, finds, strict=True)
            ]
        return self._found[mask]

    def share(self, mask: str) -> float:
        """Of the tokens, how many are masked."""
        found = self.found(mask)
        return sum(each.masked_tokens for each in found) / sum(len(each.tokens) for each in found)

    def marked(self, mask: str, marker_of: Callable[[Mask], str]) -> list[str]:
        """One marker for each masked token, as the paper's baselines have it."""
        return [_marked(each, marker_of) for each in self.found(mask)]

    def drawn(
        self, mask: str, fill: str, draw: int, kind: str = "bundled", model: Callable[[], InfillModel] | None = None
    ) -> list[str]:
        """The texts of one draw, by the bundled model, or by the one of another `kind` that `model` returns."""

        def make() -> list[str]:
            own = model() if model else self._bundled
            show(f"{mask}, {fill}, {kind}: draw {draw}")
            found = [slots_of(each, MASKS[mask]) for each in self.found(mask)] if fill == DP else self.found(mask)
            done = fill_left_to_right(found, [self._strategy(each, mask, fill, own) for each in found], own)
            return [_text(each) for each in done]

        key = ("filled", list(self._texts), MASKS[mask], fill, draw, kind, self._versions, EPSILON)
        return list(self._cache.kept(key, make))

    def _strategy(self, found: Inspected, mask: str, fill: str, model: InfillModel) -> FillStrategy:
        if fill == TOP_1:
            return top_1()
        if fill == DP and model.candidates:
            return dp_draws(found, EPSILON * NANO, model.candidates, scope=SLOT)
        return top_k(found.masks, MASKS[mask], self._lists, count=K_DEFAULT, considered=model.considered)

    def fine_tuned(self, mask: str, steps: int) -> Callable[[], InfillModel]:
        """The bundled model after training on what its first draw of `topk` had filled (section 3.2, "FT")."""

        @cache
        def model() -> InfillModel:
            texts = self.drawn(mask, TOP_K, 0)
            info, net = shipped_net(_CPU)
            tokenizer = embedded_vocabulary().tokenizer
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "infill.safetensors"
                fine_tune(
                    net,
                    stream_of(tokenizer, iter(texts)),
                    tokenizer,
                    steps=steps,
                    checkpoint=CheckpointFile(path.with_suffix(".pt")),
                    progress=lambda done: show(f"{mask}: fine-tuning the infill, {done:.0%}"),
                )
                save_adapter(path, replace(info, steps=steps, rounds=1, documents=len(texts)), trained(net))
                return Remembered(MaskedInfill(embedded_infill(path)))

        return model


def _marked(found: Inspected, marker_of: Callable[[Mask], str]) -> str:
    counts = [sum(start < mask.end and mask.start < end for start, end in found.tokens) for mask in found.masks]
    pairs = zip(found.masks, counts, strict=True)
    return fill_in(found, [" ".join([marker_of(mask)] * max(1, count)) for mask, count in pairs]).text


def _text(document: Sanitised | GatewayError) -> str:
    if isinstance(document, GatewayError):
        raise document
    return document.text


_PROMPTS = 8  # in a step
_LORA_RATE = 1e-3
_HIDDEN = 0.15  # of the words of a prompt


def fine_tuned_causal(texts: Sequence[str], steps: int) -> InfillModel:
    """SmolLM2 after LoRA on prompts of the paper's form: some words of a text hidden, and the text as the answer."""
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    loaded, tokenizer = load_checkpoint(smollm2_file(), AutoModelForCausalLM, device=_CPU, dtype=torch.float32)
    net = get_peft_model(loaded, LoraConfig(r=8, lora_alpha=16, target_modules="all-linear"))
    head_ids, tail_ids = (tokenizer(part, add_special_tokens=False).input_ids for part in prompt_frame(tokenizer))
    optimiser = torch.optim.AdamW([each for each in net.parameters() if each.requires_grad], lr=_LORA_RATE)
    rng = np.random.default_rng(_SEED)
    for step in range(steps):
        prompts, answers = [], []
        for text in rng.choice(list(texts), _PROMPTS):
            words = text.split(" ")
            hidden = {int(rng.integers(len(words))), *np.flatnonzero(rng.random(len(words)) < _HIDDEN).tolist()}
            given = " ".join(MARKER if place in hidden else word for place, word in enumerate(words))
            question, answer = tokenizer([given, str(text)], add_special_tokens=False).input_ids
            prompts.append([*head_ids, *question, *tail_ids])
            answers.append([*answer, tokenizer.eos_token_id])
        length = max(map(len, map(operator.add, prompts, answers)))
        ids = torch.tensor([(p + a + [0] * length)[:length] for p, a in zip(prompts, answers, strict=True)])
        labels = [([-100] * len(p) + a + [-100] * length)[:length] for p, a in zip(prompts, answers, strict=True)]
        loss = net(input_ids=ids, labels=torch.tensor(labels)).loss
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()
        show(f"step {step} of {steps} of SmolLM2, loss {loss.item():.3f}")
    return CausalInfill(net.merge_and_unload().eval(), tokenizer, device=_CPU, name=INFILL_SMOLLM2)


@dataclass(frozen=True)
class Method:
    """`texts`: what it makes of the corpus under a mask in one draw. `paper`: its name in the paper's tables."""

    name: str
    texts: Callable[[str, int], list[str]]
    masks: Sequence[str] = ALONE
    marker_weight: float = 1.0
    paper: str = ""


def bundled(by: Obfuscator, steps: int) -> Iterator[Method]:
    def marked(mask: str, _: int) -> list[str]:
        return by.marked(mask, lambda _: MARKER)

    tuned = {mask: by.fine_tuned(mask, steps) for mask in ALONE}
    yield Method("Baseline0", marked, tuple(MASKS), paper="Baseline0")
    yield Method("Baseline0, class markers", lambda mask, _: by.marked(mask, lambda one: f"[{one.type}]"), tuple(MASKS))
    yield Method("Baseline1", marked, marker_weight=0.0, paper="Baseline1")
    yield Method("`top1`", lambda mask, _: by.drawn(mask, TOP_1, 0), tuple(MASKS), paper="RoBERTa Top-1")
    yield Method("`topk`", lambda mask, draw: by.drawn(mask, TOP_K, draw), paper="RoBERTa Top-K")
    yield Method(
        "`topk`, fine-tuned",
        lambda mask, draw: by.drawn(mask, TOP_K, draw, f"{steps} steps", tuned[mask]),
        paper="RoBERTa Top-K FT",
    )
    yield Method(f"`dp`, epsilon {EPSILON} a slot", lambda mask, draw: by.drawn(mask, DP, draw))


def causal(by: Obfuscator, steps: int) -> Iterator[Method]:
    model = cache(lambda: Remembered(infill_model(INFILL_SMOLLM2, device="cpu")))
    kind = INFILL_SMOLLM2

    def tuned(mask: str) -> InfillModel:
        return fine_tuned_causal(by.drawn(mask, TOP_1, 0, kind, model), steps)

    yield Method("SmolLM2 `top1`", lambda mask, _: by.drawn(mask, TOP_1, 0, kind, model))
    yield Method("SmolLM2 `topk`", lambda mask, draw: by.drawn(mask, TOP_K, draw, kind, model))
    yield Method(
        "SmolLM2 `top1`, fine-tuned",
        lambda mask, _: by.drawn(mask, TOP_1, 0, f"{kind}, {steps} steps", partial(tuned, mask)),
        paper="LLaMA2 Top-1 FT",
    )


# Perplexities of the paper, cut to integers: corpus, Oracle, and rows by mask. Its corpora beside those of ours whose
# share of masked tokens is closest.
_REDDIT = {
    "Baseline0": (339, 168, 82),
    "Baseline1": (221, 134, 79),
    "RoBERTa Top-1": (117, 94, 78),
    "RoBERTa Top-K": (123, 92, 77),
    "RoBERTa Top-K FT": (98, 82, 76),
    "LLaMA2 Top-1 FT": (123, 107, 78),
}
_WSJ = {
    "Baseline0": (309, 144, 204),
    "Baseline1": (210, 122, 198),
    "RoBERTa Top-1": (181, 102, 118),
    "RoBERTa Top-K": (114, 93, 98),
    "RoBERTa Top-K FT": (120, 110, 157),
    "LLaMA2 Top-1 FT": (135, 106, 145),
}
PAPER = {"IMDB": ("Reddit", 76, _REDDIT), "WikiText-2": ("WSJ", 86, _WSJ), "CoNLL-2003": ("WSJ", 86, _WSJ)}


CACHE = Path(tempfile.gettempdir()) / "privacy-gateway-obfuscation"


@dataclass(frozen=True)
class Comparison:
    """Perplexities on one corpus, one for each seed, which changes the adaptation and the draw."""

    used: Corpus
    model: LanguageModel
    cached: Cache
    seeds: int

    def perplexities(self, texts: Callable[[int], list[str]], marker_weight: float = 1.0) -> list[float]:
        return [self._perplexity(texts(seed), marker_weight, seed) for seed in range(self.seeds)]

    def _perplexity(self, adapt: list[str], marker_weight: float, seed: int) -> float:
        key = (self.model.fingerprint, adapt, self.used.test, marker_weight, seed)
        make = partial(self.model.perplexity, adapt, self.used.test, marker_weight=marker_weight, seed=_SEED + seed)
        return float(self.cached.kept(key, make))

    def show(self, by: Obfuscator, methods: Iterable[Method], masks: Sequence[str]) -> None:
        """Ratios to Oracle of the same seed, with their range, and below the paper's, whose perplexities are cut."""
        head(f"{self.used.name}, {len(self.used.adapt)} sentences, tested on {len(self.used.test)}", *masks)
        row("tokens masked", *(f"{by.share(mask):.1%}" for mask in masks))
        oracle = self.perplexities(lambda _: self.used.adapt)
        row("Oracle, perplexity", *[f"{np.mean(oracle):.0f} ({min(oracle):.0f} to {max(oracle):.0f})"] * len(masks))
        row("not adapted", *[f"{self._perplexity([], 1.0, 0) / np.mean(oracle):.3f}"] * len(masks))
        corpus_name, best, printed = PAPER[self.used.name]
        for method in methods:
            cells = []
            for mask in masks:
                if mask not in method.masks:
                    cells.append("")
                    continue
                found = self.perplexities(partial(method.texts, mask), method.marker_weight)
                ratios = [own / clean for own, clean in zip(found, oracle, strict=True)]
                cells.append(f"{np.mean(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})")
            row(method.name, *cells)
            if method.paper:
                values = dict(zip(ALONE, printed[method.paper], strict=True))
                bounds = [
                    f"{values[mask] / (best + 1):.2f} to {(values[mask] + 1) / best:.2f}" if mask in values else ""
                    for mask in masks
                ]
                row(f"paper: {method.paper}, {corpus_name}", *bounds)


def main() -> None:
    options = arguments(
        __doc__,
        needs_data=True,
        cache=CACHE,
        sentences=(400, "to adapt to, of each corpus"),
        seeds=3,
        corpus=list(PAPER),
        masks=list(MASKS),
        smollm2=(False, "its rows instead of the bundled model's"),
        fine_tuning_steps=20,
    )
    logging.disable()
    torch.set_num_threads(1)
    cached = Cache(options.cache)
    model = LanguageModel.pretrained(pretraining(options.data), options.cache)
    print(f"{machine()}; {options.fine_tuning_steps} steps of fine-tuning\n")
    for name in options.corpus:
        used = corpus(name, options.data, options.sentences)
        by = Obfuscator(used.adapt, cached)
        methods = (causal if options.smollm2 else bundled)(by, options.fine_tuning_steps)
        Comparison(used, model, cached, options.seeds).show(by, methods, options.masks)


if __name__ == "__main__":
    main()
