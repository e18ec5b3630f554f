"""The code blocks of the documentation run, and print what the pages show."""

from __future__ import annotations

import os
import re
import select
import shlex
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path

import duckdb
import pytest

from assay.cli.frame import load_command
from assay.cli.verbs import VERBS
from checkout import ROOT

sys.path.insert(0, str(ROOT / "docs"))
import blocks

NOT_RUN = 7
"""How many blocks the pages may leave out, each with its reason on the page: four need a checkout of
the repository and run all its tests (README.md, CONTRIBUTING.md), two need minutes of Spark, which
has its own tests, and one needs dbt.
"""
RUN = [page for page in blocks.pages() if "```" in (ROOT / page).read_text("utf-8")]
COSTLY = {
    "docs/index.md",
    "docs/how-to/batch.md",
    "docs/how-to/calibrate-a-judge.md",
    "docs/how-to/evaluations.md",
    "docs/how-to/gate-in-ci.md",
    "docs/how-to/grade-tool-schemas.md",
    "docs/how-to/install.md",
    "docs/how-to/judge.md",
    "docs/how-to/label.md",
    "docs/how-to/opentelemetry.md",
    "docs/how-to/run-langgraph-and-agent-framework.md",
    "docs/how-to/serve.md",
    "docs/how-to/view.md",
    "docs/how-to/write-a-plugin.md",
    "docs/how-to/write-a-scorer.md",
    "docs/tutorials/agent.md",
    "docs/tutorials/code-repair.md",
    "docs/tutorials/mcp-server.md",
    "docs/tutorials/noisy-bot.md",
    "docs/tutorials/rag.md",
}
"""Pages that take a second or more and show what tests of their subject prove: run `docs/blocks.py`
on them when they change.
"""


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=[pytest.mark.campaign] * (page in COSTLY)) for page in RUN],
)
def test_the_blocks_of_a_page_print_what_it_shows(tmp_path: Path, page: str) -> None:
    text = (ROOT / page).read_text("utf-8")
    tries = 2 if "<!-- varies:" in text else 1  # chance ends otherwise in about 1 of 100
    for number in range(tries):
        folder = tmp_path / str(number)
        folder.mkdir()
        with blocks.reading(folder) as reader:
            made = reader.follow(text)
            if made == text and (check := AFTERWARDS.get(page)):
                check(folder)
        if made == text:
            break
    assert made == text, f"run `python docs/blocks.py {page}`"


def test_what_chance_decides_may_differ_and_how_it_ends_may_not(tmp_path: Path) -> None:
    page = "<!-- varies: chance -->\n```console\n$ echo won 7 of 9\nwon 3 of 9\n```\n"
    with blocks.reading(tmp_path) as reader:
        assert reader.follow(page) == page
        assert reader.follow(page.replace("echo won", "echo lost")) != page
        failing = page.replace("of 9\nwon", "of 9; false\nwon")
        assert reader.follow(failing).endswith("won 7 of 9\n(exit 1)\n```\n")
        unmarked = page.partition("\n")[2]
        assert "won 7 of 9\n```" in reader.follow(unmarked)
        with pytest.raises(blocks.PageError, match="right before"):
            reader.follow(page.replace("-->\n", "-->\ntext\n"))


def _the_dbt_models_grade_as_the_batch_does(folder: Path) -> None:
    lake = duckdb.connect()
    lake.execute(f"SET file_search_path = '{folder}'")
    models = [
        lake.sql(
            (folder / f"warehouse/models/{name}.sql")
            .read_text("utf-8")
            .replace("{{ ref('batch_input') }}", "'lake/*/*.parquet'")
        )
        for name in ("grades", "rejects")
    ]
    graded = lake.read_parquet("graded/grades/*/*.parquet", hive_partitioning=False)
    assert models[0].order("run").fetchall() == graded.order("run").fetchall()
    assert not models[1].fetchall()


AFTERWARDS = {"docs/how-to/batch.md": _the_dbt_models_grade_as_the_batch_does}
"""What a page leaves in its folder and can't show."""


def _unknown(command: str) -> str:
    """What a command names and `assay` lacks: a verb, an action or an option."""
    words = shlex.split(re.split(r"[|;&<>]", command.replace("\n", " "))[0], comments=True)[1:]
    if words[:1] == ["config"] and len(words) > 1:
        words = words[1:]  # the options are those of the command that it is about
    if not words or words[0] in ("VERB", "help", "--help", "--version"):
        return ""
    verb = VERBS.get(words[0])
    if verb is None:
        return words[0]
    name = words[0]
    if verb.actions:
        if len(words) == 1:
            return ""
        if words[1] not in verb.actions:
            return words[1]
        name = f"{words[0]} {words[1]}"
    options = [word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)]
    return next((option for option in options if option not in _options(name)), "")


@cache
def _options(name: str) -> frozenset[str]:
    return frozenset(load_command(name).parser(name)._option_string_actions)


def test_a_command_that_assay_lacks_is_noticed() -> None:
    wrong = {"assay grad x": "grad", "assay judge panel2": "panel2", "assay grade x --or 1": "--or"}
    assert {command: _unknown(command) for command in wrong} == wrong


def test_every_command_in_the_text_of_a_page_exists() -> None:
    unknown = []
    for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]:
        if path.name == "CHANGELOG.md":
            continue  # it names what was there before
        text = path.read_text("utf-8")
        prose = blocks.ITEM.sub("", text)
        typed = re.findall(r"^ *(?:\$ )?(assay .*?)\\?$", text, re.MULTILINE)
        for command in [*re.findall(r"`(assay [^`]+)`", prose), *typed]:
            with suppress(ValueError):  # quotes that go on in the next line
                if wrong := _unknown(command):
                    unknown.append(f"{path.relative_to(ROOT)}: {command!r} ({wrong})")
    assert not unknown, "\n".join(unknown)


def test_few_blocks_are_left_out() -> None:
    listed = [
        f"{page}:{block.line}: {block.reason}"
        for page in RUN
        for block in blocks.skipped((ROOT / page).read_text("utf-8"))
    ]
    print("not run:", *listed, sep="\n")
    assert len(listed) <= NOT_RUN, "\n".join(listed)


def follow(folder: Path, text: str) -> str:
    with blocks.reading(folder) as reader:
        return reader.follow(text)


def test_output_is_written_onto_a_page_and_stays_when_it_is_right(tmp_path: Path) -> None:
    page = """
```yaml title="sub/a.yaml"
a: 1
```

1. In a list, with a folder and a variable that last:

   ```console
   $ cd sub && export WORD=x
   $ cat a.yaml; echo $WORD \\
     y; false
   ```

```sh
cat a.yaml > b.txt
```

```python
from pathlib import Path
print(Path("b.txt").read_text())
```

```python
import os
print(os.environ["WORD"])
```

```text
old
```
The end.
"""
    made = follow(tmp_path, page)
    assert "   a: 1\n   x y\n   (exit 1)\n   ```\n" in made
    assert "```text\na: 1\n```\n" in made
    assert "```text\nx\n```\nThe end.\n" in made
    (again := tmp_path / "again").mkdir()
    assert follow(again, made) == made


def test_varying_and_shortened_output_stays_but_never_the_exit_code(tmp_path: Path) -> None:
    page = (
        "```console\n$ seq 5; echo The head is new; false\n1\n...\nThe head is old\n(exit 1)\n```\n"
    )
    assert follow(tmp_path, page) == page
    for wrong in (page.replace("(exit 1)\n", ""), page.replace("exit 1", "exit 2")):
        made = follow(tmp_path, wrong)
        assert (
            made
            == "```console\n$ seq 5; echo The head is new; false\n1\n2\n3\n4\n5\nThe head is new\n(exit 1)\n```\n"
        )
    open_end = "```console\n$ seq 3; false\n1\n...\n```\n"
    assert "(exit 1)" in follow(tmp_path, open_end)


def test_exceptions_need_a_reason(tmp_path: Path) -> None:
    page = """<!-- not run: it needs a cluster -->

```sh
exit 9
```
"""
    assert follow(tmp_path, page) == page
    assert blocks.skipped(page) == [blocks.Skipped(1, "it needs a cluster")]
    for wrong, why in {
        "<!-- not run: -->\n```sh\ntrue\n```\n": "reason",
        "<!-- not run: x -->\nWords.\n```sh\ntrue\n```\n": "right before",
        "```\nassay grade x\n```\n": "language",
        "```sh\necho oh; exit 3\n```\n": "oh",
        "\n\n```python\n1 +\n```\n": "line 3",
        "```console\nassay grade\n```\n": "begins with a command",
        "```json\n{1}\n```\n": "line 1",
        '```json\n{"schema": "assay.run/1"}\n```\n': "run_id",
        '```jsonl\n{"a": 1}\n{\n```\n': "line 1",
        "```yaml\nproject: x\nwrkflow: y\n```\n": "wrkflow",
        "```yaml\nprofile: p\nversion: 1\ncriteria: []\n```\n": "exit|family|criteri",
        "<!-- not run: no key -->\n```python\n1 +\n```\n": "line 2",
    }.items():
        with pytest.raises(blocks.PageError, match=why):
            follow(tmp_path, wrong)


def test_what_a_page_starts_and_imports_ends_with_it(tmp_path: Path) -> None:
    page = """```python title="my_bot_of_this_page.py"
NAME = "bot"
```

```sh
sleep 600 &
echo $! > pid
```

```python
import my_bot_of_this_page
```
"""
    assert follow(tmp_path, page) == page
    assert "my_bot_of_this_page" not in sys.modules
    with suppress(ProcessLookupError):  # it may be gone already
        process = os.pidfd_open(int((tmp_path / "pid").read_text()))
        assert select.select([process], [], [], 60)[0]
        os.close(process)
