"""A tutor: it reads a prompt from standard input and writes its answer as JSON.

It uses no model, so it runs anywhere: its answers are fixed. Replace them with a call to your model.
"""

import json
import sys

ANSWERS = {
    "go": ("She went.", "fue"),
    "eat": ("We ate.", "comimos"),
    "write": ("I have written.", "he escrito"),
    "see": ("They will see.", "verán"),
    "come": ("He comes.", "viene"),
    "take": ("You took.", "tomaste"),
    "speak": ("She has spoken.", "ha hablado"),
    "buy": ("I will buy.", "compraré"),
}


def answer(prompt):
    verb = prompt.split("'")[1]
    correction, gloss = ANSWERS[verb]
    return {"correction": correction, "gloss": gloss, "explanation": f"The form of '{verb}' asked for."}


if __name__ == "__main__":
    print(json.dumps(answer(sys.stdin.read()), ensure_ascii=False))
