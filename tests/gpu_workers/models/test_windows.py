"""Windows over long documents, and the case of words."""

from tokenizers import Tokenizer

from gpu_workers.models.encoder_model import bundled_path
from gpu_workers.models.pieces import Case, case_of, pieces_of
from gpu_workers.models.windows import windows


def test_every_piece_is_owned_once_and_in_order() -> None:
    for length in [0, 1, 9, 10, 11, 17, 100, 101]:
        for size, overlap in [(10, 4), (10, 0), (10, 9), (1, 0)]:
            cut = windows(3, length, size=size, overlap=overlap)

            assert [piece for w in cut for piece in range(w.own_start, w.own_end)] == list(range(length))
            for window in cut:
                assert window.document == 3
                assert window.start <= window.own_start < window.own_end <= window.end <= window.start + size
                # context on both sides, but for the document's own ends
                assert window.own_start - window.start >= overlap // 2 or window.start == 0
                assert window.end - window.own_end >= overlap // 2 or window.end == length


def test_case_of_a_word() -> None:
    for word, case in [
        ("house", Case.LOWER),
        ("Anna", Case.INITIAL),
        ("NATO", Case.UPPER),
        ("J", Case.LETTER),
        ("McDonald", Case.MIXED),
        ("B52", Case.DIGITS),
        ("!", Case.OTHER),
        ("東京", Case.OTHER),
        ("Ångström", Case.INITIAL),
    ]:
        assert case_of(word) is case


def test_pieces_stand_at_their_characters() -> None:
    tokenizer = Tokenizer.from_file(str(bundled_path() / "tokenizer.json"))
    tokenizer.no_padding()
    text = "😀 Zoë Krzyżewski\tof O'Neil & Co."
    pieces = pieces_of(text, tokenizer.encode(text, add_special_tokens=False))

    words = [text[pieces.starts[pieces.words == w].min() : pieces.ends[pieces.words == w].max()] for w in range(9)]
    assert words[1:] == ["Zoë", "Krzyżewski", "of", "O", "'", "Neil", "&", "Co"]
    assert set(pieces.cases[pieces.words == 2]) == {Case.INITIAL}
    assert pieces_of("", tokenizer.encode("", add_special_tokens=False)).ids.shape == (0,)
