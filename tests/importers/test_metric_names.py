"""Names of metrics: where less may be better, and words that only look like it."""

from __future__ import annotations

from assay.importers.metric_names import may_be_less


def test_names_where_less_may_be_better() -> None:
    less = (
        *("toxicity", "Toxicity/v1", "Hallucination", "NoiseSensitivity", "noise sensitivity"),
        *("wer", "WER", "cer,none", "brier_score", "gender_bias", "word_perplexity", "ece_10_bin"),
        *("latency_s", "bits_per_byte", "harmfulness", "edit_distance", "loss", "error_rate"),
        *("failure_rate", "Failures", "unsafe_score", "incorrect", "pii_leakage", "self-harm"),
        *("false_positive_rate", "KL divergence", "contradiction", "response_time", "wrong"),
    )
    more = (
        *("answer", "answer_relevancy", "faithfulness", "f1", "unbiased", "certainty", "iterated"),
        *("fail_to_pass", "failsafe", "correct", "whatever", "groundedness"),
        *("passed", "exact_match,none", "Levenshtein", "harmlessness", "gloss", "precision"),
    )
    assert [name for name in less if not may_be_less(name)] == []
    assert [name for name in more if may_be_less(name)] == []
