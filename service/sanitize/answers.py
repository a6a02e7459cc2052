"""Answers of `POST /sanitize`, of its stream, of `GET /policies` and about recognisers, as types."""

from typing import Annotated, Any, NotRequired

from typing_extensions import TypedDict

from service.http.answers import ProblemDocument, doc
from service.releases.answers import Account, Privacy


class TextSpan(TypedDict):
    """A find: a region of the sanitised text, and of the text as sent, in code points."""

    type: Annotated[str, doc("The type of what was found.")]
    technique: NotRequired[Annotated[str, doc("The technique that found it; absent from a reversible answer.")]]
    start: NotRequired[Annotated[int, doc("Its start in the output; absent after a dry run.")]]
    end: NotRequired[Annotated[int, doc("Its end in the output, exclusive; absent after a dry run.")]]
    original_start: NotRequired[Annotated[int, doc("Its start in the text as sent; absent with a priced fill.")]]
    original_end: NotRequired[Annotated[int, doc("Its end in the text as sent; absent with a priced fill.")]]
    score: NotRequired[Annotated[float, doc("Its score, in [0, 1]; absent where there is none.")]]
    recogniser: NotRequired[Annotated[str, doc("What found it; absent where there is no recogniser.")]]


class Suppressed(TypedDict):
    """A find that is not masked."""

    type: Annotated[str, doc("The type of what was found.")]
    rule: Annotated[str, doc("Why it is not masked, as a word.")]
    original_start: Annotated[int, doc("Its start in the text as sent, in code points.")]
    original_end: Annotated[int, doc("Its end in the text as sent, exclusive.")]
    score: Annotated[float, doc("Its score, in [0, 1].")]
    recogniser: Annotated[str, doc("What found it.")]
    by: NotRequired[Annotated[str, doc("The list or recogniser that suppresses it; absent for other rules.")]]


class SanitizedRow(TypedDict):
    """One sanitised document."""

    index: Annotated[int, doc("The place of the document in the request, from 0.")]
    id: NotRequired[Annotated[str, doc("The id that the caller gave; absent for none.")]]
    language: NotRequired[Annotated[str, doc("The language in which it was read; absent where none is needed.")]]
    note: NotRequired[Annotated[str, doc("What may be missed in an unknown language.")]]
    text: NotRequired[Annotated[str, doc("The sanitised text; absent after a dry run.")]]
    spans: NotRequired[Annotated[list[TextSpan], doc("The finds, where they were asked for.")]]
    suppressed: NotRequired[Annotated[list[Suppressed], doc("The first finds that are not masked, where asked for.")]]
    suppressed_left_out: NotRequired[Annotated[int, doc("How many more there are.")]]
    masked_tokens: NotRequired[Annotated[int, doc("How many words were masked; absent with the fill `dp`.")]]
    tokens: NotRequired[Annotated[int, doc("How many words it has; absent with the fill `dp`.")]]
    release_id: NotRequired[Annotated[str, doc("The release of the document; of a stream with a priced fill.")]]
    reused_from: NotRequired[Annotated[str, doc("The earlier release that answers it; where releases are reused.")]]


class SanitizeUsage(TypedDict):
    """What an answer is about, in numbers."""

    documents: Annotated[int, doc("How many documents.")]
    masked_tokens: NotRequired[Annotated[int, doc("How many words were masked; absent with the fill `dp`.")]]
    tokens: NotRequired[Annotated[int, doc("How many words they have; absent with the fill `dp`.")]]


class SanitizedDocuments(TypedDict):
    """Sanitised documents."""

    data: Annotated[list[SanitizedRow], doc("A row for each document, in their order.")]
    policy: NotRequired[Annotated[str, doc("The policy that was applied; absent for none.")]]
    dry_run: NotRequired[Annotated[bool, doc("True after a dry run, else absent.")]]
    restore_token: NotRequired[Annotated[str, doc("The originals, encrypted for the gateway; of a reversible answer.")]]
    restore_until: NotRequired[Annotated[int, doc("When the token ends, in seconds since the epoch.")]]
    privacy: Annotated[Privacy, doc("The guarantee.")]
    budget: Annotated[Account | None, doc("The account with the least left of those that paid; null for no price.")]
    usage: Annotated[SanitizeUsage, doc("What was sanitised.")]


class StreamSummary(TypedDict):
    """The end of a stream of documents."""

    documents: Annotated[int, doc("How many lines have a row.")]
    released: Annotated[int, doc("How many documents were sanitised.")]
    failed: Annotated[int, doc("How many lines have a problem.")]
    charged: Annotated[int, doc("How many documents were charged.")]
    complete: Annotated[bool, doc("Whether the stream came to its end.")]
    problem: NotRequired[Annotated[ProblemDocument, doc("What ended the stream early.")]]
    policy: NotRequired[Annotated[str, doc("The policy that was applied; absent for none.")]]
    dry_run: NotRequired[Annotated[bool, doc("True after a dry run, else absent.")]]
    privacy: Annotated[Privacy, doc("The guarantee of each document.")]
    budget: Annotated[Account | None, doc("The account after the last charge; null before the first.")]
    usage: Annotated[SanitizeUsage, doc("What was sanitised.")]


class RefusedLine(TypedDict):
    """A line of a stream that has no sanitised document."""

    index: Annotated[int, doc("The place of the document in the stream, from 0.")]
    line: Annotated[int, doc("The number of the line, from 1.")]
    problem: Annotated[ProblemDocument, doc("Why.")]


class SummaryLine(TypedDict):
    """The last line of a stream."""

    summary: Annotated[StreamSummary, doc("The summary.")]


class PolicyRecogniser(TypedDict):
    """A recogniser of the operator, by the numbers of its patterns and terms."""

    name: Annotated[str, doc("The name.")]
    entity: Annotated[str, doc("The type of what it finds.")]
    patterns: Annotated[int, doc("How many patterns.")]
    deny: Annotated[int, doc("How many terms it finds.")]
    allow: Annotated[int, doc("How many terms it does not find.")]
    context: Annotated[int, doc("How many words of context.")]


class VisiblePolicy(TypedDict):
    """A policy that the tenant may name, or must."""

    name: Annotated[str, doc("The name.")]
    default: Annotated[bool, doc("Whether it applies to requests that name none.")]
    enforced: Annotated[bool, doc("Whether no other one is admitted.")]
    mask: Annotated[dict[str, Any], doc("The mask, in the members of a request.")]
    fill: Annotated[dict[str, Any], doc("The fill, in the members of a request.")]
    proxy: Annotated[dict[str, Any], doc("What it says about language models.")]
    recognisers: Annotated[list[PolicyRecogniser], doc("The recognisers of the operator that it uses.")]


class PolicyList(TypedDict):
    """The policies of the operator."""

    policies: Annotated[list[VisiblePolicy], doc("The policies, by name.")]


class RecogniserRow(TypedDict):
    """A recogniser of the tenant, with the numbers of its patterns and terms."""

    name: Annotated[str, doc("The name.")]
    usable: Annotated[bool, doc("Whether its file can be used; if not, there is no other member.")]
    entity: NotRequired[Annotated[str, doc("The type of what it finds.")]]
    score: NotRequired[Annotated[float, doc("The score of a find, in (0, 1].")]]
    case_sensitive: NotRequired[Annotated[bool, doc("Whether the case of letters matters.")]]
    whole_words: NotRequired[Annotated[bool, doc("Whether only whole words are found.")]]
    patterns: NotRequired[Annotated[int, doc("How many patterns.")]]
    deny: NotRequired[Annotated[int, doc("How many terms it finds.")]]
    allow: NotRequired[Annotated[int, doc("How many terms it does not find.")]]
    context: NotRequired[Annotated[int, doc("How many words of context.")]]
    updated_ms: NotRequired[Annotated[int, doc("When it was stored, in milliseconds since the epoch.")]]


class NamedRecogniser(TypedDict):
    """A recogniser that was stored, without its patterns and terms."""

    name: Annotated[str, doc("The name.")]
    entity: Annotated[str, doc("The type of what it finds; empty for one that only allows terms.")]
    score: Annotated[float, doc("The score of a find, in (0, 1].")]
    case_sensitive: Annotated[bool, doc("Whether the case of letters matters.")]
    whole_words: Annotated[bool, doc("Whether only whole words are found.")]
    updated_ms: Annotated[int, doc("When it was stored, in milliseconds since the epoch.")]


class RecogniserFacts(NamedRecogniser):
    """The same with the numbers of its patterns and terms."""

    patterns: Annotated[int, doc("How many patterns.")]
    deny: Annotated[int, doc("How many terms it finds.")]
    allow: Annotated[int, doc("How many terms it does not find.")]
    context: Annotated[int, doc("How many words of context.")]


class StoredRecogniser(NamedRecogniser):
    """The same with its patterns and terms."""

    patterns: Annotated[list[str], doc("The patterns.")]
    deny: Annotated[list[str], doc("The terms that it finds.")]
    allow: Annotated[list[str], doc("The terms that it does not find.")]
    context: Annotated[list[str], doc("Words of context, which raise a score.")]


class RecognisersPage(TypedDict):
    """A page of recognisers."""

    recognisers: Annotated[list[RecogniserRow], doc("The recognisers, by name.")]
    next_cursor: Annotated[str | None, doc("The `cursor` of the next page; null on the last one.")]


class TriedFind(TypedDict):
    """A place that a draft finds."""

    start: Annotated[int, doc("Its start, in code points.")]
    end: Annotated[int, doc("Its end, exclusive.")]
    score: Annotated[float, doc("Its score, in [0, 1].")]
    pattern: Annotated[int | None, doc("The number of the pattern, from 0; null for a term.")]
    context: Annotated[bool | None, doc("Whether a word of context is near; null if that does not matter.")]
    suppressed_by: Annotated[str | None, doc("The rule by which it is not masked; null if it is.")]
    list: Annotated[str, doc("`patterns`, or `deny` for a term.")]


class DraftResult(TypedDict):
    """What a draft finds in a text."""

    entity: Annotated[str | None, doc("The type of the finds; null if the draft names none.")]
    threshold: Annotated[float, doc("The least score of a find that would be masked.")]
    finds: Annotated[list[TriedFind], doc("The first finds.")]
    total: Annotated[int, doc("How many finds there are.")]
