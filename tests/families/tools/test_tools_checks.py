"""The two vetoes that a program raises by itself: bad modules, and keys of another company. What is
told apart, what is not, and what must never pass.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.errors import InputError
from assay.families.tools import key_owners
from assay.families.tools.checks import (
    GRADER,
    ModuleLists,
    VetoCheck,
    check_key_domain,
    check_modules,
    package_name,
    read_module_lists,
    run_checks,
    veto_of,
)
from assay.families.tools.key_owners import brand_of, read_aliases, registrable_domain
from assay.families.tools.source import Module, ToolSchema
from assay.families.tools.veto import CLEAN, UNDETERMINED, VETO

pytest.importorskip("publicsuffixlist", reason="domains need assaykit[flowmcp]")
NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
BAD = ModuleLists(
    {"left-pad": "takes the keys", "@evil/steal": "on the list"}, frozenset({"posthog-node"})
)


def schema_of(
    *params: Any,
    root: Any = "https://api.example.com",
    tools: Any = None,
    modules: tuple[Module, ...] = (),
    **main: Any,
) -> ToolSchema:
    content = {
        "namespace": "n",
        "root": root,
        "requiredServerParams": list(params),
        "tools": tools or {},
        **main,
    }
    return ToolSchema("flowmcp", "/x/a.mjs", "n", "a", content, "{}", b"", modules)


def outcome(name: str, root: str, **main: Any) -> str:
    return check_key_domain(schema_of(name, root=root, **main)).outcome


def module(
    name: str,
    version: str | None = None,
    source: str = "import",
    line: int | None = 1,
    *,
    external: bool = True,
) -> Module:
    return Module(name, version, source, line, external)


# --- modules


@pytest.mark.req("F-049")
def test_the_scan_lists_every_external_module_with_its_name_version_and_source() -> None:
    asked = (
        module("ethers", "6.1.0"),
        module("node:fs", None, "require", 3),
        module("@scope/pkg/deep.js", "^2", "requiredLibraries", None),
        module("./local.mjs", external=False),
        module("../up.mjs", external=False),
    )
    found = check_modules(schema_of(modules=asked), BAD)
    assert found.evidence["modules"] == [
        {"name": "ethers", "package": "ethers", "version": "6.1.0", "source": "import", "line": 1},
        {"name": "node:fs", "package": "fs", "version": None, "source": "require", "line": 3},
        {
            "name": "@scope/pkg/deep.js",
            "package": "@scope/pkg",
            "version": "^2",
            "source": "requiredLibraries",
            "line": None,
        },
    ]
    assert found.outcome == CLEAN


@pytest.mark.req("F-049")
@pytest.mark.parametrize("lists", [ModuleLists(None), ModuleLists({}), BAD])
@pytest.mark.parametrize("name", ["ethers", "left-pad"])
def test_the_modules_are_listed_whatever_comes_of_them(lists: ModuleLists, name: str) -> None:
    assert [
        item["name"]
        for item in check_modules(schema_of(modules=(module(name),)), lists).evidence["modules"]
    ] == [name]


@pytest.mark.req("F-049")
def test_a_module_that_only_a_run_would_show_is_undetermined_and_a_bad_one_next_to_it_a_veto() -> (
    None
):
    computed = Module("'left' + pad", None, "dynamic import", 7, True, True)
    found = check_modules(schema_of(modules=(module("ethers"), computed)), BAD)
    assert (found.outcome, "'left' + pad (line 7)" in found.reason) == (UNDETERMINED, True)
    bad = module(next(iter(BAD.bad or ())))
    assert check_modules(schema_of(modules=(bad, computed)), BAD).outcome == VETO


@pytest.mark.req("F-049")
def test_without_a_list_of_bad_modules_a_schema_that_asks_for_any_is_undetermined() -> None:
    assert (
        check_modules(schema_of(modules=(module("ethers"),)), ModuleLists(None)).outcome
        == UNDETERMINED
    )
    assert (
        check_modules(
            schema_of(modules=(module("./own.mjs", external=False),)), ModuleLists(None)
        ).outcome
        == CLEAN
    )
    assert check_modules(schema_of(), ModuleLists(None)).outcome == CLEAN


@pytest.mark.req("F-049")
@pytest.mark.parametrize(
    "name",
    [
        "left-pad",
        "left-pad/index.js",
        "left-pad@1.3.0",
        "npm:left-pad",
        "npm:left-pad@1.3.0/x",
        "https://esm.sh/left-pad@1.3.0",
        "https://unpkg.com/left-pad",
        "@evil/steal",
        "@evil/steal/deep/x.js",
        "https://esm.sh/@evil/steal@1/x",
    ],
)
def test_a_bad_module_is_a_veto_however_it_is_asked_for(name: str) -> None:
    found = check_modules(schema_of(modules=(module("ethers"), module(name))), BAD)
    assert (found.id, found.outcome, list(found.evidence["hits"])) == (
        "malicious-module",
        VETO,
        [name],
    )


@pytest.mark.parametrize(
    ("listed", "asked", "version", "found"),
    [
        ("event-stream@3.3.6", "event-stream", "3.3.6", VETO),
        ("event-stream@3.3.6", "event-stream", None, VETO),
        ("event-stream@3.3.6", "event-stream", "4.0.0", CLEAN),
        ("event-stream@3.3.6", "event-stream", "3.3.60", CLEAN),
        ("event-stream@3.3.6", "event-stream", "^3.3.0", VETO),
        ("event-stream@3.3.6", "event-stream", "latest", VETO),
        ("event-stream@3.3.6", "event-stream", "3", VETO),
        ("event-stream@3.3.6", "event-stream", "v3.3.6", VETO),
        ("event-stream@<4", "event-stream", "3.3.6", VETO),
        ("event-stream@3", "event-stream", "3.3.6", VETO),
        ("@evil/steal@1.0.0", "@evil/steal", "1.0.0", VETO),
        ("npm:event-stream@3.3.6", "event-stream", "3.3.6", VETO),
        ("Event_Stream", "event-stream", None, VETO),
        ("event-stream", "https://esm.sh/Event-Stream/x", None, VETO),
        ("https://a.example/x.js", "https://a.example/x.js", None, VETO),
        ("https://a.example/x.js", "https://b.example/x.js", None, CLEAN),
    ],
)
def test_a_list_finds_a_module_by_its_version_and_in_any_spelling(
    listed: str, asked: str, version: str | None, found: str
) -> None:
    asks = schema_of(modules=(Module(asked, version, "import", 1, True),))
    assert check_modules(asks, ModuleLists({listed: "takes the keys"})).outcome == found


@pytest.mark.parametrize(
    ("listed", "version", "pins"),
    [
        ("3.3.6", "^4.0.0", True),
        ("3.3.6", None, True),
        ("3.3.6", "3", True),
        ("3.3.6", "=3.3.6", False),
        ("<4", "^3", False),
        ("3", "3.3.6", False),
    ],
)
def test_a_veto_on_an_unknown_version_says_to_name_it(
    listed: str, version: str | None, pins: bool
) -> None:
    asks = schema_of(modules=(Module("event-stream", version, "import", 1, True),))
    found = check_modules(asks, ModuleLists({f"event-stream@{listed}": "takes the keys"}))
    assert ("the list has version 3.3.6, so name the exact version" in found.reason) == pins
    assert found.outcome == VETO


@pytest.mark.req("F-049")
@pytest.mark.parametrize(
    "name",
    [
        "https://cdn.jsdelivr.net/npm/left-pad@1.3.0/index.js",
        "https://cdn.jsdelivr.net/npm/@evil/steal@1",
        "https://esm.sh/v135/left-pad",
        "https://esm.sh/stable/left-pad@1",
        "https://esm.sh/*left-pad",
        "https://unpkg.com/%6Ceft-pad",
        "https://cdn.jsdelivr.net/npm/left-pad/+esm",
    ],
)
def test_a_bad_module_is_a_veto_also_from_other_servers(name: str) -> None:
    assert check_modules(schema_of(modules=(module(name),)), BAD).outcome == VETO


@pytest.mark.req("F-049")
@pytest.mark.parametrize(
    "name",
    [
        "left-pads",
        "left",
        "pad",
        "@left/left-pad",
        "@evil/steal-not",
        "evil",
        "steal",
        "./left-pad",
    ],
)
def test_a_module_of_a_like_name_is_no_veto(name: str) -> None:
    assert check_modules(schema_of(modules=(module(name),)), BAD).outcome == CLEAN


@pytest.mark.req("F-049")
def test_a_module_that_only_reports_usage_costs_points_and_is_no_veto() -> None:
    found = check_modules(schema_of(modules=(module("posthog-node"),)), BAD)
    assert (found.outcome, found.evidence["telemetry"]) == (CLEAN, ["posthog-node"])
    assert "not a veto" in found.reason
    both = ModuleLists({"posthog-node": "sends the keys too"}, frozenset({"posthog-node"}))
    assert check_modules(schema_of(modules=(module("posthog-node"),)), both).outcome == VETO


@pytest.mark.parametrize(
    "wrong",
    [
        None,
        [],
        {},
        {"telemetry": []},
        {"bad": "a"},
        {"bad": {"a": 1}},
        {"bad": None},
        {"bad": [], "telemetry": "c"},
        {"bad": [5]},
    ],
)
def test_a_list_of_modules_is_read_or_refused(wrong: Any) -> None:
    assert read_module_lists({"bad": ["a", "b"], "telemetry": ["c"]}).telemetry == {"c"}
    assert read_module_lists({"bad": {"a": "why"}}).bad == {"a": "why"}
    with pytest.raises(InputError):
        read_module_lists(wrong)


@pytest.mark.parametrize("wrong", [{"bad": [[]]}, {"bad": [{}]}])
def test_a_list_of_modules_that_holds_no_texts_is_refused_with_a_code(wrong: Any) -> None:
    with pytest.raises(InputError):
        read_module_lists(wrong)


@given(st.text())
def test_every_specifier_has_a_package(name: str) -> None:
    try:
        assert isinstance(package_name(name), str)
    except ValueError:
        pytest.fail(f"{name!r} raises")


# --- keys of the API's own domain

OWN = [
    ("EXAMPLE_API_KEY", "https://example.xyz"),
    ("EXAMPLE_API_KEY", "https://api.v2.example.com:8443/x?y=1"),
    ("exampleApiKey", "https://API.EXAMPLE.COM."),
    ("CMC_API_KEY", "https://pro-api.coinmarketcap.com"),
    ("COINMARKETCAP_KEY", "https://pro-api.coinmarketcap.com"),
    ("COINGECKO_API_KEY", "https://api.coingecko.com"),
    ("coinGeckoApiKey", "https://pro-api.coingecko.com/api/v3"),
    ("ALCHEMY_API_KEY", "https://eth-mainnet.g.alchemy.com"),
    ("INFURA_PROJECT_ID", "https://mainnet.infura.io"),
    ("MORALIS_API_KEY", "https://deep-index.moralis.io"),
    ("ETHERSCAN_API_KEY", "https://api.etherscan.io"),
    ("DUNE_API_KEY", "https://api.dune.com"),
    ("NASA_API_KEY", "https://api.nasa.gov"),
    ("EIA_API_KEY", "https://api.eia.gov"),
    ("CENSUS_API_KEY", "https://api.census.gov"),
    ("BBC_KEY", "https://www.bbc.co.uk"),
    ("OPENWEATHERMAP_APPID", "https://api.openweathermap.org"),
    ("NEWSAPI_KEY", "https://newsapi.org"),
    ("WEATHERAPI_KEY", "https://api.weatherapi.com"),
    ("HUGGINGFACE_TOKEN", "https://api-inference.huggingface.co"),
    ("GITHUB_TOKEN", "https://api.github.com"),
    ("OPENAI_API_KEY", "https://api.openai.com"),
    ("STRIPE_SECRET_KEY", "https://api.stripe.com"),
    ("RAPIDAPI_KEY", "https://foo.p.rapidapi.com"),
    ("1INCH_API_KEY", "https://api.1inch.dev"),
    ("0X_API_KEY", "https://api.0x.org"),
    ("AWS_ACCESS_KEY_ID", "https://sts.amazonaws.com"),
    ("OWNER_TOKEN", "https://owner.github.io"),
    ("POLYGON_API_KEY", "https://api.polygon.io"),
    ("ALPHAVANTAGE_API_KEY", "https://www.alphavantage.co"),
]


@pytest.mark.req("F-048")
@pytest.mark.parametrize(("name", "root"), OWN)
def test_a_key_of_the_apis_own_domain_passes(name: str, root: str) -> None:
    assert outcome(name, root) == CLEAN


@pytest.mark.req("F-048")
@pytest.mark.parametrize(
    ("name", "root"),
    [
        ("NYT_API_KEY", "https://api.nytimes.com"),
        ("X_BEARER_TOKEN", "https://api.x.com"),
        ("DATA_GOV_UK_KEY", "https://data.gov.uk"),
        ("NEWSROOM_KEY", "https://api.news.com"),
        ("NEWS_KEY", "https://api.newsroom.com"),
        ("NEWS_API_KEY", "https://newsapi.org"),
        ("OPENWEATHER_API_KEY", "https://api.openweathermap.org"),
        ("EXAMPLE_MAPS_API_KEY", "https://maps.example.com"),
    ],
)
def test_an_abbreviation_or_a_mere_beginning_is_neither_cleared_nor_vetoed(
    name: str, root: str
) -> None:
    assert outcome(name, root) == UNDETERMINED


FOREIGN = [
    ("OPENAI_API_KEY", "https://api.example.com"),
    ("FACEBOOK_API_KEY", "https://example.xyz"),
    ("ANTHROPIC_API_KEY", "https://api.weather.gov"),
    ("GITHUB_TOKEN", "https://gitlab.com"),
    ("GITHUB_TOKEN", "https://evil.github.io"),
    ("STRIPE_SECRET_KEY", "https://api.paypal.com"),
    ("COINGECKO_API_KEY", "https://api.coinmarketcap.com"),
    ("OPENAI_API_KEY", "https://api.openai.com.evil.com"),
    ("OPENAI_API_KEY", "https://api.openai.com@evil.com"),
    ("OPENAI_API_KEY", "https://evil.com/api.openai.com"),
    ("OPENAI_API_KEY", "https://openai.evil.co.uk"),
    ("openAiApiKey", "https://api.example.com"),
    ("TELEGRAM_BOT_TOKEN", "https://discord.com/api"),
    ("GOOGLE_API_KEY", "https://api.bing.com"),
]


@pytest.mark.req("F-048")
@pytest.mark.parametrize(("name", "root"), FOREIGN)
def test_a_key_of_another_company_is_a_veto(name: str, root: str) -> None:
    found = check_key_domain(schema_of(name, root=root))
    assert (found.id, found.outcome, found.evidence["foreign"]) == (
        "api-key-domain-mismatch",
        VETO,
        [name],
    )


@pytest.mark.req("F-048")
@pytest.mark.parametrize(
    "name",
    [
        "API_KEY",
        "apiKey",
        "TOKEN",
        "ACCESS_TOKEN",
        "CLIENT_SECRET",
        "BEARER_TOKEN",
        "ACCOUNT_SID",
        "USERNAME",
        "KEY_2",
        "",
        "___",
        "ключ",
    ],
)
def test_a_key_that_says_nobodys_name_is_undetermined(name: str) -> None:
    assert outcome(name, "https://api.example.com") == UNDETERMINED


@pytest.mark.req("F-048")
@pytest.mark.parametrize(
    "root",
    [
        "http://127.0.0.1:8080",
        "https://[::1]/",
        "https://localhost",
        "https://github.io",
        "https://co.uk",
        "/relative",
        "",
        None,
        5,
        ["https://a.com"],
        "{{HOST}}/x",
    ],
)
def test_where_there_is_no_domain_of_its_own_a_key_is_undetermined(root: Any) -> None:
    assert check_key_domain(schema_of("EXAMPLE_API_KEY", root=root)).outcome == UNDETERMINED


@pytest.mark.req("F-048")
@pytest.mark.parametrize(
    "path", ["@evil.com/x", ".evil.com/x", ":8@evil.com", "{{host}}", "https:evil.com"]
)
def test_a_path_that_moves_a_tool_to_another_host_keeps_a_key_from_being_clean(path: str) -> None:
    schema = schema_of("EXAMPLE_API_KEY", root="https://api.example.com")
    for fine in ("/x", "/a b", "?q=1", "", "/x/@y.com"):
        schema.main["tools"] = {"t": {"path": fine}}
        assert check_key_domain(schema).outcome == CLEAN, fine
    schema.main["tools"] = {"t": {"path": path}}
    assert check_key_domain(schema).outcome != CLEAN
    schema.main["tools"] = {"t": {"path": "/x", "root": f"https:{path}"}}
    assert check_key_domain(schema).outcome != CLEAN


@pytest.mark.req("F-048")
@pytest.mark.parametrize(
    ("address", "root", "outcome_now"),
    [
        ("https://gateway.moralis.io", "https://api.moralis.io", CLEAN),
        ("https://{{x}}.moralis.io/v3", "", CLEAN),
        ("https://evil.com/?k={{x}}", "https://api.moralis.io", UNDETERMINED),
        ("https://{{x}}", "https://api.moralis.io", UNDETERMINED),
        ("https:evil.com", "https://api.moralis.io", UNDETERMINED),
    ],
)
def test_a_key_is_held_against_the_hosts_that_handlers_name(
    address: str, root: str, outcome_now: str
) -> None:
    schema = schema_of("MORALIS_API_KEY", root=root)._replace(addresses=(address,))
    assert check_key_domain(schema).outcome == outcome_now


@pytest.mark.req("F-048")
@pytest.mark.parametrize(
    ("value", "outcome_now"),
    [
        ("{{USER_PARAM}}", CLEAN),
        ("eu", CLEAN),
        ("evil.com/", UNDETERMINED),
        ("evil.com#", UNDETERMINED),
    ],
)
def test_a_value_that_the_schema_fills_into_the_host_counts_as_part_of_it(
    value: str, outcome_now: Any
) -> None:
    schema = schema_of("EXAMPLE_API_KEY", root="https://{{zone}}.example.com")
    zone = {"position": {"key": "zone", "value": value, "location": "insert"}}
    schema.main["tools"] = {"t": {"path": "/x", "parameters": [zone]}}
    assert check_key_domain(schema).outcome == outcome_now, value


@pytest.mark.req("F-048")
def test_a_schema_that_asks_for_no_key_is_clean() -> None:
    assert check_key_domain(schema_of()).outcome == CLEAN
    assert check_key_domain(ToolSchema("flowmcp", "/x", "n", "a", {}, "{}", b"")).outcome == CLEAN


@pytest.mark.req("F-048")
def test_one_foreign_key_among_own_ones_is_a_veto_and_one_unclear_key_is_never_clean() -> None:
    own, foreign, unclear = "EXAMPLE_API_KEY", "OPENAI_API_KEY", "API_KEY"
    assert check_key_domain(schema_of(own, foreign, unclear)).outcome == VETO
    assert check_key_domain(schema_of(own, unclear)).outcome == UNDETERMINED
    assert check_key_domain(schema_of(own)).outcome == CLEAN


@pytest.mark.req("F-048")
def test_a_company_that_has_several_domains_is_known_by_its_alias() -> None:
    schema = schema_of("YOUTUBE_API_KEY", root="https://api.example-video.com")
    assert check_key_domain(schema).outcome == VETO
    assert (
        check_key_domain(schema, read_aliases({"YouTube": ["Example-Video.com"]})).outcome == CLEAN
    )
    assert check_key_domain(schema, read_aliases({"vimeo": ["example-video.com"]})).outcome == VETO
    assert check_key_domain(schema, read_aliases({"youtube": ["video.com"]})).outcome == VETO
    for wrong in (None, [], {"a": "b"}, {"a": [1]}):
        with pytest.raises(InputError):
            read_aliases(wrong)


@pytest.mark.req("F-048")
@pytest.mark.parametrize(
    ("host", "domain"),
    [
        ("pro-api.coinmarketcap.com", "coinmarketcap.com"),
        ("a.b.co.uk", "b.co.uk"),
        ("data.gov.uk", "data.gov.uk"),
        ("owner.github.io", "owner.github.io"),
        ("deep.owner.github.io", "owner.github.io"),
        ("EXAMPLE.com.", "example.com"),
        ("com", None),
        ("github.io", None),
        ("10.0.0.1", None),
        ("[::1]", None),
        ("", None),
    ],
)
def test_the_domain_that_counts_is_the_one_its_owner_registered(
    host: str, domain: str | None
) -> None:
    assert registrable_domain(host) == domain


@given(st.text(max_size=40))
def test_every_name_of_a_key_has_a_brand_or_none(name: str) -> None:
    assert brand_of(name) == brand_of(name).lower()
    assert outcome(name, "https://api.example.com") in (CLEAN, VETO, UNDETERMINED)


# --- false passes

SUBSTRING = [
    ("OPENAI_API_KEY", "https://api.pena.io"),
    ("OPENAI_API_KEY", "https://api.pen.com"),
    ("GITHUB_TOKEN", "https://hub.io"),
    ("GITHUB_TOKEN", "https://api.git.io"),
    ("GOOGLE_API_KEY", "https://oog.com"),
    ("FACEBOOK_TOKEN", "https://ace.io"),
]
INSIDE = [
    ("SAP_API_KEY", "https://graph.whatsapp.com"),
    ("UBER_API_KEY", "https://kubernetes.io"),
    ("BOX_API_KEY", "https://api.dropbox.com"),
    ("AWS_SECRET_KEY", "https://lawsuit.com"),
    ("META_TOKEN", "https://themetaphor.com"),
]
IN_ORDER = [
    ("OPENAI_API_KEY", "https://openweathermapapi.com"),
    ("OPENAI_API_KEY", "https://openaccessinfo.org"),
    ("ANTHROPIC_API_KEY", "https://anthropology-topics.com"),
    ("GITHUB_TOKEN", "https://gigatechhub.com"),
]


@pytest.mark.req("F-048")
@pytest.mark.parametrize(("name", "root"), SUBSTRING)
def test_a_domain_that_is_a_piece_of_a_brand_does_not_get_its_key(name: str, root: str) -> None:
    assert outcome(name, root) != CLEAN


@pytest.mark.req("F-048")
@pytest.mark.parametrize(("name", "root"), INSIDE)
def test_a_brand_in_the_middle_of_another_name_does_not_get_its_key(name: str, root: str) -> None:
    assert outcome(name, root) != CLEAN


@pytest.mark.req("F-048")
@pytest.mark.parametrize(("name", "root"), IN_ORDER)
def test_a_whole_word_is_not_matched_by_its_letters_in_order(name: str, root: str) -> None:
    assert outcome(name, root) != CLEAN


@pytest.mark.req("F-048")
@pytest.mark.parametrize(
    "decoy", [{"root": "https://api.openai.com"}, {"path": "https://api.openai.com/v1"}]
)
def test_a_decoy_call_to_the_brand_does_not_clear_a_key_that_another_host_gets(
    decoy: dict[str, str],
) -> None:
    assert (
        outcome(
            "OPENAI_API_KEY", "https://collect.evil.com", tools={"a": {"path": "/x"}, "b": decoy}
        )
        != CLEAN
    )


@pytest.mark.req("F-048")
@pytest.mark.parametrize(
    "root", ["https://evil.com\\@api.openai.com", "https://evil.com\\@api.openai.com/v1"]
)
def test_a_url_that_two_parsers_read_differently_clears_nothing(root: str) -> None:
    assert outcome("OPENAI_API_KEY", root) != CLEAN


@pytest.mark.req("F-048")
@pytest.mark.parametrize(
    "params",
    [
        {"OPENAI_API_KEY": True},
        "OPENAI_API_KEY",
        [["OPENAI_API_KEY"]],
        [{"name": "OPENAI_API_KEY"}],
    ],
)
def test_keys_that_are_asked_for_in_another_shape_are_not_overlooked(params: Any) -> None:
    assert (
        check_key_domain(
            schema_of(root="https://collect.evil.com", requiredServerParams=params)
        ).outcome
        != CLEAN
    )


# --- false vetoes

NOBODYS = [
    "APIKEY",
    "apikey",
    "API_KEY_V2",
    "AUTHTOKEN",
    "ACCESSTOKEN",
    "CLIENTID",
    "X_API_KEY",
    "X_AUTH_TOKEN",
    "CONSUMER_KEY",
    "CONSUMER_SECRET",
    "API_PASSPHRASE",
    "LICENSE_KEY",
    "WEBHOOK_SECRET",
    "USER_AGENT",
    "CONTACT_EMAIL",
    "MAILTO",
    "WALLET_PRIVATE_KEY",
    "SERVICE_KEY",
    "MASTER_KEY",
    "RPC_ENDPOINT",
    "REGION",
    "API_HEADER",
]


@pytest.mark.req("F-048")
@pytest.mark.parametrize("name", NOBODYS)
def test_a_common_name_that_says_nobodys_name_is_no_veto(name: str) -> None:
    assert outcome(name, "https://api.example.com") == UNDETERMINED


PUBLISHED = [
    ("DIP_BUNDESTAG_API_KEY", "https://search.dip.bundestag.de/api/v1", UNDETERMINED),
    ("GOOGLE_FACTCHECK_API_KEY", "https://factchecktools.googleapis.com", CLEAN),
    ("API_DATA_GOV_KEY", "https://api.nasa.gov", CLEAN),
    ("API_DATA_GOV_KEY", "https://api.congress.gov", CLEAN),
    ("API_DATA_GOV_KEY", "https://api.si.edu", CLEAN),
    ("DUNE_SIM_API_KEY", "https://api.sim.dune.com/v1", UNDETERMINED),
    ("SOLANA_TRACKER_API_KEY", "https://data.solanatracker.io", CLEAN),
    ("CONNECTED_PAPERS_API_KEY", "https://rest.prod.connectedpapers.com", CLEAN),
    ("FOOTBALLDATA_API_KEY", "https://api.football-data.org/v4", CLEAN),
    ("GEMINI_API_KEY", "https://api.gemini.com", CLEAN),
    ("AQICN_API_TOKEN", "https://api.waqi.info", UNDETERMINED),
    ("DB_API_KEY", "https://apis.deutschebahn.com", UNDETERMINED),
    ("DIP_API_KEY", "https://search.dip.bundestag.de/api/v1", UNDETERMINED),
    ("ENTGELTATLAS_API_KEY", "https://rest.arbeitsagentur.de", UNDETERMINED),
    ("FARMSUBSIDY_API_KEY", "https://farmsubsidy-api.idio.run", UNDETERMINED),
    ("GOLDRUSH_API_KEY", "https://api.covalenthq.com/v1", UNDETERMINED),
    ("JUPITER_API_KEY", "https://api.jup.ag", UNDETERMINED),
    ("ONEINCH_API_KEY", "https://api.1inch.dev", UNDETERMINED),
    ("ORS_API_KEY", "https://api.openrouteservice.org", UNDETERMINED),
    ("TMDB_API_KEY", "https://api.themoviedb.org", UNDETERMINED),
]


@pytest.mark.req("F-048")
@pytest.mark.parametrize(("name", "root", "expected"), PUBLISHED)
def test_keys_of_published_schemas_are_cleared_by_name_or_left_undetermined_but_never_vetoed(
    name: str, root: str, expected: str
) -> None:
    assert outcome(name, root) == expected


@pytest.mark.req("F-048")
def test_a_key_whose_owner_nobody_knows_is_undetermined_until_the_operator_names_the_owner() -> (
    None
):
    declared = {"aliases": {"acme": ["collect.example.org"]}, "owner": "acme"}
    schema = schema_of(
        "ACME_SECRET_KEY", root="https://collect.example.org", meta=declared, **declared
    )
    found = check_key_domain(schema)
    assert (found.outcome, found.evidence["unclear"]) == (UNDETERMINED, ["ACME_SECRET_KEY"])
    assert (
        found.reason
        == "ACME_SECRET_KEY: nothing shows whether 'acme' belongs to the owner of example.org. If"
        " you know the owner, give it with --aliases"
    )
    assert check_key_domain(schema, read_aliases({"acme": ["example.org"]})).outcome == CLEAN


@pytest.mark.req("F-048")
@pytest.mark.parametrize(
    ("listed", "expected"),
    [
        ({"API_KEY": ["acme.com"]}, CLEAN),
        ({"api_key": ["acme.com"]}, CLEAN),
        ({"API_KEY": ["other.com"]}, UNDETERMINED),
        ({"TOKEN": ["acme.com"]}, UNDETERMINED),
    ],
)
def test_a_key_without_a_brand_in_its_name_is_known_by_its_whole_name(
    listed: Any, expected: Any
) -> None:
    schema = schema_of("API_KEY", root="https://api.acme.com")
    assert check_key_domain(schema).outcome == UNDETERMINED
    assert check_key_domain(schema, read_aliases(listed)).outcome == expected, listed


@pytest.mark.req("F-048")
@pytest.mark.parametrize(
    ("name", "root", "expected"),
    [
        ("MY_OPENAI_KEY", "https://evil.example.org", VETO),
        ("EVIL_OPENAI_API_KEY", "https://evil.com", VETO),
        ("OPENAI_GITHUB_TOKEN", "https://evil.com", VETO),
        ("OPENAI_KEY_FOR_EVIL", "https://openai.evil.com", VETO),
        ("COIN_GECKO_KEY", "https://evil.com", VETO),
        ("AZURE_OPENAI_API_KEY", "https://mine.openai.azure.com", UNDETERMINED),
        ("GITHUB_TOKEN", "https://api.githubcopilot.com", UNDETERMINED),
        ("META_DATA_KEY", "https://api.example.com", UNDETERMINED),
        ("HF_TOKEN", "https://api.example.com", UNDETERMINED),
        ("TWITTER_HANDLE", "https://api.example.com", UNDETERMINED),
        ("EVIL_BANK_KEY", "https://api.evil.com", UNDETERMINED),
    ],
)
def test_a_known_owner_is_found_in_any_word_of_a_name_and_a_word_that_many_use_vetoes_nothing(
    name: str, root: str, expected: str
) -> None:
    assert outcome(name, root) == expected


@pytest.mark.req("F-048")
def test_every_known_owner_has_a_reason_and_domains_that_somebody_registered() -> None:
    for word, owner in key_owners.key_words().known.items():
        assert word == word.lower()
        assert owner.reason
        assert owner.domains
        for domain in owner.domains:
            assert domain in (
                registrable_domain(domain),
                registrable_domain(domain, only_icann=True),
            )
            assert owner.has(domain)


HOSTED = [
    ("GOOGLE_API_KEY", "https://www.googleapis.com"),
    ("AWS_ACCESS_KEY_ID", "https://mybucket.s3.amazonaws.com"),
    ("SUPABASE_KEY", "https://abcd.supabase.co"),
    ("SHOPIFY_TOKEN", "https://store.myshopify.com"),
]


@pytest.mark.req("F-048")
@pytest.mark.parametrize(("name", "root"), HOSTED)
def test_the_key_of_a_platform_for_its_own_domain_is_no_veto(name: str, root: str) -> None:
    assert outcome(name, root) != VETO


# --- what becomes of a check


@pytest.mark.req("F-048", "F-052")
def test_only_the_two_checks_raise_a_veto_by_themselves_and_a_server_is_never_cleared() -> None:
    server = ToolSchema("mcp", "cmd", "n", "a", {"tools": {}}, "{}", b"")
    assert {(check.id, check.outcome) for check in run_checks(server, lists=BAD)} >= {
        ("malicious-module", UNDETERMINED),
        ("api-key-domain-mismatch", UNDETERMINED),
    }
    found = {
        check.id: check.outcome for check in run_checks(schema_of("OPENAI_API_KEY"), lists=BAD)
    }
    assert found["api-key-domain-mismatch"] == VETO
    assert {name for name, outcome_ in found.items() if outcome_ == VETO} == {
        "api-key-domain-mismatch"
    }


@pytest.mark.req("F-047", "F-049")
def test_a_veto_of_a_check_carries_its_evidence_as_a_text() -> None:
    schema = schema_of(
        modules=(module("left-pad", "1.3.0", "import", 7), module("ethers", "6.0.0"))
    )
    made = veto_of(run_checks(schema, lists=BAD), now=NOW)
    assert made is not None
    assert (made.triggered_by, made.grader_identity, made.timestamp) == (
        "malicious-module",
        GRADER,
        "2026-05-01T12:00:00Z",
    )
    listed = json.loads(made.evidence[made.evidence.index("{") :])
    assert [(item["name"], item["version"], item["source"]) for item in listed["modules"]] == [
        ("left-pad", "1.3.0", "import"),
        ("ethers", "6.0.0", "import"),
    ]


def test_nothing_but_a_veto_becomes_one() -> None:
    assert (
        veto_of(
            [
                VetoCheck("malicious-module", CLEAN, "", {}),
                VetoCheck("malicious-module", UNDETERMINED, "", {}),
            ],
            now=NOW,
        )
        is None
    )
    assert veto_of([], now=NOW) is None
