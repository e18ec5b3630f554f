"""Reading tool schemas: modules as literals, hostile ones too, folders, snapshots, and the text
of ECMAScript.
"""

from __future__ import annotations

import json
import math
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("tree_sitter_javascript", reason="the extra flowmcp is not installed")
pytest.importorskip("quickjs", reason="the engine that modules are compared with")

import quickjs

from assay.errors import InputError
from assay.families.tools import ecma, module, reading
from assay.families.tools.reading import (
    Exported,
    ModuleReader,
    NoSchema,
    from_tools_list,
    read_folder,
    read_schema,
)
from assay.families.tools.source import Module, NotData
from assay.installing import install_hint
from assay.sandbox import worker
from examples import CAMPAIGN, repeats
from serving import is_running, until

SOUND = "export const main = { namespace: 'shop', tools: { ping: { path: '/' } } }\n"


@pytest.fixture(scope="module")
def reader() -> Any:
    """One process for all sound and all quick tests."""
    with ModuleReader() as made:
        yield made


@pytest.fixture(scope="module")
def hasty() -> Any:
    """One that waits for less than a second, for what the parser never gets through: it replaces
    its process when it stops one.
    """
    with ModuleReader(wall_s=0.8) as made:
        yield made


RESERVED = frozenset(
    [
        "await",
        "break",
        "case",
        "catch",
        "class",
        "const",
        "continue",
        "debugger",
        "default",
        "delete",
        "do",
        "else",
        "enum",
        "export",
        "extends",
        "false",
        "finally",
        "for",
        "function",
        "if",
        "import",
        "in",
        "instanceof",
        "new",
        "null",
        "return",
        "super",
        "switch",
        "this",
        "throw",
        "true",
        "try",
        "typeof",
        "var",
        "void",
        "while",
        "with",
        "yield",
        "let",
        "static",
        "implements",
        "interface",
        "package",
        "private",
        "protected",
        "public",
    ]
)
in_node = pytest.mark.skipif(
    shutil.which("node") is None,
    reason="node is not installed: what is read is compared with it where it is, and nothing else"
    " of the project needs it",
)


def read(reader: ModuleReader, text: str) -> Exported:
    found = reader.read(text.encode(), file="x.mjs")
    assert isinstance(found, Exported)
    return found


def refused(reader: ModuleReader, text: str | bytes) -> InputError:
    with pytest.raises(InputError) as caught:
        reader.read(text if isinstance(text, bytes) else text.encode(), file="x.mjs")
    assert caught.value.where == "x.mjs"
    assert caught.value.fix
    assert "Traceback" not in str(caught.value)
    return caught.value


def pid_of(reader: ModuleReader) -> int:
    assert reader._worker is not None
    return int(reader._worker._process.pid)


# --- what a module exports


def test_the_object_comes_out_as_plain_data_in_the_order_of_an_engine(reader: ModuleReader) -> None:
    found = read(
        reader,
        "export const main = { b: 1, 10: 'ten', 9: 'nine', a: [0.1, 1e21, -0, 9007199254740992,"
        " true, null], gone: undefined }",
    )
    assert list(found.main) == ["9", "10", "b", "a"]
    assert found.main["a"] == [
        Decimal("0.1"),
        Decimal("1e+21"),
        0,
        Decimal(9007199254740992),
        True,
        None,
    ]
    assert [type(item) for item in found.main["a"]] == [
        Decimal,
        Decimal,
        int,
        Decimal,
        bool,
        type(None),
    ]
    assert found.not_data == ()


def test_the_text_of_the_tools_is_what_an_engine_writes(reader: ModuleReader) -> None:
    found = read(
        reader,
        r"export const main = { tools: { z: { d: 'é\u2028😀\ud800\u0001\"', n: 1e-7 }, 2: {}, 1:"
        r" {} } }",
    )
    assert found.tools_text == '{"1":{},"2":{},"z":{"d":"é\u2028😀\\ud800\\u0001\\"","n":1e-7}}'
    assert found.main["tools"]["z"]["d"] == 'é\u2028😀\ud800\x01"'
    assert ecma.stringify(found.main["tools"]) == found.tools_text
    assert read(reader, "export const main = { name: 'x' }").tools_text == "{}"


@pytest.mark.parametrize(
    "text",
    [
        "export const schema = { a: 1 }",
        "const x = { a: 1 }\nexport { x as main }",
        "const x = { a: 1 }; export { x as 'main' }",
        "const main = { a: 1 };\nexport { main, main as default, main as schema }",
        "export const main = { a: 1 }\nexport default main",
        "#!/usr/bin/env node\n'use strict'\nconst a = 1\nexport const main = ({ a })",
        "const A = { a: 2 }, B = { a: 1 }; export let main = { ...A, ...B }",
        "import fs, { x } from 'fs'\nexport const main = { a: 1 }",
        "class A { constructor() { this.n = 1 }; #m = 2; get x() { return 1 } }\nexport var main = { a: 1 }",
        "export function handlers() { return {} }\nconst RE = /x/g, N = 1n; export const main = { a: 1 }",
    ],
)
def test_every_way_to_write_a_schema_as_a_literal_is_read(reader: ModuleReader, text: str) -> None:
    assert read(reader, text).main == {"a": 1}


def test_constants_texts_and_spreads_are_read(reader: ModuleReader) -> None:
    text = (
        "const ROOT = 'https://a.example', TAGS = ['a', `b`]\nconst BASE = { retries: 3, path: '/' }\n"
        "const TOOL = { ...BASE, path: `${ROOT}/v` + '1' }\n"
        "export const main = { ROOT, ['tags']: [...TAGS, 'c'], tools: { t: TOOL, u: { ...TOOL, n: +0x1F } } }"
    )
    assert read(reader, text).main == {
        "ROOT": "https://a.example",
        "tags": ["a", "b", "c"],
        "tools": {
            "t": {"retries": 3, "path": "https://a.example/v1"},
            "u": {"retries": 3, "path": "https://a.example/v1", "n": 31},
        },
    }


def test_main_comes_before_schema(reader: ModuleReader) -> None:
    found = read(reader, "export const schema = { a: 1 }\nexport const main = { a: 2 }")
    assert found.main == {"a": 2}


def test_a_byte_order_mark_and_windows_lines_change_nothing(reader: ModuleReader) -> None:
    text = "// first\r\nexport const main = {\r\n  a: `x\r\ny`\r\n}\r\n"
    found = reader.read(b"\xef\xbb\xbf" + text.encode(), file="x.mjs")
    assert found.main == {"a": "x\ny"}
    assert refused(
        reader, "// one\r\n// two\r\nexport const main = { a: nope }"
    ).message.startswith("line 3: ")


@pytest.mark.parametrize(
    "handlers",
    [
        (
            "export const handlers = ({ libraries }) => ({ get: { run: async () => { for (;;) {} }"
            " }, 'get-two': {}, [three]: {}, ...more })"
        ),
        (
            "export const handlers = () => { const a = () => { return { no: 1 } }; if (a) { return"
            " { get: {}, 'get-two': {} } } return { [three]: {}, ...more } }"
        ),
        (
            "export function handlers() { const made = { get, 'get-two': {}, [three]: {}, ...more"
            " }; return made }"
        ),
    ],
)
def test_handlers_are_listed_and_never_run(reader: ModuleReader, handlers: str) -> None:
    found = read(reader, f"export const main = {{ a: 1 }}\n{handlers}")
    assert found.handlers == ("get", "get-two", "[three]", "...more"), handlers


def test_handlers_may_be_an_object_of_functions(reader: ModuleReader) -> None:
    text = "const made = { get: {}, 'get-two'() {}, three: async () => { await x } }\n"
    found = read(reader, f"{text}export const main = {{ a: 1 }}\nexport {{ made as handlers }}")
    assert found.handlers == ("get", "get-two", "three")


def test_addresses_in_the_code_of_handlers_are_listed(reader: ModuleReader) -> None:
    found = read(
        reader,
        "const docs = 'https://docs.other'; export const main = { docs, root: 'https://a.b' }\n"
        "const hosts = ['h\\x74tps://one.x/']; const send = (key) => fetch(`https://${key}.two.x`)\n"
        "const unused = 'https://three.x' // https://four.x\n"
        "export const handlers = () => ({ run: (key, url) => [send(key), fetch('ht' + 'tps:five.x'),"
        " hosts.map((host) => fetch('https://' + host + '.six.x' + key)), url.startsWith('https://')] })",
    )
    assert found.addresses == (
        "https://one.x/",
        "https://{{x}}.six.x{{x}}",
        "https://{{x}}.two.x",
        "https:five.x",
    )
    links = "export const handlers = () => ({ postRequest: (r) => ({ at: `https://six.x/${r}` }) })"
    read_only = read(reader, f"export const main = {{}}\n{links}")
    assert read_only.addresses == ()
    for way in (
        "preRequest: (r) => r",
        "run: (r) => globalThis['fe' + r](r)",
        "a: import('axios')",
    ):
        sending = links.replace("({ post", f"({{ {way}, post")
        assert read(reader, f"export const main = {{}}\n{sending}").addresses == (
            "https://six.x/{{x}}",
        )
    long = "+".join("'/page'" for _ in range(2_000))
    text = "export const main = {}; export const handlers = () => ({ run: () => fetch('https://a.b' + %s) })"
    assert read(reader, text % long).addresses == (f"https://a.b{'/page' * 2_000}",)


def test_functions_and_undefined_are_reported_and_left_out(reader: ModuleReader) -> None:
    found = read(
        reader,
        "const help = () => 1\nexport const main = { f() {}, list: [() => 1, undefined, 1], help,"
        " 'odd key': { async *g() {} }, none: undefined, ok: 1 }",
    )
    assert found.main == {"list": [None, None, 1], "odd key": {}, "ok": 1}
    assert set(found.not_data) == {
        NotData("f", "function"),
        NotData("list[0]", "function"),
        NotData("list[1]", "undefined"),
        NotData("help", "function"),
        NotData("odd key.g", "function"),
    }


def test_odd_keys_stay_keys(reader: ModuleReader) -> None:
    found = read(
        reader,
        "const __proto__ = 1; export const main = { __proto__, constructor: 2, '': 3, 'schlüssel': 4,"
        " '😀': 5, toJSON: 6, length: 7, \\u0061b: 8, 0x10: 9 }",
    )
    assert found.main == {
        "16": 9,
        "__proto__": 1,
        "constructor": 2,
        "": 3,
        "schlüssel": 4,
        "😀": 5,
        "toJSON": 6,
        "length": 7,
        "ab": 8,
    }


# --- what is not a literal

NO_LITERALS = {
    "call": ("a: slug('x')", "`slug('x')` is a call"),
    "method": ("a: ['x'].join()", "`['x'].join()` is a call"),
    "new": ("a: new Map()", "`new Map()` is a call"),
    "tagged": ("a: String.raw`x`", "`String.raw`x`` is a call"),
    "import": ("a: import('fs')", "`import('fs')` is a call"),
    "lookup": ("a: process.env.HOME", "`process.env.HOME` is a value that is looked up"),
    "index": ("a: CONSTANTS[0]", "`CONSTANTS[0]` is a value that is looked up"),
    "meta": ("a: import.meta", "`import.meta` is a value that is looked up"),
    "clock": ("a: Date.now()", "`Date.now()` is a call"),
    "unknown name": ("a: NaN", "`NaN` is a name that no constant before it has"),
    "later name": ("LATER", "`LATER` is a name that no constant before it has"),
    "sum": ("a: 1 + 2", "`1 + 2` is a value that is computed"),
    "sum of a text and a number": ("a: 'x' + 2", "`'x' + 2` is a value that is computed"),
    "condition": ("a: true ? 1 : 2", "is a value that is computed"),
    "typeof": ("a: typeof b", "is a value that is computed"),
    "not": ("a: !0", "`!0` is a value that is computed"),
    "substitution": ("a: `${1}`", "is a text with a value that is not a constant text"),
    "spread of a text": ("...'ab'", "is a spread of something other than a constant"),
    "spread of nothing": ("...null", "is a spread of something other than a constant"),
    "spread of a call": ("...more()", "`more()` is a call"),
    "sequence": ("a: (1, 2)", "is sequence expression, which is not plain data"),
    "assignment": ("a: b = 1", "`b = 1` is an assignment"),
    "getter": ("get a() { return 1 }", "`get a() { return 1 }` is code that runs when it is read"),
    "setter": ("set a(x) {}", "is code that runs when it is read"),
    "prototype": ("__proto__: { b: 1 }", "`__proto__` gives an object properties"),
    "prototype as a text": ("'__proto__': { b: 1 }", "`__proto__` gives an object properties"),
    "prototype in escapes": ("__pr\\u006fto__: { b: 1 }", "`__proto__` gives an object properties"),
    "two keys": ("a: 1, b: 2, a: 3", "the key 'a' is there a second time"),
    "two spellings of a key": ("a: 1, '\\x61': 3", "the key 'a' is there a second time"),
    "key of a name": ("[a]: 1", "`a` is a name that no constant before it has"),
    "key of an object": ("[{}]: 1", "the key `{}` must be a text or a whole number"),
    "key of a fraction": ("1.5: 1", "the key `1.5` must be a text or a whole number"),
    "gap": ("a: [1, , 2]", "there is an empty place in a list"),
    "pattern": ("a: /(a+)+$/", "its `main` contains a regular expression"),
    "big number": ("a: 1n", "its `main` contains a number that JSON can't express"),
    "endless number": ("a: -1e999", "is a value that is computed"),
    "class": ("a: class {}", "its `main` contains a class"),
    "imported": ("a: CONNECT", "its `main` contains `CONNECT`, which comes from 'db'"),
    "markup": ("a: <b>x</b>", "is jsx element, which is not plain data"),
}


@pytest.mark.parametrize(("code", "named"), NO_LITERALS.values(), ids=NO_LITERALS)
def test_what_is_not_a_literal_is_refused_by_name(
    reader: ModuleReader, code: str, named: str
) -> None:
    text = "import { connect as CONNECT } from 'db'\nconst CONSTANTS = [1]\n"
    error = refused(reader, f"{text}export const main = {{\n  x: 1, {code} }}\nconst LATER = 1")
    assert error.code == "FMC-005"
    assert error.message.startswith("line ")
    assert named in error.message


RUNS = {
    "call": "patch()",
    "call for a constant": "const done = patch()",
    "assignment": "main.a = 2",
    "rebinding": "main = { a: 2 }",
    "deletion": "delete main.a",
    "definition": "Object.defineProperty(main, 'a', { get: () => 2 })",
    "freezing": "Object.freeze(main)",
    "pollution": "Object.prototype.b = 1",
    "lookup of a getter": "const x = trap.y",
    "key of a trap": "const x = { [trap]: 1 }",
    "text of a trap": "const x = `${trap}`",
    "sum of a trap": "const x = trap + ''",
    "destructuring": "const { y } = trap",
    "loop": "for (;;) {}",
    "block": "{ main.a = 2 }",
    "condition": "if (true) { main.a = 2 }",
    "label": "x: main.a = 2",
    "try": "try { main.a = 2 } catch {}",
    "throw": "throw null",
    "wait": "await 1",
    "loop that waits": "for await (const x of []) {}",
    "using": "using x = trap",
    "default": "export default Object.assign(main, { a: 2 })",
    "default in brackets": "export default (main.a = 2, 1)",
    "static block": "class A { static { main.a = 2 } }",
    "static field": "const A = class { static x = patch() }",
    "computed member": "class A { [patch()]() {} }",
    "parent": "class A extends patch() {}",
    "decorator": "@patch class A {}",
    "handlers": "export const handlers = (main.a = 2, () => ({}))",
    "wrapped handlers": "export const handlers = wrap(() => ({}))",
    "spread handlers": "export const handlers = { ...trap.y }",
    "after a comment of a script": "<!-- x\nmain.a = 2",
    "after the line of a comment": "//\u2028main.a = 2",
    "after a carriage return": "//\rmain.a = 2",
    "without a semicolon": "const x = 1\n(function () { main.a = 2 })()",
}


@pytest.mark.parametrize("code", RUNS.values(), ids=RUNS)
def test_code_that_runs_while_the_module_is_loaded_is_refused(
    reader: ModuleReader, code: str
) -> None:
    text = "export let main = { a: 1 }\nconst trap = { y: 1 }\nfunction patch() {}\n"
    error = refused(reader, f"{text}{code}")
    assert error.code == ("FMC-001" if code.startswith("<!--") else "FMC-005")
    assert error.message.startswith("line 4"), error.message
    with pytest.raises(NoSchema):  # what exports no schema is another file, not a broken one
        reader.read(b"module.exports = { root: true }", file="x.js")


@pytest.mark.parametrize(
    "code",
    [
        "main.a = 2",
        "main = {}",
        "main.tools.x.y = 2",
        "main['a'] = 2",
        "delete main.a",
        "main.a += 1",
        "main.a++",
        "(main.a) = 2",
        "[main.a] = [2]",
        "({ x: main.a } = { x: 2 })",
        "for (main.a of [2]) {}",
        "Object.assign(main.tools, { y: 1 })",
        "Reflect.set(main, 'a', 2)",
        "main.tags.push('x')",
        "main[key] = 2",
        "main.__proto__.a = 2",
        "main.constructor.prototype.a = 2",
        "const m = main; m.a = 2",
        "const { tools } = main; tools.x = 2",
        "alter({ main })",
        "({ main } = { main: 1 })",
        "shared.y = 2",
        "shared = 2",
        "alias.a = 2",
        "box.of.a = 2",
    ],
)
def test_code_that_gets_hold_of_an_object_of_the_schema_is_refused(
    reader: ModuleReader, code: str
) -> None:
    text = (
        "let shared = { y: 1 }\nexport let main = { a: 1, tags: [], tools: { x: shared } }\n"
        "const alias = main, box = { of: alias }\n"
    )
    for handlers in (
        f"export const handlers = () => {{ {code}; return {{}} }}",
        f"const one = {{ run: async (key) => {{ {code} }} }}",
        f"class A {{ x = () => {{ {code} }} }}",
    ):
        error = refused(reader, f"{text}{handlers}")
        assert error.code == "FMC-005"
        assert "gives code an object of its `main`" in error.message


@pytest.mark.parametrize(
    "code",
    [
        "struct.url = main.root",
        "let u = main.root + main['root']; u += '/v1'",
        "const { length } = main.tools.x.path",
        "return `${main.tools?.x.path}/${ROOT}`",
        "struct.main = 1; out.shared = { tags: [] }",
        "other.tags.push(1)",
    ],
)
def test_code_may_read_texts_and_numbers_of_the_schema(reader: ModuleReader, code: str) -> None:
    text = (
        "const ROOT = 'https://a.example', other = { tags: [] }\n"
        "export const main = { root: ROOT, tools: { x: { path: '/' } } }\n"
    )
    handlers = (
        f"export const handlers = () => ({{ get: async ({{ struct, out }}) => {{ {code} }} }})"
    )
    assert read(reader, f"{text}{handlers}").main["root"] == "https://a.example"


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("export { main } from './a.mjs'", "its `main` is `main`, which comes from './a.mjs'"),
        (
            "import { main } from './a.mjs'\nexport { main }",
            "its `main` is `main`, which comes from './a.mjs'",
        ),
        (
            "export const schema = { a: 1 }\nexport * from './main.mjs'",
            "its `main` is what `export *` passes on from './main.mjs'",
        ),
    ],
)
def test_a_schema_of_another_module_is_refused(reader: ModuleReader, text: str, named: str) -> None:
    error = refused(reader, text)
    assert error.code == "FMC-005"
    assert named in error.message


@pytest.mark.parametrize(
    ("text", "start"),
    [
        (
            "const other = { a: 2 }\nexport const main = { a: 1 }\nexport { other as main }",
            "line 3, column 1: exports `main` a second time",
        ),
        (
            "export const main = { a: 1 }\nexport { main } from './b.mjs'",
            "line 2, column 1: exports `main` a second time",
        ),
        (
            "export const main = {}\nexport default 1\nexport default 2",
            "line 3, column 1: exports `default` a second time",
        ),
        (
            "export const main = {}\nexport { nope }",
            "line 1, column 1: exports `nope`, and declares no `nope`",
        ),
        (
            "import { x } from 'fs'\nconst x = 1\nexport const main = {}",
            "line 2, column 7: declares `x` a second time",
        ),
        (
            "import { x } from 'a'\nimport { x } from 'b'\nexport const main = {}",
            "line 2, column 1: imports `x` a second time",
        ),
        (
            "const unused = 1\nconst unused = 2\nexport const main = {}",
            "line 2, column 7: declares `unused` a second time",
        ),
        ("const a\nexport const main = { a }", "line 1, column 7: `a` has no value"),
        ("export const main = {\n  a: 1 b\n}", "line 2, column "),
        ("export const main = {\n  a: 1,,\n}", "line 2, column 8: there is nothing before"),
        ("export const main = {, a: 1}", "line 1, column 22: there is nothing before"),
        ("export const main = { a: 'x }\n", "line 1, column "),
        ("export const main = { a: '\\u{110000}' }", "line 1, column 26: `\\u{110000}` is not"),
        ("export const main = { a: '\\x4' }", "line 1, column 27: not JavaScript"),
        ("export const main = { a: `\\251` }", "line 1, column 27: `\\251` is not an escape"),
        ("export const main = { a: 010 }", "line 1, column 26: 010 is not a number"),
        ("export const main = { a: 1__0 }", "line 1, column "),
        ("export const main = { a: 1 }\nreturn main", "line 2, column 1: "),
        ("let y = 1\nexport const main = { x: 1 <!--y\n}", "line 2, column "),
        (b"export const main = {\n a: '\xff' }", "line 2: is not UTF-8"),
        (b"export const main = {\n a: '\x00' }", "line 2, column 6: contains a NUL byte"),
        ("<!DOCTYPE html><html></html>", "line 1, column "),
    ],
)
def test_a_text_that_is_no_module_is_refused_with_its_line(
    reader: ModuleReader, text: str | bytes, start: str
) -> None:
    error = refused(reader, text)
    if "<!--y" in str(text):  # a sum in a module, a comment in a script
        assert "1 <!--y" in error.message
        return
    assert error.code == "FMC-001"
    assert error.message.startswith(start)


@pytest.mark.req("F-049")
@pytest.mark.parametrize("end", ["\r", "\u2028", "\u2029"])
def test_the_first_line_hides_no_code(reader: ModuleReader, end: str) -> None:
    """The parser takes all of it for a comment, and an engine only the part before this end."""
    for code in ("import 'evil'", "main.a = 2"):
        hidden = f"#!node{end}{code}\nexport let main = {{ a: 1 }}"
        assert refused(reader, hidden).message.endswith("the first line has no plain end.")
    assert read(reader, "#!node\r\nexport const main = { a: 1 }").main == {"a": 1}


def test_lines_far_down_a_long_file_are_counted_right(reader: ModuleReader) -> None:
    pad = "".join(f"// {number}\n" for number in range(1, 4000))
    assert refused(reader, f"{pad}export const main = {{\n a: 1 b }}").message.startswith(
        "line 4001, column 7: "
    )
    assert refused(reader, f"{pad}{' ' * 3000}f()\nexport const main = {{}}").message.startswith(
        "line 4000: "
    )
    asks = "".join(f"import 'm{number}'\n" for number in range(3000))
    assert [
        (module.name, module.line)
        for module in read(reader, f"{pad}{asks}export const main = {{}}").modules
    ] == [(f"m{number}", 4000 + number) for number in range(3000)]


@pytest.mark.parametrize("value", ["[]", "1", "'x'", "null", "undefined", "() => ({})", "true"])
def test_a_schema_that_is_no_object_is_refused(reader: ModuleReader, value: str) -> None:
    assert refused(reader, f"export const main = {value}").code == "FMC-002"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", ()),
        ("export default {}", ("default",)),
        ("export const list = []\nexport * as all from './a.mjs'", ("list", "all of './a.mjs'")),
    ],
)
def test_a_module_without_a_schema_says_what_it_exports(
    reader: ModuleReader, text: str, names: Any
) -> None:
    with pytest.raises(NoSchema) as error:
        reader.read(text.encode(), file="x.mjs")
    others = f", only {', '.join(names)}" if names else ""
    assert error.value.message == f"exports neither `main` nor `schema`{others}."


# --- what a module asks for


@pytest.mark.req("F-049")
def test_every_module_that_is_asked_for_is_listed_with_its_version_and_line(
    reader: ModuleReader,
) -> None:
    found = read(
        reader,
        "import fs, { a as b } from 'f\\x73'\nimport * as all from \"npm:@scope/x@1.2.3\"\nimport"
        " 'https://esm.sh/y@2/z'\nexport * from './local.mjs'\nexport { q } from"
        " '../up.mjs'\nexport const handlers = () => ({ run: async (n) => [import('child_process'),"
        " import(`net`), import('a' + n),\n  require('http'), r\\u0065quire('os'),"
        " require.resolve('dns'), process.getBuiltinModule('vm'), { require }] })\nexport const"
        " main = { requiredLibraries: ['ethers@6.1.0', { name: 'zod', version: '3' }, '@s/t', {"
        " path: 'odd' }] }",
    )
    assert found.modules == (
        Module("fs", None, "import", 1, True),
        Module("@scope/x", "1.2.3", "import", 2, True),
        Module("https://esm.sh/y/z", "2", "import", 3, True),
        Module("./local.mjs", None, "export from", 4, False),
        Module("../up.mjs", None, "export from", 5, False),
        Module("'a' + n", None, "dynamic import", 6, True, True),
        Module("child_process", None, "dynamic import", 6, True),
        Module("net", None, "dynamic import", 6, True),
        Module("dns", None, "require", 7, True),
        Module("http", None, "require", 7, True),
        Module("os", None, "require", 7, True),
        Module("require", None, "require", 7, True, True),
        Module("vm", None, "require", 7, True, True),
        Module("ethers", "6.1.0", "requiredLibraries", None, True),
        Module("zod", "3", "requiredLibraries", None, True),
        Module("@s/t", None, "requiredLibraries", None, True),
        Module('{"path":"odd"}', None, "requiredLibraries", None, True),
    )


@pytest.mark.req("F-049")
def test_a_text_that_handlers_run_as_code_can_ask_for_any_module(reader: ModuleReader) -> None:
    found = read(
        reader,
        "export const handlers = () => ({ run: (f) => [eval(f), (0, eval)('1'), new Function(f),"
        " Function('2')(), f instanceof Function, f.eval(3)] })\nexport const main = {}",
    )
    assert [module.name for module in found.modules] == ["2", "Function", "eval", "f"]
    assert all(module.computed for module in found.modules)
    # and without their names
    ways = ["globalThis.eval(f)", "window['ev\\x61l'](f)", "global.Function(f)"]
    ways += ["(()=>1).constructor(f)", "f?.constructor?.constructor(f)", "f['constructor'](f)"]
    ways += ["f.c\\u006fnstructor.call(f)", "(({ constructor: F }) => F)(f)", "globalThis[f]"]
    ways += ["(({ constructor }) => 1)(f)", "((g) => g)(globalThis)", "(0 || globalThis).eval(f)"]
    ways += [
        "(0, Function)(f)",
        "[Function][0](f)",
        "Function.bind(null, f)()",
        "Function.apply(0, f)",
    ]
    ways += ["Reflect.construct(Function, f)", "f['con' + 'structor'](f)", "f[`constructor`](f)"]
    ways += ["(({ ['constructor']: F }) => F)(f)", "((g) => g.eval(f))(global)", "{ eval }"]
    ways += ["global.global.eval(f)", "process.binding('fs')", "process.dlopen(f, '/a.node')"]
    ways += ["(({ getBuiltinModule }) => 1)(process)", "import('node:vm')", "import('module')"]
    ways += [
        "import('DATA:text/javascript,1')",
        "process.mainModule.require('fs')",
        "((m) => m.require('fs'))(process['mainModule'])",
    ]
    ways += ["f.constructor.valueOf()('1')", "f.constructor['call'](0, '1')", "process[f]('fs')"]
    ways += ["f.constructor[f](0, '1')", "f.constructor.constructor.prototype[f]('1')"]
    ways += ["module.constructor._load('fs')", "globalThis.process.binding('fs')"]
    ways += ["f[`constr${'uctor'}`]('1')"]
    ways += [
        "process['getBuiltin' + f]('fs')",
        "Function.valueOf()('1')",
        "globalThis.valueOf()[f]",
    ]
    for way in ways:
        found = read(reader, f"export const handlers = () => [{way}]\nexport const main = {{}}")
        assert any(module.computed for module in found.modules), way
    honest = "class A { constructor() { this.n = this.constructor.name } }; const t = 1"
    honest += "\nexport const handlers = (f) => [f.constructor === Object, globalThis.fetch(f),"
    honest += " typeof globalThis, f['eval'], f.redis.eval(f), { constructor: f }, globalThis['a']]"
    honest += "\nexport const other = (f) => [typeof require, f instanceof Function, f.binding(1),"
    honest += " Function.prototype.toString.call(f), { require: 1, eval: 2 }, f['a' + f], f[`a`],"
    honest += " f.require(f), process.env[f], process.argv, `${f}`, ['constructor'].includes(f)]"
    assert read(reader, f"{honest}\nexport const main = {{}}").modules == ()


@pytest.mark.req("F-049")
@pytest.mark.parametrize(
    "call",
    [
        "process['getBuiltinModule']('fs')",
        "process['getBuiltin' + 'Module']('fs')",
        "process[`getBuiltin${''}Module`](`${'f'}s`)",
        "module['require']('fs')",
        "require('f' + 's')",
    ],
)
def test_a_module_is_listed_however_its_door_is_spelt(reader: ModuleReader, call: str) -> None:
    found = read(reader, f"export const handlers = () => [{call}]\nexport const main = {{}}")
    assert [(module.name, module.computed) for module in found.modules] == [("fs", False)]


@pytest.mark.parametrize(
    "code",
    [
        "const found = await (await fetch(f)).json()",
        "await (async () => 1)()",
        "return await [f, f][0]",
        "return await (f).x\n  .y",
    ],
)
def test_a_handler_may_await_what_stands_in_brackets(reader: ModuleReader, code: str) -> None:
    handlers = f"export const handlers = () => ({{ run: async (f) => {{ {code} }} }})"
    assert read(reader, f"{handlers}\nexport const main = {{ a: 1 }}").main == {"a": 1}


# --- against an engine

_NAMES = st.from_regex(r"[a-z_$][a-z0-9_$]{0,5}", fullmatch=True).filter(
    lambda name: name not in RESERVED
)
_TEXT = st.text(st.sampled_from("aé😀\u2028\u2029\n\r\t'\"`\\${}/*<!-->\ud800"), max_size=8)


def _escaped(text: str, quote: str) -> str:
    """A literal of a text, with the escapes that JavaScript needs and some that it does not."""
    signs = {"\n": "\\n", "\r": "\\r", "\\": "\\\\", quote: f"\\{quote}", "${": "\\${", "$": "\\$"}
    return (
        quote
        + "".join(
            signs.get(sign) or (f"\\u{ord(sign):04x}" if "\ud7ff" < sign < "\ue000" else sign)
            for sign in text
        )
        + quote
    )


_SCALARS = st.one_of(
    st.builds(_escaped, _TEXT, st.sampled_from("'\"`")),
    st.sampled_from(
        [
            "true",
            "false",
            "null",
            "0",
            "-1",
            "+1",
            ".5",
            "5.",
            "0x1F",
            "0b11",
            "0o17",
            "1_000",
            "1e21",
            "1e-7",
            "1.50",
            "-0",
        ]
    ),
    st.integers(-(2**70), 2**70).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
)
LITERALS = st.recursive(
    _SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4).map(lambda items: f"[{', '.join(items)},]" if items else "[]"),
        st.dictionaries(
            st.one_of(
                _NAMES, st.integers(0, 2**40).map(str), _TEXT.map(lambda t: _escaped(t, "'"))
            ),
            inner,
            max_size=4,
        ).map(lambda one: "{ " + ", /* x */ ".join(f"{k}: {v}" for k, v in one.items()) + " }"),
        st.builds("({})".format, inner),
    ),
    max_leaves=12,
)


@pytest.mark.req("F-085")
@given(literal=LITERALS, shared=LITERALS)
def test_what_is_read_is_what_an_engine_makes_of_it(
    reader: ModuleReader, literal: str, shared: str
) -> None:
    text = (
        f"const SHARED = {shared};\nconst main = {{ tools: {literal}, SHARED, list: [SHARED] }};\n"
    )
    try:
        found = reader.read(f"{text}export {{ main }}".encode(), file="x.mjs")
    except InputError as error:
        assert "second time" in error.message  # two spellings of one key  # noqa: PT017
        return
    stated = quickjs.Context().eval(f"'use strict';{text}JSON.stringify([main, main.tools])")
    assert [ecma.stringify(found.main), found.tools_text] == [
        ecma.stringify(item) for item in ecma.parse(stated)
    ]


@in_node
def test_node_exports_what_was_read(reader: ModuleReader, tmp_path: Path) -> None:
    text = (
        "const ROOT = 'https://a.example'\nconst shared = { retries: 3, 2: 'b', 1: 'a' }\nexport"
        " const main = {\n  namespace: `coin-desk`, root: ROOT, n: [0.1, 1e21, 9007199254740993,"
        " 0xff, 1_000],\n  tools: { x: { ...shared, path: `${ROOT}/x`, run() {}, none: undefined } }"
        "\n}\nexport const handlers = () => ({ x: { run: () => process.exit(1) } })\n"
    )
    put(tmp_path, "m.mjs", text)
    code = (
        "import('./m.mjs').then((m) => process.stdout.write(JSON.stringify([JSON.stringify(m.main),"
        " JSON.stringify(m.main.tools)])))"
    )
    done = subprocess.run(
        ["node", "-e", code], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60
    )
    found = read(reader, text)
    assert [ecma.stringify(found.main), found.tools_text] == json.loads(done.stdout)


# --- limits

BOMBS = {
    "lists": ("const a0 = [1, 1, 1]", "const a{} = [a{}, a{}]", "more than 200,000 values"),
    "spreads": ("const a0 = [1, 1, 1]", "const a{} = [...a{}, ...a{}]", "more than 200,000 values"),
    "objects": (
        "const a0 = { x: 1 }",
        "const a{} = {{ l: a{}, r: a{} }}",
        "more than 200,000 values",
    ),
    "texts": ("const a0 = 'xxxx'", "const a{} = a{} + a{}", "more than 8 Mi characters of text"),
    "templates": (
        "const a0 = 'xxxx'",
        "const a{} = `${{a{}}}${{a{}}}`",
        "more than 8 Mi characters",
    ),
}


@pytest.mark.parametrize(("first", "next_one", "what"), BOMBS.values(), ids=BOMBS)
def test_constants_that_double_each_other_are_refused(
    reader: ModuleReader, first: str, next_one: str, what: str
) -> None:
    lines = [first, *(next_one.format(n, n - 1, n - 1) for n in range(1, 64))]
    error = refused(reader, "\n".join([*lines, "export const main = { a: a63 }"]))
    assert error.code == "FMC-004"
    assert what in error.message


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("export const main = { a: " + "[" * 101 + "]" * 101 + " }", "nests more than 100 deep"),
        (
            "export const main = { a: " + "[" * 5_000 + "]" * 5_000 + " }",
            "nests more than 100 deep",
        ),
        (
            "export const main = { a: " + "(" * 5_000 + "1" + ")" * 5_000 + " }",
            "nests more than 100",
        ),
        (
            "export const main = {}\nexport const handlers = () => require("
            + "(" * 5_000
            + "'x'"
            + ")" * 5_000
            + ")",
            "nests too deep to be read",
        ),
        ("export const main = { a: [" + "1," * 200_001 + "] }", "more than 200,000 values"),
        ("export const main = { a: '" + "x" * 10 + "', b: " + "1" * 401 + " }", "more than 400"),
        (
            f"const s = '{'x' * 10**6}'\nexport const main = {{ a: [{'s,' * 50}] }}",
            "more than 8 Mi characters of text",
        ),
        (
            "const f = () => 1\nexport const main = { a: [" + "f," * 10_001 + "] }",
            "more than 10,000 places without data",
        ),
    ],
)
def test_an_object_beyond_all_measure_is_refused(
    reader: ModuleReader, text: str, what: str
) -> None:
    error = refused(reader, text)
    assert error.code == "FMC-004"
    assert what in error.message


@pytest.mark.parametrize(
    "pattern", [r"\(?id: \d", "[(?i:]", "(a+)+$", "(?:a|" * 10_000 + ")" * 10_000]
)
def test_a_pattern_in_a_handler_is_never_run(reader: ModuleReader, pattern: str) -> None:
    text = f"const RE = /{pattern}/\nexport const handlers = () => RE.test('{'a' * 60}b')"
    assert read(reader, f"{text}\nexport const main = {{}}").main == {}


def test_fifty_megabytes_are_refused_before_they_are_read(tmp_path: Path) -> None:
    path = tmp_path / "huge.mjs"
    with path.open("wb") as stream:
        stream.truncate(50 * 2**20)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(InputError) as caught:
        read_schema(str(path))
    assert caught.value.code == "FMC-004"
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20 * 1024


def test_the_largest_module_is_read_in_time(reader: ModuleReader) -> None:
    line = "{ key: 'a', value: '{{USER_PARAM}}', options: ['min(1)', 'max(20)'] },\n"
    most = min(module.MAX_NODES // 8, (reading.MAX_SOURCE - 100) // len(line))
    count = most // repeats(8, 1)
    found = read(reader, "export const main = { rows: [\n" + line * count + "] }")
    assert len(found.main["rows"]) == count


# --- the process


STUCK = b"'" * 400_000
"""What the parser needs minutes for: it tries to repair broken syntax."""


def test_a_text_that_the_parser_cannot_cope_with_is_stopped_and_the_next_one_reads(
    hasty: ModuleReader,
) -> None:
    assert refused(hasty, STUCK).code == "FMC-003"
    assert read(hasty, SOUND).main["namespace"] == "shop"


def test_the_system_stops_the_process_by_its_time_of_computing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert module.CPU_S == 6
    if not CAMPAIGN:  # as without it, only sooner
        sooner = "from assay.families.tools import module; module.CPU_S = 1"
        start = worker._START.replace("; import_module(", f"; {sooner}; import_module(")
        assert start != worker._START
        monkeypatch.setattr(worker, "_START", start)
    with ModuleReader() as reader:
        error = refused(reader, STUCK)
    assert error.code == "FMC-003"
    assert "more than 6 seconds of computing" in error.message


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")
def test_the_process_has_no_files_no_network_and_no_environment(reader: ModuleReader) -> None:
    read(reader, SOUND)
    proc = Path(f"/proc/{pid_of(reader)}")
    kinds = {os.readlink(link).split(":")[0] for link in (proc / "fd").iterdir()}
    assert kinds <= {"pipe", "/dev/null"}
    assert proc.joinpath("environ").read_bytes() == b""
    assert os.readlink(proc / "cwd") == "/"
    assert os.getsid(pid_of(reader)) == pid_of(reader)
    granted = {
        line[:25].strip(): line[26:].split()[:2]
        for line in proc.joinpath("limits").read_text().splitlines()
    }
    assert granted["Max open files"] == ["0", "0"]
    assert granted["Max file size"] == ["0", "0"]
    assert granted["Max core file size"] == ["0", "0"]
    assert granted["Max processes"] == ["0", "0"]
    assert granted["Max address space"] == [str(module.MEMORY)] * 2
    assert granted["Max cpu time"][0] != "unlimited"


def test_many_modules_share_one_process_and_nothing_else(reader: ModuleReader) -> None:
    read(reader, "const left = 1\nexport const main = {}")
    first = pid_of(reader)
    assert refused(reader, "export const main = { left }").code == "FMC-005"
    assert pid_of(reader) == first


def test_a_process_that_is_worn_out_or_was_killed_is_replaced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reading, "FILES_PER_WORKER", 2)
    seen = []
    with ModuleReader() as reader:
        for _ in range(3):
            read(reader, SOUND)
            seen.append(pid_of(reader))
        os.kill(seen[2], signal.SIGKILL)
        assert read(reader, SOUND).main["namespace"] == "shop"
        seen.append(pid_of(reader))
        os.kill(seen[3], signal.SIGSTOP)  # it never answers what it is asked now
        threading.Timer(0.05, os.kill, (seen[3], signal.SIGKILL)).start()
        assert read(reader, SOUND).main["namespace"] == "shop"
        assert len({*seen, pid_of(reader)}) == 4
        assert seen[0] == seen[1]


def test_a_module_that_kills_every_parser_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def die(self: Any, source: bytes, *, wall_s: float) -> Any:
        os.kill(self._process.pid, signal.SIGSEGV)
        raise self._death()

    monkeypatch.setattr(reading.WorkerProcess, "ask", die)
    with ModuleReader() as reader:
        error = refused(reader, SOUND)
    assert (error.code, error.message) == ("FMC-004", "ended the parser (signal SIGSEGV).")


def test_two_readers_at_once_do_not_meet(reader: ModuleReader) -> None:
    answers: list[tuple[int, int]] = []
    turns = repeats(5, 20)

    def run(own: ModuleReader, number: int) -> None:
        for turn in range(turns):
            answers.append(
                (
                    number * 100 + turn,
                    read(own, f"export const main = {{ n: {number * 100 + turn} }}").main["n"],
                )
            )

    with ModuleReader() as other:
        threads = [
            threading.Thread(target=run, args=(own, number))
            for number, own in enumerate((reader, reader, other, other))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(answers) == 4 * turns
    assert all(asked == got for asked, got in answers)


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs /proc")
@pytest.mark.parametrize("busy", [True, False])
def test_the_process_dies_with_its_parent(busy: bool) -> None:
    text = f"{STUCK[:1]!r} * {len(STUCK)}" if busy else repr(SOUND.encode())
    code = (
        "import sys, threading, time\nfrom assay.families.tools.reading import ModuleReader\nreader ="
        " ModuleReader()\nreader.read(b'export const main = {}',"
        " file='x')\nprint(reader._worker._process.pid,"
        f" flush=True)\nthreading.Thread(target=reader.read, args=({text},),"
        " kwargs={'file': 'x'}, daemon=True).start()\ntime.sleep(60)\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert parent.stdout is not None
    worker = int(parent.stdout.readline())
    time.sleep(0.3)
    assert is_running(worker)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    until(lambda: not is_running(worker))


def test_leaving_the_block_ends_the_process() -> None:
    with ModuleReader() as reader:
        read(reader, SOUND)
        pid = pid_of(reader)
    assert reader._worker is None
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.parametrize("missing", ["tree_sitter", "tree_sitter_javascript"])
def test_without_the_parser_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, missing: str
) -> None:
    # the commands of other tests share a process that runs
    monkeypatch.setattr(reading, "ModuleReader", ModuleReader)
    monkeypatch.setitem(sys.modules, missing, None)
    (tmp_path / "a.mjs").write_text(SOUND)
    for call in (lambda: read_schema(str(tmp_path / "a.mjs")), lambda: read_folder(str(tmp_path))):
        with pytest.raises(InputError) as caught:
            call()
        assert caught.value.code == "FMC-006"
        assert install_hint("flowmcp") in caught.value.fix


# --- files


def put(folder: Path, name: str, content: object) -> str:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    data = (
        content
        if isinstance(content, bytes)
        else content.encode()
        if isinstance(content, str)
        else json.dumps(content).encode()
    )
    path.write_bytes(data)
    return str(path)


def code_of(path: str) -> str:
    with pytest.raises(InputError) as caught:
        read_schema(path)
    assert caught.value.where == path
    return caught.value.code


def test_one_schema_is_the_same_as_module_json_and_yaml(tmp_path: Path) -> None:
    tree = {
        "namespace": "shop",
        "tools": {"b": {"max": 4.0, "10": 1, "2": 1e21}, "a": {"d": "é\u2028"}},
        "requiredLibraries": ["ethers@6"],
    }
    paths = [
        put(tmp_path, "items.mjs", f"export const main = {json.dumps(tree)}"),
        put(tmp_path, "items.json", tree),
        put(tmp_path, "wrapped/items.json", {"main": tree}),
        put(tmp_path, "older/items.json", {"schema": tree}),
        put(tmp_path, "items.yaml", json.dumps(tree)),
    ]
    read_ones = [read_schema(path) for path in paths]
    assert {one.tools_text for one in read_ones} == {
        '{"b":{"2":1e+21,"10":1,"max":4},"a":{"d":"é\u2028"}}'
    }
    assert all(
        one.main == read_ones[0].main and repr(one.main) == repr(read_ones[0].main)
        for one in read_ones
    )
    assert {one.schema_id for one in read_ones} == {"shop/items"}
    assert {one.modules for one in read_ones} == {
        (Module("ethers", "6", "requiredLibraries", None, True),)
    }
    for one, path in zip(read_ones, paths, strict=True):
        assert (one.kind, one.path, one.source) == ("flowmcp", path, Path(path).read_bytes())


def test_a_lone_surrogate_in_json_is_read_as_javascript_reads_it(tmp_path: Path) -> None:
    found = read_schema(
        put(tmp_path, "a.json", b'{"namespace": "n", "tools": {"a": {"d": "\\ud800", "n": 1.50}}}')
    )
    assert found.tools_text == '{"a":{"d":"\\ud800","n":1.5}}'
    assert code_of(put(tmp_path, "b.json", b'{"tools": {"a": "\\ud800", "a": 1}}')) == "FIL-003"


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b'{"tools": {"a": 1,}}', "FIL-002"),
        (b'{"tools": {"a": 1, "a": 2}}', "FIL-003"),
        (b"", "FIL-005"),
        (b"\xff\xfe{}", "FIL-002"),
        (b'{"tools": {"a": NaN}}', "FIL-002"),
        (b'{"tools": {"a": 1e999}}', "FIL-002"),
        (b'{"tools": {"a": 1e99999999999999999999, "b": "\\ud800"}}', "FIL-002"),
        (b"[" * 300 + b"]" * 300, "FIL-004"),
        (b'{"name": "x"}', "FMC-008"),
        (b"[]", "FMC-008"),
        (b'"text"', "FMC-008"),
        (b'{"tools": "many"}', "FMC-008"),
        (b'{"tools": [1]}', "FMC-008"),
        (b"\xef\xbb\xbf{}", "FIL-002"),
    ],
)
def test_data_that_is_no_schema_is_refused(tmp_path: Path, data: bytes, code: str) -> None:
    assert code_of(put(tmp_path, "a.json", data)) == code


@pytest.mark.parametrize(
    "bad",
    [
        "",
        "../up",
        "a/b",
        ".hidden",
        "a\n",
        "ä",
        "-a",
    ],
)
def test_the_namespace_is_stated_or_that_of_the_folder(tmp_path: Path, bad: Any) -> None:
    assert read_schema(put(tmp_path, "coin-api/a.json", {"tools": {}})).schema_id == "coin-api/a"
    assert (
        read_schema(
            put(tmp_path, "coin-api/b.json", {"namespace": "zvgPortal", "tools": {}})
        ).schema_id
        == "zvgPortal/b"
    )
    assert code_of(put(tmp_path, "no spaces/a.json", {"tools": {}})) == "FMC-007"
    assert code_of(put(tmp_path, "x/a.json", {"namespace": bad, "tools": {}})) == "FMC-007", bad


@pytest.mark.parametrize(
    "name",
    ["a..b.json", "-a.json", "a b.json", "ä.json", "a\n.json", "a;rm -rf.json", ".json.json"],
)
def test_a_strange_file_name_is_refused(tmp_path: Path, name: str) -> None:
    assert code_of(put(tmp_path, name, {"namespace": "n", "tools": {}})) == "FMC-007"


def test_a_file_name_may_have_dots_and_dashes(tmp_path: Path) -> None:
    assert read_schema(put(tmp_path, "price-feeds.v2_x.MJS", SOUND)).base == "price-feeds.v2_x"


def test_what_is_no_file_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.mjs")
    (tmp_path / "loop.mjs").symlink_to(tmp_path / "loop.mjs")
    put(tmp_path, "coins.mjs", SOUND)
    for name in ("pipe.mjs", "loop.mjs", "gone.mjs", "", "a\x00b.mjs"):
        assert code_of(str(tmp_path / name) if name else str(tmp_path)) == "FIL-001"
    assert code_of(put(tmp_path, "a.txt", "x")) == "FMC-008"
    with pytest.raises(InputError, match="Did you mean"):
        read_schema(str(tmp_path / "coin.mjs"))


def test_a_named_file_may_be_a_link(tmp_path: Path) -> None:
    put(tmp_path, "real/a.mjs", SOUND)
    (tmp_path / "b.mjs").symlink_to(tmp_path / "real" / "a.mjs")
    assert read_schema(str(tmp_path / "b.mjs")).schema_id == "shop/b"


# --- MCP

ADD = {
    "name": "add",
    "description": "Adds.",
    "inputSchema": {"type": "object"},
    "annotations": {"readOnlyHint": True},
}
SUB = {"name": "sub", "inputSchema": {"type": "object"}}


@pytest.mark.parametrize(
    "shape",
    [
        {
            "tools": [ADD, SUB],
            "serverInfo": {"name": "Sums & More", "version": "2.1"},
            "instructions": "Use it.",
        },
        {
            "jsonrpc": "2.0",
            "id": 1,
            "result": {"tools": [ADD, SUB]},
            "serverInfo": {"name": "Sums & More", "version": "2.1"},
            "instructions": "Use it.",
        },
        [
            {
                "jsonrpc": "2.0",
                "id": 0,
                "result": {
                    "serverInfo": {"name": "Sums & More", "version": "2.1"},
                    "instructions": "Use it.",
                },
            },
            {"jsonrpc": "2.0", "id": 1, "result": {"tools": [ADD], "nextCursor": "p2"}},
            {"jsonrpc": "2.0", "id": 2, "result": {"tools": [SUB]}},
        ],
    ],
)
def test_every_shape_of_a_tools_list_gives_one_schema(tmp_path: Path, shape: object) -> None:
    found = read_schema(put(tmp_path, "snapshot.json", shape))
    assert (found.kind, found.schema_id) == ("mcp", "sums-more/tools")
    assert found.main == {
        "namespace": "sums-more",
        "name": "Sums & More",
        "version": "2.1",
        "description": "Use it.",
        "tools": {
            name: {key: value for key, value in tool.items() if key != "name"}
            for name, tool in (("add", ADD), ("sub", SUB))
        },
    }
    assert list(found.main) == ["namespace", "name", "version", "description", "tools"]
    assert found.tools_text.startswith('{"add":{"description":"Adds.",')


def test_a_bare_snapshot_takes_its_name_from_the_file(tmp_path: Path) -> None:
    found = read_schema(put(tmp_path, "3D_Printer.json", {"tools": [SUB]}))
    assert (
        found.namespace,
        found.main["name"],
        found.main["version"],
        found.main["description"],
    ) == ("mcp-3d-printer", "3D_Printer", "", "")


@pytest.mark.parametrize(
    "shape",
    [
        {"tools": [ADD, ADD]},
        {"tools": [{"description": "no name"}]},
        {"tools": [{"name": ""}]},
        {"tools": [{"name": 3}]},
        {"tools": [ADD], "nextCursor": "more"},
        [{"tools": [ADD]}, {"tools": {"sub": ADD}}],
        [{"result": {"tools": None}}, {"tools": [ADD]}],
        {"jsonrpc": "2.0", "id": 1, "error": {"code": -1, "message": "no"}},
    ],
)
def test_a_list_that_hides_or_doubles_a_tool_is_refused(tmp_path: Path, shape: object) -> None:
    assert code_of(put(tmp_path, "snapshot.json", shape)) == "FMC-008"


def test_a_server_needs_a_name_that_makes_a_folder() -> None:
    with pytest.raises(InputError) as caught:
        from_tools_list([], name="— —", version="", instructions=None, path="cmd", source=b"")
    assert caught.value.code == "FMC-007"


# --- folders


def test_a_folder_is_read_whole_and_nothing_is_dropped_in_silence(tmp_path: Path) -> None:
    outside = put(tmp_path, "outside/secret.mjs", SOUND)
    root = tmp_path / "root"
    put(root, "b/two.mjs", SOUND)
    put(root, "a/one.json", {"tools": {}})
    put(root, "a/server.json", {"tools": [SUB], "serverInfo": {"name": "s"}})
    put(root, "broken.mjs", "export const main = {")
    put(root, "broken.json", "{")
    put(root, "endless.mjs", "export const main = { a: Math.random() }")
    put(root, "list.mjs", "export const list = []")
    put(root, "data.json", {"rows": []})
    put(root, "a b.mjs", SOUND)
    put(root, ".hidden.mjs", SOUND)
    put(root, ".eslintrc.js", "module.exports = { root: true }")
    put(root, ".settings.json", "{ // as an editor writes it\n}")
    put(root, "README.md", "text")
    for skipped in (
        "node_modules/x.mjs",
        ".git/x.mjs",
        "_gradings/x.json",
        "package.json",
        "index.json",
        "b/scores.json",
        "tsconfig.json",
    ):
        put(root, skipped, SOUND)
    (root / "out.mjs").symlink_to(outside)
    (root / "outdir").symlink_to(tmp_path / "outside")
    (root / "round").symlink_to(root)
    (root / "self.mjs").symlink_to(root / "self.mjs")
    (root / "b" / "inside.mjs").symlink_to(root / "b" / "two.mjs")
    found = read_folder(str(root))
    assert [os.path.relpath(one.path, root) for one in found.schemas] == [
        "a/one.json",
        "a/server.json",
        "b/inside.mjs",
        "b/two.mjs",
    ]
    assert [(os.path.relpath(error.where, root), error.code) for error in found.unread] == [
        (".hidden.mjs", "FMC-007"),
        ("a b.mjs", "FMC-007"),
        ("broken.json", "FIL-002"),
        ("broken.mjs", "FMC-001"),
        ("endless.mjs", "FMC-005"),
        ("out.mjs", "FMC-009"),
        ("outdir", "FMC-009"),
        ("self.mjs", "FMC-009"),
    ]
    assert [os.path.relpath(one.path, root) for one in found.skipped] == [
        ".eslintrc.js",
        ".git",
        ".settings.json",
        "data.json",
        "list.mjs",
        "node_modules",
        "round",
    ]
    assert "only list" in found.skipped[4].reason
    assert found.skipped[5].reason == "is a folder that is not read; modules in it: 1."


def test_a_folder_without_a_schema_is_an_error(tmp_path: Path) -> None:
    put(tmp_path, "list.mjs", "export const list = []")
    for path, code in (
        (str(tmp_path), "FMC-008"),
        (str(tmp_path / "gone"), "FIL-001"),
        (str(tmp_path / "list.mjs"), "FIL-001"),
        ("a\x00b", "FIL-001"),
    ):
        with pytest.raises(InputError) as caught:
            read_folder(path)
        assert caught.value.code == code


def test_a_folder_that_is_not_one_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(6):
        put(tmp_path, f"{number}.json", {"namespace": "n", "tools": {}})
    for name in ("MAX_FILES", "MAX_ENTRIES"):
        with monkeypatch.context() as patch:
            patch.setattr(reading, name, 5)
            with pytest.raises(InputError) as caught:
                read_folder(str(tmp_path))
        assert caught.value.code == "FMC-004"
    assert len(read_folder(str(tmp_path)).schemas) == 6


# --- the text of ECMAScript

DOUBLES = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.integers(-(2**80), 2**80),
    st.builds(
        lambda m, e: float(f"{m}e{e}"), st.integers(-(10**17), 10**17), st.integers(-330, 290)
    ),
    st.sampled_from(
        [
            0.0,
            -0.0,
            5e-324,
            1.7976931348623157e308,
            1e21,
            1e-7,
            123456789012345680000,
            2**53,
            2**53 + 1,
            0.1,
            1e-6,
        ]
    ),
)
TEXTS = st.one_of(
    st.text(),
    st.text(st.characters(min_codepoint=0xD7F0, max_codepoint=0xE010)),
    st.text(st.sampled_from('"\\\b\f\n\r\t\x00\x1f\x7f\u2028\u2029😀é')),
)
KEYS = st.one_of(
    TEXTS,
    st.integers(0, 2**33).map(str),
    st.sampled_from(
        ["0", "00", "01", "-1", "4294967294", "4294967295", "1e3", "__proto__", "length"]
    ),
)
TREES = st.recursive(
    st.one_of(st.none(), st.booleans(), DOUBLES, TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=5), st.dictionaries(KEYS, inner, max_size=6)),
    max_leaves=20,
)
SORTED = """
(text) => {
  const sorted = (value) => {
    if (Array.isArray(value)) return '[' + value.map(sorted).join(',') + ']'
    if (value === null || typeof value !== 'object') return JSON.stringify(value)
    return '{' + Object.keys(value).sort().map((key) => JSON.stringify(key) + ':' + sorted(value[key])).join(',') + '}'
  }
  const value = JSON.parse(text)
  return JSON.stringify([JSON.stringify(value), sorted(value)])
}
"""


def as_pairs(value: Any) -> Any:
    """A tree whose keys and texts are one in UTF-16, as an engine would hold them."""
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    if isinstance(value, dict):
        return {as_pairs(key): as_pairs(item) for key, item in value.items()}
    return [as_pairs(item) for item in value] if isinstance(value, list) else value


@pytest.fixture(scope="module")
def script() -> Any:
    return quickjs.Context().eval(SORTED)


@pytest.mark.req("F-084")
@given(tree=TREES)
def test_canonical_and_plain_text_are_what_an_engine_writes(script: Any, tree: Any) -> None:
    tree = as_pairs(tree)
    plain, ordered = json.loads(script(json.dumps(tree)))
    assert ecma.stringify(tree) == plain
    assert ecma.canonical(tree) == ordered
    assert ecma.stringify(ecma.parse(plain)) == plain


@pytest.mark.req("F-084")
def test_a_long_number_is_the_double_next_to_it(reader: ModuleReader) -> None:
    # QuickJS gives 2.3729633944637456e+88 for the first; Node gives what is here.
    half = 23729633944637457495984820294855395998117233937572685900704226625373366425793327190245376
    numbers = f"{half}, 0x1580C0FFEE0C0FFEE00, 9_007_199_254_740_993, 0.1234567890123456789"
    found = read(reader, f"export const main = {{ tools: {{ a: [{numbers}] }} }}")
    assert (
        found.tools_text
        == '{"a":[2.372963394463746e+88,6.346549154850456e+21,9007199254740992,0.12345678901234568]}'
    )


@pytest.mark.req("F-084")
def test_the_canonical_text_is_that_of_the_specification() -> None:
    tree = {
        "b": [4.0, 1e21, 1e-7, -0.0, Decimal("0.10"), 2**53 + 1, None],
        "\U0001f600": 1,
        "\uff00": 2,
        "10": 3,
        "9": {"z": "é\u2028\ud800", "a": True},
    }
    expected = '{"10":3,"9":{"a":true,"z":"é\u2028\\ud800"},"b":[4,1e+21,1e-7,0,0.1,9007199254740992,null],"\U0001f600":1,"\uff00":2}'
    assert ecma.canonical(tree) == expected
    assert (
        ecma.canonical(['\x00\x1f\x7f"\\/\b\f\n\r\t'])
        == '["\\u0000\\u001f\x7f\\"\\\\/\\b\\f\\n\\r\\t"]'
    )
    assert ecma.canonical("\ud83d\ude00") == '"😀"'
    assert ecma.canonical(({}, [], ())) == "[{},[],[]]"


@pytest.mark.req("F-084")
@pytest.mark.parametrize(
    "value",
    [
        math.inf,
        math.nan,
        Decimal("1e400"),
        Decimal("NaN"),
        10**400,
        {1: 2},
        object(),
        b"x",
        {"\ud83d\ude00": 1, "😀": 2},
    ],
)
@pytest.mark.parametrize("write", [ecma.canonical, ecma.stringify])
def test_what_has_no_canonical_text_is_an_error(value: Any, write: Any) -> None:
    with pytest.raises(ValueError, match=r"."):
        write([value])


@pytest.mark.req("F-084")
def test_too_deep_a_tree_is_an_error_and_no_crash() -> None:
    tree: Any = 1
    for _ in range(100_000):
        tree = [tree]
    with pytest.raises(ValueError, match="deep"):
        ecma.canonical(tree)


@in_node
@pytest.mark.req("F-084")
def test_node_writes_the_same_text() -> None:
    trees = [
        {
            "b": 4.0,
            "10": [
                1e21,
                1e-7,
                -0.0,
                5e-324,
                1.7976931348623157e308,
                123456789012345680000.0,
                2**53 + 1,
            ],
            "9": None,
        },
        {
            "4294967294": 1,
            "4294967295": 2,
            "01": 3,
            "2": 4,
            "__proto__": {"x": 1},
            "é": "\u2028\ud800😀\x00\x7f",
        },
        ["\udc00\ud800", {"": ""}, 0.1 + 0.2, 1e300 * 10, [[], {}]],
    ]
    code = (
        "const f ="
        f" {SORTED}\nprocess.stdout.write(JSON.stringify(JSON.parse(require('fs').readFileSync(0,"
        " 'utf8')).map(f)))"
    )
    done = subprocess.run(
        ["node", "-e", code],
        input=json.dumps([json.dumps(tree) for tree in trees]),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    for tree, answer in zip(trees, json.loads(done.stdout), strict=True):
        assert json.loads(answer) == [ecma.stringify(tree), ecma.canonical(tree)]
