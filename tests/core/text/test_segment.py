"""The unit list of a document."""

import subprocess
import sys

import pytest

from core.text.segment import sentences


def test_abbreviations_do_not_end_a_sentence():
    assert sentences("Dr. Smith went home. He slept.") == ["Dr. Smith went home.", "He slept."]


def test_blank_lines_separate_and_leave_no_unit_behind():
    assert sentences("One thing.\n\n\n  Another thing. ") == ["One thing.", "Another thing."]


def test_repeated_and_odd_segments_are_kept():
    assert sentences("Yes. Yes. ?!").count("Yes.") == 2
    assert "".join(sentences("Yes. Yes. ?!")).replace(" ", "") == "Yes.Yes.?!"


@pytest.mark.parametrize("text", ["", "   ", "\n\n\t \u00a0"])
def test_space_alone_holds_no_sentence(text):
    assert sentences(text) == []


@pytest.mark.parametrize(
    "text", ["Он пришёл. 它很好。終わり。", "a\u0301 b! 🎉 ok?", "no stop at all", "x" * 5000, "e.g. this, i.e. that."]
)
def test_no_character_but_space_is_lost(text):
    assert "".join("".join(sentences(text)).split()) == "".join(text.split())


@pytest.mark.parametrize("module", ["core.text.segment", "core.text.policy"])
def test_the_front_end_modules_import_nothing_heavy(module):
    heavy = "{'spacy', 'presidio_analyzer', 'wordfreq', 'faker', 'torch', 'phonenumbers'}"
    code = f"import sys, {module}; raise SystemExit(bool({heavy} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
