"""What the name of a metric shows: for some, lower is better, and graded as written the worst
answer would get the best grade. One list for every importer and for the guess of columns.
"""

from __future__ import annotations

import re
from functools import lru_cache

_LESS = re.compile(
    r"toxi|hallucinat|harmful|malicious|perplexity|stereotyp|latency|distance|unsafe|incorrect"
    r"|contradict|divergence|penalt"
    r"|(?:^|_)(?:bias|error|loss|risk|brier|noise_sensitivity|bits_per_byte|likelihood_diff|profan"
    r"|offensive|insult|violation|jailbreak|attack_success|misinformation)"
    r"|(?:^|_)(?:wer|cer|ter|mer|ece|ppl|mae|mse|rmse|fpr|fnr|duration|runtime|seconds|cost)(?:_|$)"
    r"|(?:^|_)(?:fail(?:ed|ures?|s|_rate)|(?:false_(?:positive|negative)|mistake|leak)s?|leakage|wrong"
    r"|hate|violence|self_harm|sexual|regret|elapsed|response_time)(?:_|$)"
)


@lru_cache(1024)
def plain_name(label: str) -> str:
    """A name in lower case, with one underscore between words.

    >>> plain_name("NoiseSensitivity (relevant)"), plain_name("wer,none")
    ('noise_sensitivity_relevant', 'wer_none')
    """
    parted = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", label)
    return re.sub(r"[^a-z0-9]+", "_", parted.lower()).strip("_")


def may_be_less(label: str) -> bool:
    """Whether a metric may be better when it is lower, judging by its name.

    >>> [may_be_less(name) for name in ("Toxicity", "wer,none", "brier_score", "answer_relevancy")]
    [True, True, True, False]
    """
    return _LESS.search(plain_name(label)) is not None
