"""The rules of tool schemas, each as data, and the checks that apply them. `validation` and
`legibility` are the doors; nothing else calls in here.
"""
