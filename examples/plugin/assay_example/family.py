"""A family: a verb, and a page of the server. Each module loads when it is used."""

from assay.plugins import Family, Verb

FAMILY = Family(
    "assay_example.family",
    "Counting words",
    verbs={"everyday": {"words": Verb("assay_example.verbs", "count the words of a file")}},
    served="assay_example.pages:SERVED",
)
