"""The pages of the library: grouped, the newest first, with the floors that hold, where an item
came from, and what used it.
"""

from __future__ import annotations

from pathlib import Path

from serving import serving
from test_overview import evaluated
from test_pages import HTML, show

OWN = """
profile: house
version: "{version}"
title: House rules {version}
family: house
gates: []
criteria:
  - {{id: right, label: Right, weight: 1, layer: 2, formula: likert_1_5, role: correctness, critical_floor: {{raw: 4}}}}
  - {{id: safe, label: Safe, weight: 1, layer: 2, formula: zero_one, role: safety, critical_floor: {{norm: 0.5}}}}
  - {{id: free, label: Free, weight: 1, layer: 2, formula: zero_one}}
"""


def test_own_profiles_show_their_origin_versions_floors_and_use(tmp_path: Path) -> None:
    folder = tmp_path / "library" / "profiles"
    folder.mkdir(parents=True)
    for version in ("9", "10"):
        (folder / f"house@{version}.yaml").write_text(OWN.format(version=version))
    url = f"sqlite:///{tmp_path}/ledger.db"
    with serving(url, library=str(tmp_path / "library")) as api:
        listed = api.client.get("/library", headers=HTML).text
        newest, folded = listed.index(">house@10<"), listed.index(">house@9<")
        assert newest < listed.index("1 older version</summary>") < folded
        item = show(api, "/library/profiles/house@10").text
        assert "your own, may still change" in item
        for floor in (
            "0.75 its own correctness",
            "0.8 role safety under workflow@1 safety",
            "none none",
        ):
            assert floor in item, floor
        assert "None of the last 50 evaluations was graded with it." in item
        evaluated(api, "tonight")
        for used in ("profiles/rag@1", "policies/workflow@1"):
            found = show(api, f"/library/{used}")
            assert "tonight" in found.text
            assert any(one.startswith("/evaluations/ev-") for one in found.links())
        assert "tonight" not in show(api, "/library/profiles/rag-measured@1").text
        gate = show(api, "/library/gates/answer_grounded")
        assert "From shipped" in gate.text
        assert "/library/profiles/rag@1" in gate.links()
        assert "every profile" in show(api, "/library/gates/required_outputs_present").text
        other = api.token(project="other")
        assert "tonight" not in show(api, "/library/policies/workflow@1", headers=other).text
