"""`assay.yaml`, the reader: every fault at once with its line, no key in the file, no code from
elsewhere.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from assay.errors import InputError, UsageError
from assay.files.upwards import find_config
from assay.files.yaml_files import read_yaml
from assay.project.config import KEYS, Config, read_config
from assay.project.trust import part_faults, refuse_untrusted, scorer_faults
from assay.running.dataset import read_dataset
from assay.running.workflow import read_workflow

WORKFLOW = """\
workflow:
  version: 2
  inputs: [question]
  outputs: [answer]
  adapter: {kind: python, target: "bot:answer"}
"""


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)

    def write_config(text: str, name: str = "assay.yaml") -> Config:
        Path(name).write_text(text)
        return read_config(name)

    return write_config


def faults(write: Any, text: str) -> list[tuple[int | None, str, str]]:
    with pytest.raises(InputError) as refused:
        write(text)
    assert refused.value.where == "assay.yaml"
    return [
        (one.line, one.path, f"{one.message} {one.fix}".strip()) for one in refused.value.faults
    ]


def test_a_workflow_and_a_dataset_in_the_file_are_read_like_files_of_their_own(write: Any) -> None:
    config = write(f"project: desk\n{WORKFLOW}datasets:\n  small: {{file: d/s.jsonl}}\n")
    Path("d").mkdir()
    Path("d/s.jsonl").write_text('{"id": 1, "question": "?"}\n')
    reference = config.chosen("workflow")
    assert reference == "assay.yaml#workflow"
    workflow = read_workflow(reference)
    assert (workflow.id, workflow.version) == ("desk", "2")
    assert workflow.folder == Path.cwd()
    dataset = read_dataset(config.chosen("dataset"))
    assert (dataset.id, len(dataset.samples)) == ("small", 1)
    assert dataset.version == dataset.digest.removeprefix("sha256:")[:12]


def test_a_part_of_the_file_keeps_its_lines(write: Any) -> None:
    Path("assay.yaml").write_text(WORKFLOW)
    assert read_yaml("assay.yaml#workflow").lines[("adapter",)] == 5
    with pytest.raises(InputError, match=r"there is no 'workflows.x' in this file"):
        read_yaml("assay.yaml#workflows.x")


def test_several_workflows_are_chosen_by_name_or_by_the_only_one(write: Any) -> None:
    two = "workflows:\n  a: {file: a.yaml}\n  b: b.yaml\n"
    assert write(two).chosen("workflow") is None, "nobody guesses which of two"
    assert write(two).named("workflow") == {"a": "a.yaml", "b": "b.yaml"}
    assert write(f"{two}workflow: b\n").chosen("workflow") == "b.yaml"
    assert write("workflows: {a: a.yaml}\n").chosen("workflow") == "a.yaml"
    assert write("workflow: w/a.yaml\n").chosen("workflow") == "w/a.yaml"


@pytest.mark.parametrize(
    ("text", "line", "path", "message"),
    [
        ("projekt: x\n", 1, "projekt", "unknown key 'projekt'. Did you mean 'project'?"),
        ("zzz: 1\n", 1, "zzz", f"unknown key 'zzz'. The keys are {', '.join(KEYS)}."),
        ("limits:\n  timeout: 3\n", 2, "limits.timeout", "unknown key 'timeout'. Did you mean 'timeout_s'?"),
        ("limits: {timeout_s: 0}\n", 1, "limits.timeout_s", "0 is less than or equal to"),
        ("repeats: many\n", 1, "repeats", "must be a whole number or null, not 'many'."),
        ("workflow:\n  version: 1\n  adaptor: {}\n", 3, "workflow.adaptor", "unknown key 'adaptor'. Did you mean 'adapter'?"),
        ("workflow:\n  version: 1.1\n", 2, "workflow.version", 'not 1.1. Write version: "1.1".'),
        ("workflow:\n  inputs: [q]\n", 1, "workflow", "the key 'version' is missing."),
        ("workflows: {a: {file: a.yaml, version: 1}}\n", 1, "workflows.a", "has a `file` and other keys."),
        ("workflows: {a: a.yaml}\nworkflow: bb\n", 2, "workflow", "there is no workflow 'bb' in `workflows`. Workflows: a."),
        ("dataset: {group: g}\n", 1, "dataset", "has neither a `file` nor a `table`."),
        ("judges: {a/b: j.yaml}\n", 1, "judges.a/b", "the name has a slash"),
        ("judge: main\n", 1, "judge", "'main' is not described. Add it to `judges`."),
        ("judges:\n  j: {model: m, base_url: nowhere}\n", 2, "judges.j.base_url", "is not an http or https URL."),
        ("outputs: {runs: []}\n", 1, "outputs.runs", "unknown key 'runs'. Did you mean 'run'?"),
        ("release: {min_pass_rate: 95}\n", 1, "release.min_pass_rate", "95 is greater than the maximum of 1"),
    ],
)  # fmt: skip
def test_a_fault_names_its_line_and_what_to_do(
    write: Any, text: str, line: int, path: str, message: str
) -> None:
    found = faults(write, text)
    assert len(found) == 1
    assert found[0][:2] == (line, path)
    assert message in found[0][2]


def test_a_bar_without_a_value_is_not_the_default(write: Any) -> None:
    text = "profile:\npolicy: ~\nrelease:\n  min_pass_rate:\n  tolerance: 1\n"
    assert [(line, path) for line, path, _ in faults(write, text)] == [
        (1, "profile"),
        (2, "policy"),
        (4, "release.min_pass_rate"),
    ]


def test_all_faults_are_told_at_once(write: Any) -> None:
    found = faults(write, "projekt: x\nrepeats: 0\nlimits: {retries: 99}\n")
    assert [line for line, _, _ in found] == [1, 2, 3]


def test_what_is_not_a_configuration_is_refused(write: Any) -> None:
    for text, code, message in (
        ("", "FIL-005", "the file is empty"),
        ("- a\n", "CFG-001", "must be an object"),
        ("5\n", "CFG-001", "must be an object"),
        ("~\n", "CFG-001", "must be an object"),
        ("a: [\n", "FIL-002", "not YAML"),
        ("project: a\nproject: b\n", "FIL-003", "the key 'project' appears twice"),
        ("project: &x a\n", "FIL-002", "tags and anchors are not allowed"),
        ("project: !!python/object/apply:os.system [id]\n", "FIL-002", "tags and anchors"),
    ):
        with pytest.raises(InputError) as refused:
            write(text)
        assert refused.value.code == code, text
        assert message in str(refused.value)
    Path("assay.yaml").write_bytes(b"project: \xff\n")
    with pytest.raises(InputError, match="is not UTF-8"):
        read_config("assay.yaml")
    with pytest.raises(InputError, match="nowhere"):
        read_config("nowhere/assay.yaml")
    with pytest.raises(InputError):
        read_config(".")


@pytest.mark.parametrize(
    "text",
    [
        "judges:\n  j: {model: m, api_key: sk-very-secret}\n",
        "judges:\n  j: {model: m, base_url: 'http://h/v1', token: sk-very-secret}\n",
        "judges:\n  j: {model: m, key_env: sk-very-secret, base_url: 'https://h/v1'}\n",
        "judges:\n  j: {model: m, base_url: 'https://u:sk-very-secret@h/v1'}\n",
        "ledger:\n  url: postgresql://me:sk-very-secret@db/x\n",
        "repeats: x\nworkflow:\n  adapter: {kind: http, headers: {Authorization: sk-very-secret}}\n",
    ],
)
def test_a_key_in_the_file_is_refused_and_never_printed(write: Any, text: str) -> None:
    with pytest.raises(InputError) as refused:
        write(text)
    refusal_text = f"{refused.value} {[one.as_dict() for one in refused.value.faults]}"
    assert "sk-very-secret" not in refusal_text
    assert "environment" in refusal_text


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("judges:\n  j: {model: m, base_url: 'https://u:sk@h/v1'}\n", "`key_env`"),
        ("ledger:\n  url: postgresql://me:sk@db/x\n", "PGPASSWORD"),
    ],
)
def test_the_password_of_a_url_has_a_place_where_its_owner_reads_it(
    write: Any, text: str, place: str
) -> None:
    with pytest.raises(InputError) as refused:
        write(text)
    assert place in refused.value.fix


def test_the_file_is_found_upwards_and_its_paths_go_from_it(
    write: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(f"{WORKFLOW}dataset: data/s.jsonl\n")
    assert find_config() == "assay.yaml"
    Path("a/b").mkdir(parents=True)
    monkeypatch.chdir("a/b")
    found = find_config()
    assert found == "../../assay.yaml"
    config = read_config(found)
    assert config.chosen("dataset") == "../../data/s.jsonl"
    assert config.chosen("workflow") == "../../assay.yaml#workflow"
    assert config.place("dataset") == "../../assay.yaml:6"


@pytest.mark.parametrize("name", ["assay.yml", "Assay.yaml", "Assay.yml", ".assay.yaml"])
def test_a_file_with_a_similar_name_is_not_ignored(
    write: Any, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    Path(name).write_text("project: x\n")
    with pytest.raises(UsageError, match=f"mv {name} assay.yaml"):
        find_config()
    Path("a").mkdir()
    Path("a/assay.yaml").write_text("project: y\n")
    monkeypatch.chdir("a")
    assert find_config() == "assay.yaml", "the nearest counts"
    Path("b").mkdir()
    Path("b", name).write_text("project: z\n")
    monkeypatch.chdir("b")
    with pytest.raises(UsageError, match=f"named assay.yaml, not {name}"):
        find_config()


def test_the_ci_job_of_a_project_is_not_taken_for_its_configuration(
    write: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = Path(".github", "workflows")
    jobs.mkdir(parents=True)
    Path(jobs, "assay.yml").write_text("jobs: {}\n")
    Path("assay.yaml").write_text("project: x\n")
    monkeypatch.chdir(jobs)
    assert find_config() == "../../assay.yaml"
    Path("../../assay.yaml").rename("../../assay.yml")
    with pytest.raises(UsageError, match=r"mv ../../assay.yml ../../assay.yaml"):
        find_config()


def test_a_pipe_of_that_name_is_not_waited_for(write: Any) -> None:
    os.mkfifo("assay.yaml")
    with pytest.raises(UsageError, match="is not a file"):
        find_config()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a file to another user")
def test_a_stranger_cannot_leave_a_file_above_the_working_folder(
    write: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("project: x\n")
    Path("mine").mkdir()
    monkeypatch.chdir("mine")
    os.chown("../assay.yaml", 54321, -1)
    with pytest.raises(UsageError, match="belongs to another user"):
        find_config()


def refuse_code(config: Config, workflow: str) -> None:
    refuse_untrusted(config, [*part_faults(config, "workflow", workflow), *scorer_faults(config)])


def refused_code(config: Config) -> list[str]:
    with pytest.raises(InputError) as refused:
        refuse_code(config, str(config.chosen("workflow")))
    assert refused.value.code == "CFG-002"
    assert "--trust" in refused.value.faults[0].fix
    return [one.path for one in refused.value.faults]


def test_code_outside_the_folder_is_refused(write: Any, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    os.chdir(home)
    (tmp_path / "evil.py").write_text("")
    (tmp_path / "w.yaml").write_text(
        WORKFLOW.replace("workflow:\n", "workflow: w\n").replace("\n  ", "\n")
    )
    refuse_code(write(f"{WORKFLOW}dataset: ../d.jsonl\n"), "assay.yaml#workflow")
    assert refused_code(write("workflow: ../w.yaml\n")) == ["workflow"]
    assert refused_code(write("workflows: {a: {file: ../w.yaml}}\n")) == ["workflows.a"]
    command = WORKFLOW.replace(
        'kind: python, target: "bot:answer"', "kind: command, command: [sh, ../x.sh]"
    )
    assert refused_code(write(command)) == ["workflow.adapter.command"]
    (home / "bot.py").symlink_to(tmp_path / "evil.py")
    assert refused_code(write(WORKFLOW)) == ["workflow.adapter.target"]
    (home / "bot.py").unlink()
    tree = f"{WORKFLOW}  repository: {{path: ../tree, readable: [/etc]}}\n"
    assert refused_code(write(tree)) == ["workflow.repository.path", "workflow.repository.readable"]
    (home / "mark.py").symlink_to(tmp_path / "evil.py")
    scorer = f'{WORKFLOW}scorers:\n  - target: "mark:score"\n'
    assert refused_code(write(scorer)) == ["scorers[0].target"]


def test_code_in_a_malformed_workflow_is_left_to_its_reader(write: Any) -> None:
    config = write("workflow: w.yaml\n")
    text = WORKFLOW.replace("workflow:\n", "workflow: w\n").replace("\n  ", "\n")
    for change in ("scorers: 5\n", "repository: {readable: 5}\n"):
        Path("w.yaml").write_text(text + change)
        refuse_code(config, "w.yaml")
        with pytest.raises(InputError) as refused:
            read_workflow("w.yaml")
        assert refused.value.code == "RUN-001"
    Path("w.yaml").write_text(text.replace('target: "bot:answer"', "command: 5"))
    refuse_code(config, "w.yaml")
    assert read_workflow("w.yaml").code == []
