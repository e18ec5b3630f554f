"""The next version: it treats every verb as regular."""

import json
import sys

import tutor


def answer(prompt):
    verb = prompt.split("'")[1]
    found = tutor.answer(prompt)
    return {**found, "correction": f"{found['correction'].split()[0]} {verb}ed."}


if __name__ == "__main__":
    print(json.dumps(answer(sys.stdin.read()), ensure_ascii=False))
