"""Finds keys in a text that comes in pieces: the leftmost first, of those the longest.

A key is a sequence of tokens (`core.text.reversible.lexing`), so that it is found as whole words and in any encoding.
The result depends on the text alone and not on how it is cut. Of the text, only what may still become a key is held
back. A key is looked up by its first `HEAD_TOKENS` tokens, and the rest of it is compared at once, so that the time is
linear in the text for any keys.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping
from functools import partial
from itertools import accumulate, compress, islice
from typing import Any, NamedTuple, Protocol

from core.text.reversible.lexing import EASTERN, NUMBER, OTHER, SPACE, WORD, Lexed, kind, lex, normal, normals_of

HEAD_TOKENS = 48
_VALUE, _TAILS = 0, 1  # of a node: keys that are no tokens
_PLUS = "+"  # a space in a URL
# characters that stand for a token of which a part was passed on
_CONTEXTS = {WORD: "x", NUMBER: "0", EASTERN: "一", OTHER: ","}

# token -> node or rest; `_VALUE` -> the value of the key that ends with the node; `_TAILS` -> longer keys
_Node = dict[Any, Any]
# What follows a token in the only key that goes on with it, and the value of the key: no node for each token.
_Rest = tuple[tuple[str, ...], object]


class Piece(NamedTuple):
    """A part of the text. `value`: that of the key that it is; None for anything else."""

    raw: str
    value: Any = None

    def __repr__(self) -> str:
        return f"Piece({len(self.raw)} characters)"


UNDECIDED = "undecided"
BEFORE_CHARS = 64


class Found(NamedTuple):
    """The end of what was found, in tokens, and its value; None if more of the text is needed."""

    end: int
    value: object | None


class Rules(Protocol):
    """Finds what is no key. A longer find goes before a key. `match` gets the tokens, of which all are complete, a
    place among them, the end of the key there or that place, whether more follow, and what gives the last
    `BEFORE_CHARS` characters before the place. It returns finds that end after the key."""

    def may_start(self, part: str) -> bool: ...

    def begins_with(self, token: str) -> bool: ...

    def match(self, tokens: list[str], at: int, end: int, *, more: bool, before: Callable[[], str]) -> Found | None: ...


class _Joined:
    """The text of tokens, made when it is needed. Tokens may be added to their list."""

    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens
        self._text = ""
        self.starts = [0]  # of each token, and the end of the last one

    def text(self) -> str:
        if len(self.starts) <= len(self._tokens):
            normals = [normal(token) for token in self._tokens[len(self.starts) - 1 :]]
            self._text += "".join(normals)
            self.starts += islice(accumulate(map(len, normals), initial=self.starts[-1]), 1, None)
        return self._text


class _Tails:
    """What follows the first tokens of long keys that begin alike."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[int, object]] = {}  # text -> number of tokens, value
        self._texts: list[str] = []  # sorted
        self._shorter: list[int] = []  # of each text: the place of the longest other one that it begins with, or -1
        self._chars_max = 0

    def add(self, tokens: list[str], value: object) -> None:
        self._found.setdefault("".join(tokens), (len(tokens), value))

    def close(self) -> None:
        self._texts = sorted(self._found)
        self._chars_max = max(map(len, self._texts))
        beginnings: list[int] = []
        for place, text in enumerate(self._texts):
            while beginnings and not text.startswith(self._texts[beginnings[-1]]):
                beginnings.pop()
            self._shorter.append(beginnings[-1] if beginnings else -1)
            beginnings.append(place)

    def longest(self, joined: _Joined, after: int) -> tuple[int, object] | None:
        """Return the end and the value of the longest key whose tail begins at the token `after`."""
        text = joined.text()
        own = joined.starts[after]
        place = bisect_right(self._texts, text[own : own + self._chars_max]) - 1
        while place >= 0:
            tail = self._texts[place]
            count, value = self._found[tail]
            end = after + count
            if text.startswith(tail, own) and end < len(joined.starts) and joined.starts[end] == own + len(tail):
                return end, value
            place = self._shorter[place]
        return None

    def may_follow(self, joined: _Joined, after: int, part: str) -> bool:
        """Whether a tail is longer than the text from the token `after` on, and begins with it and `part`."""
        text = joined.text()
        own = joined.starts[after]
        if len(text) - own >= self._chars_max:
            return False
        begun = text[own:] + part
        place = bisect_left(self._texts, begun)
        return place < len(self._texts) and self._texts[place].startswith(begun)


class KeyTree:
    """`keys`: key -> value that is not None. `accepts`: whether the tokens of a key are searched for. `rules`: find
    what is no key. A tree does not change, and may be used by several finders at once."""

    def __init__(
        self,
        keys: Mapping[str, object],
        *,
        accepts: Callable[[list[str]], bool] | None = None,
        rules: Rules | None = None,
    ) -> None:
        self.rules = rules
        self._root: _Node = {}
        self._all_tails: list[_Tails] = []
        shared: dict[str, str] = {}  # one object for all equal tokens
        for tokens, value in zip(normals_of([*keys]), keys.values(), strict=True):
            if accepts is None or accepts(tokens):
                self._add([shared.setdefault(token, token) for token in tokens], value)
        for tails in self._all_tails:
            tails.close()
        self._first = sorted(self._root)

    def find(self, text: str, lexed: Lexed | None = None, before: str = "") -> list[Piece]:
        """Return the pieces of a whole text. `lexed`: the text, if it has been read before. `before`: what stands
        before it."""
        tokens, raws, _ = lex(text) if lexed is None else lexed
        out: list[Piece] = []
        begins = set(filter(self.begins_with, set(tokens))).__contains__
        _match(self, tokens, raws, None, out, begins=begins, text=_Joined(tokens), before=before)
        return [piece for piece in out if piece.raw]

    def _add(self, tokens: list[str], value: object) -> None:
        node = self._root
        is_long = len(tokens) > HEAD_TOKENS
        for after, token in enumerate(tokens[:HEAD_TOKENS], 1):
            following = node.get(token)
            if following is None and not is_long:
                node[token] = tuple(tokens[after:]), value
                return
            if following is None:
                following = node[token] = {}
            elif isinstance(following, tuple):
                following = node[token] = _node_of(following)
            node = following
        if is_long:
            if _TAILS not in node:
                node[_TAILS] = _Tails()
                self._all_tails.append(node[_TAILS])
            node[_TAILS].add(tokens[HEAD_TOKENS:], value)
        elif tokens:
            node.setdefault(_VALUE, value)

    def begins_with(self, token: str) -> bool:
        """Whether a find may begin with a whole token."""
        return token in self._root or (self.rules is not None and self.rules.begins_with(token))

    def after(self, token: str) -> _Node | _Rest | None:
        """Return the node after a key's first token, or the rest of that key."""
        return self._root.get(token)

    def may_start(self, part: str) -> bool:
        """Whether a key begins with a token that begins with `part`."""
        at = bisect_left(self._first, part)
        if at < len(self._first) and self._first[at].startswith(part):
            return True
        return self.rules is not None and self.rules.may_start(part)


def _child(node: _Node, token: str) -> _Node | _Rest | None:
    found: _Node | _Rest | None = node.get(normal(token))
    return node.get(SPACE) if found is None and token == _PLUS else found


def _node_of(rest: _Rest) -> _Node:
    """Return the node of a key that another key begins with, or begins like."""
    tokens, value = rest
    return {tokens[0]: (tokens[1:], value)} if tokens else {_VALUE: value}


def _equal_tokens(rest: tuple[str, ...], tokens: list[str], after: int) -> int:
    """Return how many tokens from `after` on are those of `rest`."""
    for count, (expected, token) in enumerate(zip(rest, tokens[after : after + len(rest)], strict=False)):
        if normal(token) != expected and not (token == _PLUS and expected == SPACE):
            return count
    return min(len(rest), len(tokens) - after)


class KeyFinder:
    """Finds the keys of one text. The pieces of all results together are the text."""

    def __init__(self, tree: KeyTree, before: str = "") -> None:
        """`before`: what stands before the text."""
        self._tree = tree
        self._before = before  # the end of what was passed on
        self._tokens: list[str] = []  # whole ones; those from `_passed` on may be the beginning of a key
        self._raws: list[str] = []
        self._joined = _Joined(self._tokens)
        self._passed = 0
        self._rest = ""  # of the text, from a token on that may become longer
        self._context = ""  # stands for the beginning of that token, which was passed on

    def feed(self, text: str) -> list[Piece]:
        """Take the next part of the text. Return what it decides."""
        return self._advance(text, final=False)

    def end(self, text: str = "") -> list[Piece]:
        """Take the last part of the text. Return all that was held back."""
        return self._advance(text, final=True)

    def _advance(self, text: str, *, final: bool) -> list[Piece]:
        context = self._context
        tokens, raws, cut = lex(context + self._rest + text, final=final)
        if raws is tokens:
            raws = tokens[:]
        out: list[Piece] = []
        if tokens and context:
            raws[0] = raws[0][len(context) :]
        tail = (tokens.pop(), raws.pop()) if tokens and not final else None
        if tokens and context:
            out.append(Piece(raws[0]))
            tokens, raws, context = tokens[1:], raws[1:], ""
        self._tokens += tokens
        self._raws += raws
        self._passed = _match(
            self._tree,
            self._tokens,
            self._raws,
            tail,
            out,
            begins=self._tree.begins_with,
            text=self._joined,
            at=self._passed,
            before=self._before,
        )
        if 2 * self._passed >= len(self._tokens):  # else what is held would be copied for each token that is passed on
            self._tokens, self._raws = self._tokens[self._passed :], self._raws[self._passed :]
            self._joined, self._passed = _Joined(self._tokens), 0
        self._context, self._rest = context, cut
        if tail:
            self._hold(tail, out, context=context)
        if self._tree.rules:
            self._before = _end_of(self._before, out)
        return [piece for piece in out if piece.raw]

    def _hold(self, tail: tuple[str, str], out: list[Piece], *, context: str) -> None:
        """Hold back the last token, or pass it on if it begins no key."""
        token, raw = tail
        if self._passed < len(self._tokens) or (not context and self._tree.may_start(token)):
            self._rest = raw + self._rest
            return
        out.append(Piece(raw))
        self._context = _context_of(token)


def _match(
    tree: KeyTree,
    tokens: list[str],
    raws: list[str],
    tail: tuple[str, str] | None,
    out: list[Piece],
    *,
    begins: Callable[[str], bool],
    text: _Joined,
    at: int = 0,
    before: str = "",
) -> int:
    """Add what is decided of the tokens from `at` on to `out`. Return the number of tokens that are. `begins`: whether
    a find may begin with a token. `text`: of all tokens. `before`: the end of the text before them and `out`."""
    count, rules = len(tokens), tree.rules
    plain = at
    for place in compress(range(at, count), map(begins, map(tokens.__getitem__, range(at, count)))):
        if place < plain:
            continue  # in the last find
        at, found = place, tree.after(tokens[place])
        end, value, after = at, None, at + 1
        while True:
            node: _Node = {}  # what may follow
            if found is None:
                break
            if isinstance(found, tuple):
                rest, own = found
                equal = _equal_tokens(rest, tokens, after)
                after += equal
                if equal == len(rest):
                    end, value = after, own
                elif after == count:
                    node = {rest[equal]: None}
                break
            node = found
            if _VALUE in node:
                end, value = after, node[_VALUE]
            if after == count or _TAILS in node:
                break
            found, after = _child(node, tokens[after]), after + 1
        if tail and after == count and _may_continue(node, tail[0]):
            break
        if _TAILS in node:
            if tail and node[_TAILS].may_follow(text, after, normal(tail[0])):
                break
            end, value = node[_TAILS].longest(text, after) or (end, value)
        if rules and rules.begins_with(tokens[at]):
            end_of_text = partial(_text_before, before, out, raws, plain, at)
            if longer := rules.match(tokens, at, end, more=tail is not None, before=end_of_text):
                if longer.value is None:
                    break
                end, value = longer
        if value is not None:
            out.append(Piece("".join(raws[plain:at])))
            out.append(Piece("".join(raws[at:end]), value))
            plain = end
    else:
        at = count
    out.append(Piece("".join(raws[plain:at])))
    return at


def _text_before(before: str, out: list[Piece], raws: list[str], plain: int, at: int) -> str:
    """Return the last characters before the token `at`."""
    own = "".join(raws[max(plain, at - BEFORE_CHARS) : at])
    return own[-BEFORE_CHARS:] if len(own) >= BEFORE_CHARS else _end_of(before, out, own)


def _end_of(before: str, out: list[Piece], own: str = "") -> str:
    for piece in reversed(out):
        if len(own) >= BEFORE_CHARS:
            break
        own = piece.raw + own
    return (before + own)[-BEFORE_CHARS:]


def _context_of(token: str) -> str:
    """Return a character after which the rest of a token is read as after its beginning, `token`."""
    return "" if token.isspace() else _CONTEXTS[kind(token)]


def _may_continue(node: _Node, part: str) -> bool:
    """Whether a token that begins with `part` may follow."""
    if part == _PLUS and SPACE in node:
        return True
    part = normal(part)
    return part in node or any(token.startswith(part) for token in node if isinstance(token, str))
