"""The next version: it fixes only the example in the issue, and breaks another test."""

import bot

EDITS = {
    **bot.EDITS,
    "split_bill": ("money.py", "[cents // people] * people", "[334, 333, 333]"),
    "is_leap": ("dates.py", "year % 4 == 0", "year % 4 == 0 and year % 100 != 0"),
}


def repair(inputs):
    found = next(edit for word, edit in EDITS.items() if word in inputs["issue"])
    return {"patch": bot.patch(*found)}
