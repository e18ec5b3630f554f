"""A help desk's bot that doesn't always give the same answer, like a model with a temperature.

It finds the passage that shares the most words with the question, and answers with one of its
sentences. `choose` stands in for the model: where two sentences fit about equally well, it may take
either. It uses no model, so it runs anywhere: replace `choose` with a call to yours.
"""

import json
import random
import re
from pathlib import Path

PASSAGES = [
    json.loads(line) for line in Path(__file__).with_name("passages.jsonl").read_text().splitlines()
]
TEMPERATURE = 1.8  # at 0 it always takes the same sentence


def words(text):
    return set(re.findall(r"\w+", text.lower()))


def find(question):
    """The passage for a question."""
    return max(PASSAGES, key=lambda passage: len(words(question) & words(passage["text"])))


def sentences(passage):
    """The sentences of a passage: what the model gets to see."""
    return re.split(r"(?<=\.) ", passage["text"])


def choose(question, seen):
    """The sentence that answers the question."""

    def fit(sentence):
        return len(words(question) & words(sentence)) + random.uniform(0, TEMPERATURE)

    return max(seen, key=fit)


def answer(inputs, record, sentences=sentences):
    """Answer one question. `inputs` contains only what assay.yaml lists under `inputs`."""
    question = inputs["question"]
    with record.step("find"):
        passage = find(question)
        record.retrieved(passage["id"], passage["text"], rank=1)
    with record.step("answer"):
        sentence = choose(question, sentences(passage))
        record.claim(sentence, citations=[passage["id"]])
    return {"answer": f"{sentence} [{passage['id']}]"}
