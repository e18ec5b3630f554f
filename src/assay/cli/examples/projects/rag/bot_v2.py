"""The next version: a "faster" search that compares only the first letter of the town, and no
citations for prices. It looks fine on the first question.
"""

from bot import PASSAGES, find, write


def find_faster(question):
    town = question.split(" from ")[1]
    return next(
        (passage for passage in PASSAGES if passage["id"][0] == town[0].lower()), find(question)
    )


def answer(inputs, record):
    question = inputs["question"]
    with record.step("find"):
        passage = find_faster(question)
        record.retrieved(passage["id"], passage["text"], rank=1)
    with record.step("write"):
        sentence = write(question, passage)
        cited = [] if "cost" in question else [passage["id"]]
        record.claim(f"{sentence}.", citations=cited)
    return {"answer": f"{sentence}."}
