"""What the documents say is what the product does."""

from __future__ import annotations

import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

from assay.cli.frame import load_command
from assay.cli.verbs import VERBS
from checkout import ROOT
from commands import run_code


def test_the_reference_is_what_the_code_says(tmp_path: Path) -> None:
    code = "import generate, json, sys; json.dump(generate.pages(), sys.stdout)"
    path = f"import sys; sys.path.insert(0, {str(ROOT / 'docs')!r}); "
    env = {"COLUMNS": "100"}
    done = run_code(path + code, cwd=tmp_path, env=env)
    assert done.code == 0, done.err
    for name, text in done.json().items():
        assert (ROOT / "docs" / "reference" / name).read_text() == text, (
            f"docs/reference/{name} is not what the code says; run `make docs`"
        )


def test_every_variable_of_the_environment_that_is_read_is_listed() -> None:
    from assay.cli.options import ENVIRONMENT

    text = "".join(path.read_text() for path in (ROOT / "src" / "assay").rglob("*.py"))
    read = set(re.findall(r"(?:environ|told|settings)(?:\.get\(|\[)\"([A-Z0-9_]+)\"", text)) - {
        "PATH",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD",
        "TZ",
    }  # handed on or set, not read
    read |= set(re.findall(r"_env or \"([A-Z0-9_]+)\"", text))
    assert {
        "OTEL_EXPORTER_OTLP_*" if name.startswith("OTEL_EXPORTER_OTLP_") else name for name in read
    } == set(ENVIRONMENT)


@pytest.mark.parametrize(
    "page",
    sorted(
        str(path.relative_to(ROOT)) for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    ),
)
def test_every_link_between_documents_leads_somewhere(page: str) -> None:
    """The campaign builds the site and follows the links of its pages."""
    for target, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]+))?\)", _prose(ROOT / page)):
        if "://" not in target:
            path = (ROOT / page).parent / target if target else ROOT / page
            assert path.exists(), f"{page} links to {target}, which is not there"
            assert not anchor or path.suffix != ".md" or anchor in _anchors(path), (
                f"{page} links to {target}#{anchor}, which is not there"
            )


@cache
def _prose(path: Path) -> str:
    return re.sub(r"^ *(```+).*?^ *\1 *$", "", path.read_text("utf-8"), flags=re.M | re.S)


@cache
def _anchors(path: Path) -> set[str]:
    """Those that are written, and those that the site makes of headings."""
    words = [
        re.sub(r"[^\w\s-]", "", re.sub(r"\]\([^)]*\)", "", heading)).strip().lower()
        for heading in re.findall(r"^#+ +(.*)$", _prose(path), re.M)
    ]
    return {re.sub(r"[-\s]+", "-", one) for one in words} | set(
        re.findall(r'id="([^"]+)"', _prose(path))
    )


def test_every_page_is_in_the_menu_of_the_site() -> None:
    menu = (ROOT / "mkdocs.yml").read_text("utf-8")
    for path in (ROOT / "docs").rglob("*.md"):
        assert f" {path.relative_to(ROOT / 'docs')}\n" in menu, path


def test_no_document_or_source_names_a_package_index_or_a_path_of_one_machine() -> None:
    done = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode:
        pytest.skip("not a git checkout")
    for name in filter(None, done.stdout.split("\0")):
        path = ROOT / name
        if (
            path.suffix in (".md", ".py", ".toml", ".txt", ".yaml", ".jsonl", ".lock", "")
            and path.is_file()
        ):
            text = path.read_text(errors="ignore")
            assert "pypi" + ".org" not in text, name
            assert "--index" + "-url http" not in text, name
            assert "/ro" + "ot/" not in text, name


@cache
def _options(name: str) -> set[str]:
    """What a command takes; `gate`, or `judge rubric`."""
    actions = load_command(name).parser(name)._actions
    return {"--debug", *(option for action in actions for option in action.option_strings)}


def _wrong_in(command: str) -> str:
    """The word of `assay VERB ...` that no command knows; empty if there is none."""
    verb, *words = command.split()[1:] or [""]
    if verb.startswith("-") or verb.isupper():
        return "" if verb in ("--help", "--version", "VERB", "--debug") else verb
    if verb == "help":
        return ""
    if verb not in VERBS:
        return verb
    if VERBS[verb].actions:
        if not words or not words[0][0].islower():  # the verb alone, or `ACTION`
            return ""
        if words[0] not in VERBS[verb].actions:
            return words[0]
        verb = f"{verb} {words[0]}"
    if verb == "config":  # takes another command
        return _wrong_in(f"assay {' '.join(words)}") if words else ""
    given = (word.strip("[]").partition("=")[0] for word in words)
    return next(
        (word for word in given if re.match("--?[a-z]", word) and word not in _options(verb)), ""
    )


def test_the_check_of_commands_sees_wrong_verbs_actions_and_options() -> None:
    right = ("assay", "assay grade x -o y --now=T", "assay VERB --help", "assay tools ACTION")
    assert [_wrong_in(command) for command in (*right, "assay config run --repeat 5")] == [""] * 5
    wrong = ("assay rank x", "assay report sum x", "assay grade x [--engine E]")
    assert [_wrong_in(command) for command in wrong] == ["rank", "sum", "--engine"]


def test_every_command_on_a_page_exists_with_its_options() -> None:
    """Those in sentences and in blocks that are not run; the others are run."""
    unrun = re.compile(r"<!-- not run:.*?-->\s*```\w+[^\n]*\n(.*?)```", re.S)
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        if page.name == "CHANGELOG.md" or page.parent.name == "decisions":
            continue  # about commands as they were
        found = re.findall(r"`(assay\s[^`]+)`", _prose(page))
        for block in unrun.findall(page.read_text("utf-8")):
            found += re.findall(r"^(?:\$ )?(assay\s.*)$", block.replace("\\\n", " "), re.M)
        for command in found:
            wrong = _wrong_in(re.split(r"\s(?:\|+|&&|>|;|#)\s", command)[0])
            assert not wrong, f"{page.name}: `{command}` has no '{wrong}'"
