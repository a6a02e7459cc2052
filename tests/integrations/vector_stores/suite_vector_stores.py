"""Vector stores: the recipe of the guide over private vectors finds the topic of a question."""

import random
from collections.abc import Callable
from typing import Any

from suite_kit import spent

TOPICS = {
    "hotel": (
        "Our bed was soft and the pillows were clean.", "Breakfast was served until eleven.",
        "The receptionist carried our luggage upstairs.", "We could hear the lift all night.",
        "The balcony looks over the beach.",
    ),
    "football": (
        "The striker scored twice in the second half.", "The referee showed a red card.",
        "Our goalkeeper saved a penalty.", "Fans sang until the final whistle.",
        "The team has lost three matches in a row.",
    ),
    "medicine": (
        "The patient was admitted with a high fever.", "The doctor prescribed antibiotics for a week.",
        "Her blood pressure fell after the operation.", "The surgeon removed the appendix.",
        "The vaccine causes a mild headache.",
    ),
}  # fmt: skip
DOCUMENTS = 60
QUESTION = "The surgeon operated on the patient. The nurse gave her medicine. She had a fever. She went home healthy."


def test_the_example_of_the_guide_finds_the_topic(run_example: Callable[..., Any]) -> None:
    draw = random.Random(1)
    topics = [list(TOPICS)[number % len(TOPICS)] for number in range(DOCUMENTS)]
    texts = [" ".join(draw.sample(TOPICS[topic], 4)) for topic in topics]
    names = run_example("Qdrant", texts=texts, question=QUESTION)
    assert len(names["found"]) == 3
    assert [topics[number] for number in names["found"]].count("medicine") >= 2
    assert spent(names["gateway"]) == 10 * (DOCUMENTS + 1)
