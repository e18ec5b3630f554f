"""A canned judge: the prompt comes on standard input, a score goes to standard output as JSON.

It only looks whether the text says when to use a tool. Put your model in its place.
"""

import json
import sys

prompt = sys.stdin.read()
says_when = "Use " in prompt
reason = "says when to use it" if says_when else "does not say when to use it"
print(json.dumps({"score": 4.5 if says_when else 2.0, "reasoning": reason}))
