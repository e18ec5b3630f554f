"""A canned judge: it reads a prompt from standard input and writes a score as JSON.

It only checks whether the text says when to use a tool. Replace it with your model.
"""

import json
import sys

prompt = sys.stdin.read()
says_when = "Use " in prompt
reason = "says when to use it" if says_when else "does not say when to use it"
print(json.dumps({"score": 4.5 if says_when else 2.0, "reasoning": reason}))
