"""The pages of docs/reference, each made from the code it describes. One module per subject; a page
is a pure function that returns its Markdown. `generate.py` writes them.
"""
