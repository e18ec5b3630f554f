"""What the syntax tree of a module says without running it: its modules, its handlers, and the code
that its exported object needs.

This runs in the worker, because a parser is code that reads what strangers wrote. Blanking keeps
every line where it is, so that an error of the engine names the line of the file. What is blanked
begins with `;`: a line that ended without one must not join with the next.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from assay.families.tools.reading import effects
from assay.families.tools.reading.handlers import addresses_in, find_value, keys_of
from assay.families.tools.reading.later import changed_later
from assay.families.tools.reading.named import asked
from assay.families.tools.reading.statements import (
    NAMES,
    WRITES,
    TopStatement,
    blank_out,
    bound_names,
    corrections,
    imported_names,
    marks,
    mentions,
    specifiers,
    statement_of,
    with_mentioned,
)
from assay.families.tools.reading.tree import (
    MAX_NAME,
    NoModule,
    cursor,
    first_error,
    is_await,
    is_inside_function,
    parser,
    place,
    refuse_script_comments,
    string,
    text,
)

if TYPE_CHECKING:
    from tree_sitter import Node

_QUERY = """
(import_statement source: (string)) @import
(export_statement source: (string)) @reexport
(call_expression function: (import)) @dynamic
([(identifier) (shorthand_property_identifier)] @global
  (#match? @global "^(require|eval|Function|globalThis|global)$|\\\\\\\\"))
(member_expression property: (property_identifier) @key)
(subscript_expression index: (_) @key)
(pair_pattern key: (_) @key)
(shorthand_property_identifier_pattern) @key
(return_statement) @return
(await_expression) @await
(for_in_statement "await") @await
(meta_property) @meta
((identifier) @reserved (#any-of? @reserved "await" "arguments"))
(variable_declaration (variable_declarator name: (_) @var))
((number) @number (#match? @number "[0-9a-fA-F_]{14}"))
(object (spread_element (expression) @spread))
"""
_NAME_TYPES = ("identifier", "shorthand_property_identifier")


class Parsed:
    """A parsed module: what it exports, asks for, and needs."""

    def __init__(self, source: bytes) -> None:
        self.source = source
        tree = parser().parse(source)
        root = tree.root_node
        if root.has_error:
            raise first_error(root)
        self.exports: dict[str, str] = {}
        self.passed_on: dict[str, str] = {}
        """Names that are exported from another module, with its specifier; `*` for all of them."""
        self.imported: dict[str, str] = {}
        self.has_default = False
        self._statements: list[TopStatement] = []
        self._blank: list[tuple[int, int]] = []
        for node in root.named_children:
            self._take(node)
        captured = cursor(_QUERY).captures(root)
        misread = [node for node in captured.get("reserved", []) if is_await(node)]
        captured["await"] = [*captured.get("await", []), *misread]
        for node in captured.get("return", []):
            if not is_inside_function(node):
                raise NoModule(*place(node), "`return` is outside a function.")
        refuse_script_comments(root, source)
        self._refuse_early_errors(captured)
        self.asked = tuple(
            sorted(asked(captured), key=lambda module: (module.line or 0, module.name))
        )
        self._waits = [node for node in captured.get("await", []) if not is_inside_function(node)]
        self._dynamic = sorted(captured.get("dynamic", []), key=lambda node: node.start_byte)
        self.stand_in = next(
            name for number in range(10**5) if (name := f"_{number:05}").encode() not in source
        )
        """A name the module does not have. It stands for `import` where the module imports while it
        runs, so that asking for it is seen.
        """
        self._corrections = sorted(corrections(captured), reverse=True)
        """From the last to the first, because each moves what follows."""
        self._metas = [node for node in captured.get("meta", []) if text(node) == "import.meta"]
        self.names = mentions(root)
        self._unread = [node.start_byte for node in (*self._metas, *self._waits)]
        """Where the syntax is one that the engine cannot read."""
        self.handlers = self._handlers()

    def target(self) -> str | None:
        """The name exported as the schema: `main`, or `schema` where there is no `main`. `*` where
        another module may export a `main` through this one.
        """
        known = {**self.exports, **self.passed_on}
        return next((name for name in ("main", "*", "schema") if name in known), None)

    def program(self, target: str, *, whole: bool) -> bytes:
        """The code to evaluate: all that the engine can read but imports and handlers, or only what
        the target needs.
        """
        kept = {statement.start for statement in self._kept(target, whole=whole)}
        code = bytearray(self.source)
        for start, end in self._blank:
            blank_out(code, start, end)
        for statement in self._statements:
            if statement.start not in kept:
                blank_out(code, statement.start, statement.end)
            elif statement.strip > statement.start:
                blank_out(code, statement.start, statement.strip)
                if statement.is_default:
                    # an expression, not a block: its effects on the schema still happen
                    code[statement.start : statement.start + 3] = b";0,"
        for start in (node.start_byte for node in self._dynamic):
            if code[start : start + 6] == b"import":
                code[start : start + 6] = self.stand_in.encode()
        for start, end, needed, correct in self._corrections:
            if not code[needed : needed + 1].isspace():  # it was not blanked
                code[start:end] = correct
        return bytes(code)

    def cannot_run(self, target: str) -> tuple[int, str] | None:
        """What the code that the target needs asks for and never gets, with its line."""
        for one in self._statements:
            # Handlers are never run. Where making them runs code that can reach the schema, what
            # was read would not be what is exported.
            if (
                self._holds_handlers(one, target)
                and effects.acts(one.node)
                and self._marks_now(one.node) & self._touching(target)
            ):
                return place(one.node)[0], "code that makes its handlers and can change it"
        later = self._changed_later(target)
        if later is not None:
            return place(later)[0], "code in its handlers that changes it"
        kept = self._kept(target, whole=False) if self._waits or self._metas else []
        for nodes, what in (
            (self._waits, "`await` at the top level"),
            (self._metas, "`import.meta`"),
        ):
            for node in nodes:
                if any(statement.start <= node.start_byte < statement.end for statement in kept):
                    return place(node)[0], what
        return None

    def probes(self, target: str) -> tuple[int, str] | None:
        """What the code that the target needs has with which it can tell one engine from another,
        with its line.
        """
        nodes = [statement.node for statement in self._kept(target, whole=False)]
        return next(((place(node)[0], what) for node, what in effects.probes(nodes)), None)

    def first_line(self, name: str, target: str) -> int | None:
        """The first line that mentions a name in the code that the target needs. The engine does
        not know where a global name was read.
        """
        kept = self._kept(target, whole=False)
        if name == "import()":
            return next(
                (
                    place(node)[0]
                    for node in self._dynamic
                    if any(statement.start <= node.start_byte < statement.end for statement in kept)
                ),
                None,
            )
        for statement in kept:
            for node in sorted(
                cursor(NAMES).captures(statement.node).get("name", []),
                key=lambda node_named: node_named.start_byte,
            ):
                if text(node) == name:
                    return place(node)[0]
        return None

    def _take(self, node: Node) -> None:
        kind = node.type
        if kind in ("comment", "hash_bang_line"):
            if kind == "hash_bang_line":
                self._blank.append((node.start_byte, node.end_byte))
        elif kind == "import_statement":
            self._blank.append((node.start_byte, node.end_byte))
            specifier = string(node.child_by_field_name("source"))
            for clause in node.named_children:
                for name in imported_names(clause) if clause.type == "import_clause" else ():
                    if name in self.imported:
                        raise NoModule(*place(node), f"imports `{name[:MAX_NAME]}` a second time.")
                    self.imported[name] = specifier
        elif kind == "export_statement":
            self._take_export(node)
        else:
            self._statements.append(statement_of(node, node.start_byte, node))

    def _take_export(self, node: Node) -> None:
        source = node.child_by_field_name("source")
        clause = next(
            (
                child
                for child in node.named_children
                if child.type in ("export_clause", "namespace_export")
            ),
            None,
        )
        if source is not None:
            names = ["*"] if clause is None else [public for _, public in specifiers(clause)]
            for name in names:
                self._export(node, name, string(source), self.passed_on)
        elif clause is not None:
            for local, public in specifiers(clause):
                self._export(node, public, local, self.exports)
        if source is not None or clause is not None:
            self._blank.append((node.start_byte, node.end_byte))
            return
        is_default = any(child.type == "default" for child in node.children)
        if is_default and self.has_default:
            raise NoModule(*place(node), "exports `default` a second time.")
        self.has_default = self.has_default or is_default
        inner = node.child_by_field_name("declaration") or node.child_by_field_name("value")
        if inner is None:
            raise NoModule(*place(node), "this `export` exports nothing that can be read.")
        statement = statement_of(node, inner.start_byte, inner)
        if is_default and not statement.declares:
            statement = statement._replace(is_default=True, is_declaration=False, is_inert=False)
        elif not is_default:
            for name in statement.declares:
                self._export(node, name, name, self.exports)
        self._statements.append(statement)

    def _export(self, node: Node, name: str, local: str, among: dict[str, str]) -> None:
        if name != "*" and (name in self.exports or name in self.passed_on):
            raise NoModule(*place(node), f"exports `{name[:MAX_NAME]}` a second time.")
        among[name] = local

    def _refuse_early_errors(self, captured: dict[str, list[Node]]) -> None:
        """Raise for what no engine loads as a module, and ours would run as a script."""
        for node in captured.get("reserved", []):
            if is_await(node):
                continue
            if text(node) == "await" or not is_inside_function(node, arrows=False):
                raise NoModule(*place(node), f"`{text(node)}` is not a valid name in a module.")
        for node in captured.get("meta", []):
            if text(node) != "import.meta" and not is_inside_function(node, arrows=False):
                raise NoModule(*place(node), "`new.target` is outside a function.")
        declared = {name for statement in self._statements for name in statement.declares}
        for statement in self._statements:
            twice = statement.declares & self.imported.keys()
            if twice:
                raise NoModule(
                    *place(statement.node), f"`{min(twice)[:MAX_NAME]}` is imported and declared."
                )
        declared |= self.imported.keys() | {
            name for node in captured.get("var", []) for name in bound_names(node)
        }
        for public, local in self.exports.items():
            if local not in declared:
                raise NoModule(
                    1, 1, f"exports `{public[:MAX_NAME]}`, and declares no `{local[:MAX_NAME]}`."
                )

    def _kept(self, target: str, *, whole: bool) -> list[TopStatement]:
        candidates = [one for one in self._statements if not self._holds_handlers(one, target)]
        if whole:
            return self._readable(candidates, target)
        mentioned = {candidate.start: marks(candidate.node) for candidate in candidates}
        needed = {target}
        kept: set[int] = set()
        grew = True
        while grew:
            grew = False
            reach = self._reach(candidates, mentioned, needed)
            for candidate in candidates:
                # A statement that declares nothing may change anything, also what every object
                # inherits. A declaration that runs code may change what it mentions. Leaving either
                # out would describe an object that no engine ever exports.
                acts = not candidate.is_inert and (
                    not candidate.is_declaration or bool(mentioned[candidate.start] & reach)
                )
                if candidate.start not in kept and (acts or candidate.declares & needed):
                    kept.add(candidate.start)
                    needed |= mentioned[candidate.start]
                    grew = True
        return [candidate for candidate in candidates if candidate.start in kept]

    def _readable(self, candidates: list[TopStatement], target: str) -> list[TopStatement]:
        """All but the statements in a syntax that the engine cannot read, and those that mention
        them, where the target needs neither.
        """
        if not self._unread:
            return candidates
        kept = {statement.start for statement in self._kept(target, whole=False)}
        left_out = {
            one.start
            for one in candidates
            if one.start not in kept and any(one.start <= place < one.end for place in self._unread)
        }
        grew = True
        while grew:
            names = {name for one in candidates if one.start in left_out for name in one.declares}
            more = {
                one.start
                for one in candidates
                if one.start not in kept and not one.is_inert and mentions(one.node) & names
            } - left_out
            left_out |= more
            grew = bool(more)
        return [candidate for candidate in candidates if candidate.start not in left_out]

    def _holds_handlers(self, one: TopStatement, target: str) -> bool:
        return self.exports.get("handlers") in one.declares and target not in one.declares

    def _touching(self, target: str) -> set[str]:
        return {target} | self._reach(
            self._statements, {one.start: marks(one.node) for one in self._statements}, {target}
        )

    def _changed_later(self, target: str) -> Node | None:
        """Where the handlers, or functions that they can call, change what the schema is made
        of.
        """
        reached = self._of_handlers(target, inert=True)
        names = {target} | {
            name
            for statement in self._kept(target, whole=False)
            if not statement.is_inert
            for name in statement.declares
        }
        changes = (changed_later(one.node, names) for one in reached)
        return next((change for change in changes if change is not None), None)

    def _of_handlers(self, target: str, *, inert: bool = False) -> list[TopStatement]:
        """The statements that contain handlers and what those mention; only `inert` ones of it."""
        held = [one for one in self._statements if self._holds_handlers(one, target)]
        return with_mentioned(held, [one for one in self._statements if one.is_inert or not inert])

    def addresses(self, target: str) -> list[str]:
        """The addresses that the code of the handlers names."""
        reached = [one.node for one in self._of_handlers(target) if target not in one.declares]
        return sorted(set(addresses_in(reached)))

    def _marks_now(self, node: Node) -> frozenset[str]:
        """What evaluating a statement can touch: the bodies of its functions too where it calls
        something that may call them.
        """
        names = (
            mentions(node)
            if effects.calls(node)
            else frozenset(
                text(one) for one in effects.outside_functions(node) if one.type in _NAME_TYPES
            )
        )
        return names | {WRITES} if effects.writes_now(node) else names

    def _reach(
        self, candidates: list[TopStatement], mentioned: dict[int, frozenset[str]], needed: set[str]
    ) -> set[str]:
        """Names through which a needed value can be changed: the value's own, and those of code
        that mentions one of these.
        """
        reach = {WRITES} | {
            name for one in candidates if not one.is_inert for name in one.declares & needed
        }
        grew = True
        while grew:
            more = {
                name for one in candidates if mentioned[one.start] & reach for name in one.declares
            } - reach
            reach |= more
            grew = bool(more)
        return reach

    def _handlers(self) -> tuple[str, ...]:
        statements = [statement.node for statement in self._statements]
        value = find_value(self.exports.get("handlers", "*"), statements)
        return tuple(dict.fromkeys(keys_of(value, statements)))
