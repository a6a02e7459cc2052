"""Runs the recognisers of the technique `entity` on windows of documents, the tagger on many of them together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

from core.errors import GatewayError, RecogniserFailed
from core.guarded import guarded
from core.text.mask_entity import Tagged, search
from core.text.masks import NOT_RECOGNISED, Recognised, WindowFinds, join
from core.text.policy import SanitizeTask
from core.text.segment import visible
from gpu_workers.engine.handler import pause
from gpu_workers.handlers.conversation_tasks import MaskTask, RestoreTask
from gpu_workers.handlers.own_finder import DraftTask, OwnFinder
from gpu_workers.handlers.sanitize_tasks import DocumentTask, SurrogateTask, WindowTask, WordTask, window_tasks

if TYPE_CHECKING:
    from gpu_workers.handlers.entity_tagger import NameFinder


Finds = Sequence[WindowFinds | GatewayError]
# tasks without a text to read
_UNREAD = WordTask | SurrogateTask | DraftTask | MaskTask | RestoreTask


def recognise(
    tasks: Sequence[SanitizeTask | WindowTask | WordTask | SurrogateTask | DraftTask | MaskTask | RestoreTask],
    names: NameFinder | None,
    own_finder: OwnFinder,
) -> list[Finds]:
    """Return for each task the finds in its windows, or the error of a window's recognisers. A task that needs no
    recognisers has none. The windows of a document are not read again if they were read as tasks of their own.

    `names`: the tagger, None if none runs. It reads the windows whose policy requests names. `own_finder` runs the
    recognisers that a policy names.
    """
    known = {index: task.finds for index, task in enumerate(tasks) if isinstance(task, DocumentTask) and task.finds}
    windows = {
        index: [task] if isinstance(task, WindowTask) else window_tasks(task)
        for index, task in enumerate(tasks)
        if index not in known and not isinstance(task, _UNREAD)
    }
    found = iter(_read([window for own in windows.values() for window in own], names, own_finder))
    return [known.get(index) or list(islice(found, len(windows.get(index, ())))) for index in range(len(tasks))]


def joined(task: SanitizeTask, finds: Finds) -> Recognised:
    """Return what was found in the whole document. Raises the first error of a window, so that no document is filled
    that was not completely inspected; RecogniserFailed if the finds are not those of its windows."""
    found: list[WindowFinds] = []
    for each in finds:
        if isinstance(each, GatewayError):
            raise each
        found.append(each)
    return join(visible(task.text), task.policy, found) if task.needs_recognisers else NOT_RECOGNISED


def _read(
    tasks: Sequence[WindowTask], names: NameFinder | None, own_finder: OwnFinder
) -> list[WindowFinds | GatewayError]:
    """The tagger and the other recognisers work side by side. The worker may run other batches between two of them."""
    read = [index for index, task in enumerate(tasks) if names and names.wanted(task.policy)]
    tagged = names.begin([_part(tasks[index]) for index in read], pause) if names and read else list
    others = [_found(task, own_finder) for task in tasks]
    by_tagger = {index: _in_window(tasks[index], found) for index, found in zip(read, tagged(), strict=True)}
    return [_with_tagged(found, by_tagger.get(index)) for index, found in enumerate(others)]


def _part(task: WindowTask) -> str:
    """What the tagger reads of a window."""
    return task.text if task.tagged is None else task.text[slice(*task.tagged)]


def _in_window(task: WindowTask, found: Tagged | RecogniserFailed) -> Tagged | RecogniserFailed:
    """The finds of `_part` at their places in the window."""
    if isinstance(found, RecogniserFailed) or task.tagged is None:
        return found
    at = task.tagged[0]
    moved = [(start + at, end + at, kind, score) for start, end, kind, score in found.found]
    return Tagged(task.text, found.types, tuple(moved))


def _found(task: WindowTask, own_finder: OwnFinder) -> WindowFinds | GatewayError:
    hits = guarded(search, task.text, task.policy, pause)
    if isinstance(hits, GatewayError):
        return hits
    own = guarded(own_finder.search, task.text, task.policy)
    return own if isinstance(own, GatewayError) else WindowFinds(hits, None, own)


def _with_tagged(found: WindowFinds | GatewayError, tagged: Tagged | GatewayError | None) -> WindowFinds | GatewayError:
    if isinstance(tagged, GatewayError) or isinstance(found, GatewayError):
        return tagged if isinstance(tagged, GatewayError) else found
    return replace(found, tagged=tagged)
