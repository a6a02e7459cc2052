"""Public documents about six topics with their unprotected vectors, for the measure of recall in vector stores."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np

TOPICS = {
    "hotel": (
        "The hotel stands beside the harbour.",
        "Our bed was soft and the pillows were clean.",
        "Breakfast was served until eleven.",
        "The receptionist carried our luggage upstairs.",
        "The shower had hardly any hot water.",
        "We could hear the lift all night.",
        "Towels were changed every morning.",
        "The pool was closed for repairs.",
        "Parking costs extra at this resort.",
        "The balcony looks over the beach.",
    ),
    "phone": (
        "The battery of this phone lasts two days.",
        "The screen is bright even in the sun.",
        "The camera struggles in the dark.",
        "Charging takes less than an hour.",
        "The speaker crackles at full volume.",
        "An update fixed the slow keyboard.",
        "The case protects it when it falls.",
        "Calls drop when I leave the city.",
        "It unlocks with a fingerprint.",
        "The storage was full after a month.",
    ),
    "cooking": (
        "Chop the onions and fry them in butter.",
        "Let the dough rise for an hour.",
        "Add two spoons of sugar to the sauce.",
        "Roast the carrots until they are brown.",
        "The soup needs more salt and pepper.",
        "Whisk the eggs with a little milk.",
        "Serve the rice with fresh parsley.",
        "Bake the cake at a low temperature.",
        "Marinate the chicken over night.",
        "Drain the pasta and keep some water.",
    ),
    "football": (
        "The striker scored twice in the second half.",
        "The referee showed a red card.",
        "Our goalkeeper saved a penalty.",
        "The coach changed the defence at half time.",
        "Fans sang until the final whistle.",
        "The team has lost three matches in a row.",
        "A late corner decided the cup final.",
        "The midfielder is injured until spring.",
        "They were promoted to the first league.",
        "The transfer of the winger failed.",
    ),
    "court": (
        "The judge dismissed the claim.",
        "The tenant appealed against the verdict.",
        "Both lawyers agreed on a settlement.",
        "The witness contradicted the police report.",
        "The jury needed nine hours to decide.",
        "The contract was declared void.",
        "The defendant must pay the costs.",
        "The hearing was moved to March.",
        "New evidence reopened the trial.",
        "The prosecutor asked for two years in prison.",
    ),
    "medicine": (
        "The patient was admitted with a high fever.",
        "The doctor prescribed antibiotics for a week.",
        "An X-ray showed a broken rib.",
        "Her blood pressure fell after the operation.",
        "The nurse changed the bandage twice.",
        "He is allergic to penicillin.",
        "The biopsy was sent to the laboratory.",
        "The symptoms disappeared within days.",
        "The surgeon removed the appendix.",
        "The vaccine causes a mild headache.",
    ),
}
DOCUMENTS, SENTENCES = 240, 6


def write_corpus(path: Path) -> None:
    """A file of documents, and the mean of the vectors of their sentences by the gateway's encoder."""
    from gpu_workers.models.encoder import Encoder

    encoder = Encoder()
    vectors = {name: encoder.encode(list(sentences)) for name, sentences in TOPICS.items()}
    draw = random.Random(1)
    names = [list(TOPICS)[number % len(TOPICS)] for number in range(DOCUMENTS)]
    chosen = [draw.sample(range(len(TOPICS[name])), SENTENCES) for name in names]
    np.savez(
        path,
        texts=[" ".join(TOPICS[name][place] for place in places) for name, places in zip(names, chosen, strict=True)],
        topics=names,
        vectors=np.stack([vectors[name][places].mean(axis=0) for name, places in zip(names, chosen, strict=True)]),
    )
