"""The rules of tool schemas, each as data, and the checks that apply them. Only `validation` and
`legibility` call these modules.
"""
