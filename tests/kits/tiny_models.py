"""Tiny checkpoints on disk, as an operator would hand them over: BERT, RoBERTa, LLaMA, with tokenisers of their own."""

import string
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import BertConfig, LlamaConfig, PreTrainedTokenizerFast, RobertaConfig

PEOPLE = ("alice", "bob", "carol", "dave")
TOWNS = ("oslo", "lima", "cairo", "perth")
_PLAIN = "the parcel that she sent to him went from shop near our house and was lost again , nobody knows why ."
PLAIN = _PLAIN.split()
LABELS = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
_CORPUS = [
    " ".join([*PEOPLE, *TOWNS, *PLAIN]),
    "Alice Bob's house, in Oslo. She sent it to Dave!",
    "in 1990 at 12",
] * 20


def _wordpiece() -> PreTrainedTokenizerFast:
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.train_from_iterator(_CORPUS, trainers.WordPieceTrainer(vocab_size=400, special_tokens=specials))
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, mask_token="[MASK]", **names)


def _byte_level(*first: pre_tokenizers.PreTokenizer) -> PreTrainedTokenizerFast:
    specials = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*first, pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=700, special_tokens=specials, initial_alphabet=alphabet)
    tokenizer.train_from_iterator(_CORPUS, trainer)
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    names = {"pad_token": "<pad>", "unk_token": "<unk>", "cls_token": "<s>", "sep_token": "</s>"}
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, mask_token="<mask>", **names)


def _metaspace() -> PreTrainedTokenizerFast:
    specials = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=specials, initial_alphabet=list(string.printable))
    tokenizer.train_from_iterator(_CORPUS, trainer)
    names = {"pad_token": "<pad>", "unk_token": "<unk>", "eos_token": "</s>"}
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names)


def _digit_by_digit() -> PreTrainedTokenizerFast:
    """As newer vocabularies spell numbers: the space before one is a piece of its own."""
    return _byte_level(pre_tokenizers.Digits(individual_digits=True))


_TOKENIZERS = {
    "bert": _wordpiece, "roberta": _byte_level, "llama": _byte_level, "llama2": _metaspace, "llama3": _digit_by_digit,
}  # fmt: skip


def checkpoint(folder: Path, family: str, auto_class: Any, *, teach: bool = False) -> Path:
    """A random model of a family of `_TOKENIZERS`, saved as safetensors. It has 40 positions for text; LLaMA has 512,
    for it reads a prompt, too.

    `teach`: a token classifier learns, in a few dozen steps, that people and towns are what they are.
    """
    torch.manual_seed(7)
    tokenizer = _TOKENIZERS[family]()
    shape = {
        "vocab_size": len(tokenizer), "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2,
        "intermediate_size": 64, "pad_token_id": tokenizer.pad_token_id,
        "max_position_embeddings": 43 if family == "bert" else 44, "id2label": dict(enumerate(LABELS)),
        "label2id": {label: number for number, label in enumerate(LABELS)},
    }  # fmt: skip
    if family.startswith("llama"):
        tokenizer.bos_token = "<s>"
        config = LlamaConfig(**shape | {"max_position_embeddings": 512})
    else:
        config = BertConfig(**shape) if family == "bert" else RobertaConfig(**shape, type_vocab_size=1)
    model = auto_class.from_config(config)
    if teach:
        _teach(model, tokenizer)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def adapter(path: Path, of: str, **changes: Any) -> Any:
    """The file of a random adapter of the bundled encoder, and the network as its training sees it."""
    from gpu_workers.infill.fine_tuning import adapter_parameters, attach
    from gpu_workers.models.embedded import AdapterInfo, InfillNet, TaggerNet, backbone, save_adapter
    from gpu_workers.models.encoder import weights_fingerprint
    from gpu_workers.models.encoder_model import bundled_path

    torch.manual_seed(11)
    bert = backbone()
    attach(bert, 2)
    labels = ("O", "PERSON", "LOCATION", "ORGANIZATION") if of == "tagger" else ()
    net = TaggerNet(bert, len(labels)) if labels else InfillNet(bert)
    parameters = {**adapter_parameters(bert), **net.own_parameters()}
    with torch.no_grad():
        for tensor in parameters.values():
            tensor.copy_((torch.randn(tensor.shape) * 0.05).half())
    facts = {"kind": of, "encoder_fingerprint": weights_fingerprint(bundled_path()), "labels": labels, **changes}
    save_adapter(path, AdapterInfo(rank=2, steps=0, source="none", licence="none", **facts), parameters)
    return net.eval()


def sentence_encoder(folder: Path, family: str) -> Path:
    """A random encoder of sentences, in the form of sentence-transformers: mean pooling, 40 tokens, dimension 32."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
    from transformers import AutoModel

    model = Transformer(str(checkpoint(folder / "model", family, AutoModel)), max_seq_length=40)
    SentenceTransformer(modules=[model, Pooling(32)]).save(str(folder / "encoder"))
    return folder / "encoder"


def _teach(model: Any, tokenizer: PreTrainedTokenizerFast) -> None:
    """Train until every word of fresh rows is classified correctly with a margin: rounding differs between machines."""
    torch.set_num_threads(1)  # so small a model is slower on more
    generator = torch.Generator().manual_seed(3)
    optimiser = torch.optim.AdamW(model.parameters(), lr=0.003)
    known = {**dict.fromkeys(PEOPLE, 1), **dict.fromkeys(TOWNS, 3)}
    words = [*PEOPLE, *TOWNS, *PLAIN]
    for _ in range(1_000):
        lengths = torch.randint(1, 23, (8,), generator=generator).tolist()
        drawn = [[words[i] for i in torch.randint(len(words), (length,), generator=generator)] for length in lengths]
        batch = tokenizer([" ".join(row) for row in drawn], return_tensors="pt", padding=True)
        labels = torch.full_like(batch["input_ids"], -100)
        for number, row in enumerate(drawn):
            for place, word in enumerate(batch.word_ids(number)):
                if word is not None:
                    labels[number, place] = known.get(row[word], 0)
        loss = model(**{k: v for k, v in batch.items() if k != "token_type_ids"}, labels=labels).loss
        if loss < 0.003:
            return
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()
    raise AssertionError("the tiny model has not learnt")
