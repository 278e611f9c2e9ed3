#!/usr/bin/env python3
"""Carries out the map of the house: merges, moves and renames modules, and changes no behaviour.

usage: python scripts/house/merge.py [--check] [--laziness] [ROOT]

Reads ``scripts/house/map.toml``. With ``--check`` it only tells what stands against the map: names
that collide, circles of imports. Without, it rewrites src, tests, bench, scripts, documents and
``pyproject.toml`` in place; so start from a clean tree. Nothing is done while anything collides.

The map (module names without the leading ``lastgood.``):

    [modules]   "new.module" = ["old.a", "old.b"]   all that the old ones define, in this order
    [docs]      "new.module" = "its docstring"      else the first one's, with the rest of the others'
    [names]     "old.module:name" = "new_name"      a definition, or the local name of an import
    [sink]      "new.module" = ["other"]            imports of other move into the functions that use it
    [same]      "import a" = "from b import a"      two ways to one thing: the first goes where both stand
    [files]     "old/path" = "new/path"             any other file: moved
    [[before]]  file, old, new                      exact replacements before anything else
    [[patches]] file, old, new (, count)            exact replacements afterwards; file as it is then
                file, from, new (, to)              what begins with from, up to to or the end of the file
    [run]       commands = [[...]]                  last of all, with src on the path
"""

from __future__ import annotations

import ast
import builtins
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

PACKAGE = "lastgood"
BUILTINS = set(dir(builtins)) | {"__file__", "__name__", "__doc__"}
TYPING = "TYPE_CHECKING"


BEFORE: dict[str, list[tuple[str, str]]] = defaultdict(list)


def load(path: Path) -> str:
    """Return a file's text, with what the map replaces before anything else."""
    text = path.read_text()
    for name, replacements in BEFORE.items():
        if str(path).endswith("/" + name):
            for old, new in replacements:
                if old not in text:
                    raise SystemExit(f"[[before]] {name}: not found: {old[:60]!r}")
                text = text.replace(old, new)
    return text


class Scope:
    def __init__(self, kind: str, parent: Scope | None, node: ast.AST | None = None) -> None:
        self.kind, self.parent, self.node = kind, parent, node
        self.bound: dict[str, list[ast.AST]] = defaultdict(list)
        self.escaped: dict[str, str] = {}  # name -> global or nonlocal

    def find(self, name: str) -> Scope | None:
        scope: Scope | None = self
        first = True
        while scope is not None:
            if first or scope.kind != "class":
                if scope.escaped.get(name) == "global":
                    return scope.root if name in scope.root.bound else None
                if name in scope.bound and name not in scope.escaped:
                    return scope
            scope, first = scope.parent, False
        return None

    @property
    def root(self) -> Scope:
        return self if self.parent is None else self.parent.root

    def between(self, name: str, stop: Scope) -> bool:
        """Tell whether a name as seen from here is bound on the way up, before stop."""
        scope: Scope | None = self
        first = True
        while scope is not None and scope is not stop:
            visible = first or scope.kind != "class"
            if visible and name in scope.bound and name not in scope.escaped:
                return True
            scope, first = scope.parent, False
        return False


@dataclass
class Use:
    name: str
    node: ast.AST
    scope: Scope
    start: int
    end: int
    parent: ast.AST | None = None


@dataclass
class Import:
    node: ast.Import | ast.ImportFrom
    scope: Scope
    alias: ast.alias
    typing: bool
    header: bool  # directly in the module's body or in its `if TYPE_CHECKING`

    @property
    def local(self) -> str:
        if isinstance(self.node, ast.Import) and self.alias.asname is None:
            return self.alias.name.partition(".")[0]
        return self.alias.asname or self.alias.name


class File:
    """A Python file, its scopes and the edits that wait for it."""

    def __init__(self, path: Path, text: str, module: str | None) -> None:
        self.path, self.text, self.module = path, text, module
        self.tree = ast.parse(text)
        self.starts = [0]
        for line in text.split("\n"):
            self.starts.append(self.starts[-1] + len(line) + 1)
        self.lines = text.split("\n")
        self.ascii = text.isascii()
        self.edits: list[tuple[int, int, str]] = []
        self.scope = Scope("module", None, self.tree)
        self.uses: list[Use] = []
        self.imports: list[Import] = []
        self.strings: list[ast.Constant] = []
        self.calls: list[tuple[ast.Call, Scope]] = []
        self.defs: set[str] = set()
        Reader(self).body(self.tree.body, self.scope)

    def at(self, line: int, column: int) -> int:
        text = self.lines[line - 1]
        if not self.ascii and not text.isascii():
            column = len(text.encode()[:column].decode())
        return self.starts[line - 1] + column

    def span(self, node: ast.AST) -> tuple[int, int]:
        return self.at(node.lineno, node.col_offset), self.at(node.end_lineno, node.end_col_offset)

    def edit(self, start: int, end: int, new: str) -> None:
        if (start, end, new) not in self.edits:
            self.edits.append((start, end, new))

    def edited(self, cut: list[tuple[int, int, str]] = ()) -> str:
        result, last = [], len(self.text)
        spans = sorted({*self.edits, *cut}, key=lambda edit: (edit[0], -edit[1]))
        kept: list[tuple[int, int, str]] = []
        for edit in spans:
            if kept and edit[0] < kept[-1][1]:
                if edit[1] > kept[-1][1]:
                    raise SystemExit(f"{self.path}: edits overlap: {kept[-1]} {edit}")
                continue  # inside of what is replaced
            kept.append(edit)
        for start, end, new in reversed(kept):
            result.append(self.text[end:last])
            result.append(new)
            last = start
        result.append(self.text[:last])
        return "".join(reversed(result))


class Reader:
    """Reads scopes, names and imports out of a syntax tree."""

    def __init__(self, file: File) -> None:
        self.file = file
        self.typing = 0
        self.top = True

    def body(self, nodes: list[ast.stmt], scope: Scope) -> None:
        for node in nodes:
            self.visit(node, scope, None)

    def visit(self, node: ast.AST | None, scope: Scope, parent: ast.AST | None) -> None:
        if node is None:
            return
        method = getattr(self, "on_" + type(node).__name__, None)
        if method:
            method(node, scope, parent)
        else:
            self.children(node, scope)

    def children(self, node: ast.AST, scope: Scope) -> None:
        for child in ast.iter_child_nodes(node):
            self.visit(child, scope, node)

    def use(self, name: str, node: ast.AST, scope: Scope, start: int, parent: ast.AST | None = None) -> None:
        self.file.uses.append(Use(name, node, scope, start, start + len(name), parent))

    def bind(self, name: str, node: ast.AST, scope: Scope) -> None:
        scope.bound[name].append(node)
        if scope.kind == "module" and not isinstance(node, ast.alias):
            self.file.defs.add(name)

    def on_Name(self, node: ast.Name, scope: Scope, parent: ast.AST | None) -> None:
        if isinstance(node.ctx, (ast.Store, ast.Del)):
            target = scope
            if scope.escaped.get(node.id) == "global":
                self.file.scope.bound[node.id].append(node)
            elif scope.escaped.get(node.id) is None:
                self.bind(node.id, node, target)
        self.use(node.id, node, scope, self.file.at(node.lineno, node.col_offset), parent)

    def on_NamedExpr(self, node: ast.NamedExpr, scope: Scope, parent: ast.AST | None) -> None:
        target = scope
        while target.kind == "comp" and target.parent:
            target = target.parent
        self.visit(node.target, target, node)
        self.visit(node.value, scope, node)

    def on_Global(self, node: ast.Global, scope: Scope, parent: ast.AST | None) -> None:
        for name in node.names:
            scope.escaped[name] = "global"
            start, end = self.file.span(node)
            for found in re.finditer(rf"\b{name}\b", self.file.text[start:end]):
                self.use(name, node, scope, start + found.start())

    def on_Nonlocal(self, node: ast.Nonlocal, scope: Scope, parent: ast.AST | None) -> None:
        for name in node.names:
            scope.escaped[name] = "nonlocal"

    def on_FunctionDef(self, node: ast.FunctionDef, scope: Scope, parent: ast.AST | None) -> None:
        for decorator in node.decorator_list:
            self.visit(decorator, scope, node)
        self.bind(node.name, node, scope)
        self.named(node, scope)
        self.signature(node.args, scope, node)
        self.visit(node.returns, scope, node)
        inner = Scope("function", scope, node)
        self.parameters(node.args, inner)
        self.globals_first(node, inner)
        self.body(node.body, inner)

    on_AsyncFunctionDef = on_FunctionDef

    def globals_first(self, node: ast.AST, inner: Scope) -> None:
        for child in ast.walk(node):
            if isinstance(child, (ast.Global, ast.Nonlocal)):
                kind = "global" if isinstance(child, ast.Global) else "nonlocal"
                for name in child.names:
                    inner.escaped.setdefault(name, kind)

    def named(self, node: ast.FunctionDef | ast.ClassDef, scope: Scope) -> None:
        start = self.file.at(node.lineno, node.col_offset)
        found = re.compile(rf"(?:async\s+)?(?:def|class)\s+({re.escape(node.name)})\b").match(self.file.text, start)
        assert found, (self.file.path, node.name)
        self.use(node.name, node, scope, found.start(1))

    def signature(self, args: ast.arguments, scope: Scope, node: ast.AST) -> None:
        for default in (*args.defaults, *args.kw_defaults):
            self.visit(default, scope, node)
        for arg in (*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg):
            if arg is not None:
                self.visit(arg.annotation, scope, node)

    def parameters(self, args: ast.arguments, inner: Scope) -> None:
        for arg in (*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg):
            if arg is not None:
                inner.bound[arg.arg].append(arg)

    def on_Lambda(self, node: ast.Lambda, scope: Scope, parent: ast.AST | None) -> None:
        self.signature(node.args, scope, node)
        inner = Scope("function", scope, node)
        self.parameters(node.args, inner)
        self.visit(node.body, inner, node)

    def on_ClassDef(self, node: ast.ClassDef, scope: Scope, parent: ast.AST | None) -> None:
        for child in (*node.decorator_list, *node.bases, *node.keywords):
            self.visit(child, scope, node)
        self.bind(node.name, node, scope)
        self.named(node, scope)
        inner = Scope("class", scope, node)
        self.body(node.body, inner)

    def comprehension(self, node: ast.AST, scope: Scope, parent: ast.AST | None) -> None:
        inner = Scope("comp", scope, node)
        for place, generator in enumerate(node.generators):
            self.visit(generator.iter, scope if place == 0 else inner, generator)
            self.visit(generator.target, inner, generator)
            for condition in generator.ifs:
                self.visit(condition, inner, generator)
        for name in ("key", "value", "elt"):
            self.visit(getattr(node, name, None), inner, node)

    on_ListComp = on_SetComp = on_DictComp = on_GeneratorExp = comprehension

    def on_ExceptHandler(self, node: ast.ExceptHandler, scope: Scope, parent: ast.AST | None) -> None:
        self.visit(node.type, scope, node)
        if node.name:
            self.bind(node.name, node, scope)
        self.body(node.body, scope)

    def on_MatchAs(self, node: ast.MatchAs, scope: Scope, parent: ast.AST | None) -> None:
        if node.name:
            self.bind(node.name, node, scope)
        self.children(node, scope)

    def on_MatchStar(self, node: ast.MatchStar, scope: Scope, parent: ast.AST | None) -> None:
        if node.name:
            self.bind(node.name, node, scope)

    def on_MatchMapping(self, node: ast.MatchMapping, scope: Scope, parent: ast.AST | None) -> None:
        if node.rest:
            self.bind(node.rest, node, scope)
        self.children(node, scope)

    def on_If(self, node: ast.If, scope: Scope, parent: ast.AST | None) -> None:
        typing = isinstance(node.test, ast.Name) and node.test.id == TYPING
        self.visit(node.test, scope, node)
        self.typing += typing
        for child in node.body:
            self.visit(child, scope, node if typing else child)
        self.typing -= typing
        for child in node.orelse:
            self.visit(child, scope, child)

    def imported(self, node: ast.Import | ast.ImportFrom, scope: Scope, parent: ast.AST | None) -> None:
        typing_block = isinstance(parent, ast.If) and self.typing == 1
        header = scope.kind == "module" and (node in self.file.tree.body or typing_block)
        for alias in node.names:
            one = Import(node, scope, alias, bool(self.typing), header)
            self.file.imports.append(one)
            scope.bound[one.local].append(alias)

    on_Import = on_ImportFrom = imported

    def on_Constant(self, node: ast.Constant, scope: Scope, parent: ast.AST | None) -> None:
        if isinstance(node.value, str):
            self.file.strings.append(node)

    def on_Call(self, node: ast.Call, scope: Scope, parent: ast.AST | None) -> None:
        self.file.calls.append((node, scope))
        self.children(node, scope)


@dataclass
class Target:
    """What an import of the old house means in the new one."""

    module: str  # new, without the package's name; for a module import the module itself
    name: str | None  # None: the module itself is meant
    origin: str  # old module


@dataclass
class House:
    root: Path
    modules: dict[str, list[str]]
    docs: dict[str, str]
    names: dict[str, str]
    sink: dict[str, list[str]]
    same: dict[str, str]
    faults: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        source = self.root / "src" / PACKAGE
        self.files: dict[str, File] = {}
        for path in sorted(source.rglob("*.py")):
            name = ".".join(path.relative_to(source).with_suffix("").parts).removesuffix("__init__").rstrip(".")
            self.files[name] = File(path, load(path), name)
        self.new: dict[str, str] = {}
        for new, olds in self.modules.items():
            for old in olds:
                if old not in self.files:
                    self.fault(f"the map names {old}, which is not there")
                elif old in self.new:
                    self.fault(f"{old} is twice in the map")
                self.new[old] = new
        self.place_packages()
        self.members: dict[str, list[str]] = defaultdict(list)
        for old in (*[o for olds in self.modules.values() for o in olds], *self.files):
            if old in self.files and self.new[old] is not None and old not in self.members[self.new[old]]:
                self.members[self.new[old]].append(old)
        self.defined = {old: file.defs - {TYPING, "__all__"} for old, file in self.files.items()}
        self.names_of: dict[str, dict[str, str]] = defaultdict(dict)
        for key, new in self.names.items():
            old, _, name = key.partition(":")
            if old not in self.files or name not in self.files[old].scope.bound:
                self.fault(f"[names] {key}: no such name")
            self.names_of[old][name] = new

    def place_packages(self) -> None:
        """Find what becomes of modules that the map does not name: they stay, but for empty packages."""
        for old, file in self.files.items():
            if old in self.new:
                continue
            self.new[old] = old
        live = set(self.new.values())
        for old, file in sorted(self.files.items(), reverse=True):  # what lies within a package first
            bare = len(file.tree.body) <= 1 and file.path.name == "__init__.py"
            if bare and old and not any(old in self.modules.get(new, ()) for new in self.modules):
                used = any(name.startswith(old + ".") for name in live)
                if not used:
                    self.new[old] = None  # an empty package goes with its last module
                    live.discard(old)

    def fault(self, text: str) -> None:
        if text not in self.faults:
            self.faults.append(text)

    def is_package(self, new: str) -> bool:
        return new == "" or any(name and name.startswith(new + ".") for name in self.all_new())

    def all_new(self) -> set[str]:
        if not hasattr(self, "_all"):
            self._all = {name for name in self.new.values() if name is not None}
            for name in list(self._all):
                while "." in name:
                    name = name.rpartition(".")[0]
                    self._all.add(name)
        return self._all

    def path_of(self, new: str) -> Path:
        base = self.root / "src" / PACKAGE / new.replace(".", "/") if new else self.root / "src" / PACKAGE
        return base / "__init__.py" if self.is_package(new) else base.with_suffix(".py")

    # ---------------------------------------------------------------- what an import means

    def final(self, old: str, name: str) -> str:
        return self.names_of.get(old, {}).get(name, name)

    def resolve(self, module: str, name: str | None) -> Target | None:
        """Return what ``from lastgood.module import name`` means; None for what is not ours."""
        if name is None:
            return Target(self.new[module], None, module) if module in self.files else None
        whole = f"{module}.{name}" if module else name
        if whole in self.files and name not in self.defined.get(module, ()):
            if self.new[whole] is None:
                self.fault(f"the package {whole} goes, and is imported")
                return None
            return Target(self.new[whole], None, whole)
        if module not in self.files:
            return None
        if self.new[module] is None:
            self.fault(f"the package {module} goes, and {name} of it is imported")
            return None
        origin, origin_name = module, name
        seen = set()
        while origin_name not in self.defined[origin] and origin not in seen:
            seen.add(origin)
            step = next(
                (one for one in self.files[origin].imports if one.header and one.local == origin_name), None
            )
            if step is None or not isinstance(step.node, ast.ImportFrom) or not self.ours(step.node.module):
                break
            inner = self.short(step.node.module)
            if (f"{inner}.{step.alias.name}" if inner else step.alias.name) in self.files:
                return Target(self.new[f"{inner}.{step.alias.name}"], None, f"{inner}.{step.alias.name}")
            if step.alias.asname:
                break
            origin, origin_name = inner, step.alias.name
        return Target(self.new[module], self.final(origin, origin_name), module)

    def ours(self, module: str | None) -> bool:
        return module is not None and (module == PACKAGE or module.startswith(PACKAGE + "."))

    def short(self, module: str) -> str:
        return module.removeprefix(PACKAGE).lstrip(".")

    @staticmethod
    def full(new: str) -> str:
        return f"{PACKAGE}.{new}" if new else PACKAGE


def import_line(target: Target, local: str, *, exported: bool = False) -> str:
    if exported and target.name == local:
        return f"from {House.full(target.module)} import {local} as {local}"
    if target.name is None:
        parent, _, last = target.module.rpartition(".")
        suffix = "" if last == local else f" as {local}"
        return f"from {House.full(parent)} import {last}{suffix}"
    suffix = "" if target.name == local else f" as {local}"
    return f"from {House.full(target.module)} import {target.name}{suffix}"


class Rewriter:
    """Rewrites one file's names and imports, or those of all files that become one."""

    def __init__(self, house: House, new: str | None, files: list[File]) -> None:
        self.house, self.new, self.files = house, new, files
        self.merged = len(files) > 1
        self.header: dict[bool, set[str]] = {True: set(), False: set()}  # typing? -> import lines
        self.kept: list[str] = []  # header imports with comments of their own
        self.space: dict[str, set[str]] = defaultdict(set)  # module-level name -> what it means
        self.module_names: dict[str, str] = {}

    # ------------------------------------------------------------ names of the new module

    def run(self) -> None:
        for file in self.files:
            for name in file.defs - {TYPING, "__all__"}:
                final = self.house.final(file.module, name) if file.module is not None else name
                self.space[final].add(self.meaning(file, name))
        for file in self.files:
            self.rewrite(file)
        for name, meanings in sorted(self.space.items()):
            for one, other in self.house.same.items():
                if other in meanings and one in meanings:
                    meanings.discard(one)
                    for lines in self.header.values():
                        lines.discard(one)
            if len(meanings) > 1:
                self.house.fault(f"{self.new}: {name} means " + " and ".join(sorted(meanings)))
        if self.merged:
            self.builtins()

    def meaning(self, file: File, name: str) -> str:
        """Name a definition; equal constants are one."""
        nodes = file.scope.bound[name]
        for statement in file.tree.body:
            if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
                target = statement.targets[0]
                if isinstance(target, ast.Name) and target.id == name and len(nodes) == 1:
                    return f"= {ast.unparse(statement.value)}" if is_plain(statement) else f"{file.module}:{name}"
            if isinstance(statement, ast.FunctionDef) and statement.name == name and len(nodes) == 1:
                return f"= {ast.unparse(statement)}" if is_plain(statement) else f"{file.module}:{name}"
            if isinstance(statement, ast.If) and getattr(statement.test, "id", "") == TYPING:
                for inner in statement.body:
                    if isinstance(inner, ast.Assign) and getattr(inner.targets[0], "id", "") == name:
                        return f"typing {ast.unparse(inner.value)}"
                for inner in statement.orelse:
                    if getattr(inner, "name", "") == name or name in ast.unparse(inner).split("=")[0]:
                        return f"else {ast.unparse(inner)}"
        return f"{file.module}:{name}"

    def builtins(self) -> None:
        for file in self.files:
            for use in file.uses:
                if use.scope.find(use.name) is None and use.name in self.space and use.name in BUILTINS:
                    self.house.fault(f"{self.new}: {file.module} means the built-in {use.name}, now defined by {sorted(self.space[use.name])}")

    # ------------------------------------------------------------ imports and uses

    def rewrite(self, file: File) -> None:
        house = self.house
        replaced: dict[tuple[int, str], tuple[str, str | None, Import]] = {}
        own_uses: dict[tuple[int, str], Import] = {}
        by_node: dict[int, list[tuple[Import, str | None]]] = defaultdict(list)
        locals_: dict[tuple[int, str], Target] = {}
        for one in file.imports:
            target = self.target(one)
            line: str | None
            if target is None:
                local = house.final(file.module, one.local) if file.module is not None and one.scope.kind == "module" else one.local
                line = self.foreign(one, local)
                if local != one.local:
                    replaced[id(one.scope), one.local] = (local, None, one)
            elif target.module == self.new and self.new is not None and target.module != "":
                if target.name is None:
                    own_uses[id(one.scope), one.local] = one
                    line = None
                else:
                    replaced[id(one.scope), one.local] = (target.name, "own", one)
                    line = None
            else:
                local = self.local_name(file, one, target)
                line = import_line(target, local, exported=one.alias.asname == one.alias.name)
                replaced[id(one.scope), one.local] = (local, None, one)
                if target.name is None:
                    locals_[id(one.scope), one.local] = target
            by_node[id(one.node)].append((one, line))
            if line is not None and one.header and one.scope.kind == "module":
                name = replaced.get((id(one.scope), one.local), (one.local,))[0]
                if not (one.typing and one.local in file.defs):  # else the `else` of the same block has it
                    self.space[name].add(line)
        self.module_attributes(file, replaced, own_uses)
        self.references(file, replaced)
        self.statements(file, by_node)
        self.lists(file)

    def target(self, one: Import) -> Target | None:
        house = self.house
        if isinstance(one.node, ast.Import):
            if not house.ours(one.alias.name) or one.alias.name == PACKAGE:
                return None
            if one.alias.asname is None:
                old = house.short(one.alias.name)
                if old in house.files and house.new[old] != old:
                    house.fault(f"{one.node.lineno}: import {one.alias.name} has moved; patch it")
                return None
            return house.resolve(house.short(one.alias.name), None)
        if one.node.level or not house.ours(one.node.module):
            return None
        return house.resolve(house.short(one.node.module), one.alias.name)

    def foreign(self, one: Import, local: str) -> str:
        name = one.alias.name
        if isinstance(one.node, ast.Import):
            asname = f" as {local}" if one.alias.asname or local != one.local else ""
            return f"import {name}{asname}"
        asname = f" as {local}" if local != name or one.alias.asname else ""
        return f"from {'.' * one.node.level}{one.node.module or ''} import {name}{asname}"

    def local_name(self, file: File, one: Import, target: Target) -> str:
        """Return the local name of an import in the new house."""
        house = self.house
        mapped = house.names_of.get(file.module or "", {}).get(one.local) if file.module is not None else None
        if mapped and one.scope.kind == "module" and one.local not in file.defs:
            return mapped
        if target.name is not None:
            if one.alias.asname:
                return one.alias.asname
            return target.name
        last = target.module.rpartition(".")[2]
        if one.alias.asname is None and one.local == last:
            return last
        if target.module == house.new.get(target.origin) == target.origin:
            return one.local  # not moved: its name was chosen
        key = target.module if one.scope.kind == "module" else f"{target.module}@{id(one.scope)}"
        if key in self.module_names:
            return self.module_names[key]
        for candidate in (last, one.local, last + "_module"):
            if candidate.isidentifier() and self.free(candidate, target.module):
                self.module_names[key] = candidate
                return candidate
        house.fault(f"{self.new or file.path}: no free name for the module {target.module}")
        return one.local

    def free(self, candidate: str, module: str) -> bool:
        if candidate in BUILTINS or candidate in self.space and self.space[candidate] - {import_line(Target(module, None, ""), candidate)}:
            return False
        for file in self.files:
            stack = [file.scope]
            bound = {use.scope for use in file.uses}
            for scope in {*bound, *stack}:
                for node in scope.bound.get(candidate, ()):
                    if isinstance(node, ast.alias):
                        found = next(one for one in file.imports if one.alias is node)
                        target = self.target(found)
                        if target is not None and target.name is None and target.module == module:
                            continue
                    return False
        return True

    def module_attributes(self, file: File, replaced: dict, own: dict) -> None:
        """Rewrite ``module.name``: the name may be another now, or stand in this very module."""
        modules = {}
        for one in file.imports:
            target = self.target(one)
            if target is not None and target.name is None:
                modules[id(one.scope), one.local] = (one, target)
        wanted = {}
        for use in file.uses:
            scope = use.scope.find(use.name)
            if scope is not None and (id(scope), use.name) in modules and not isinstance(use.node, (ast.Global,)):
                wanted[id(use.node)] = (use, *modules[id(scope), use.name])
        parents = {}
        for node in ast.walk(file.tree):
            if isinstance(node, ast.Attribute) and id(node.value) in wanted:
                parents[id(node.value)] = node
        for key, (use, one, target) in wanted.items():
            attribute = parents.get(key)
            is_own = (id(one.scope), one.local) in own
            if attribute is None:
                if is_own:
                    self.house.fault(f"{self.new}: {file.path}:{use.node.lineno} uses its own module {use.name} as a value")
                continue
            meant = self.house.resolve(target.origin, attribute.attr)
            name = attribute.attr
            if meant is not None and meant.name is not None:
                name = meant.name
            elif meant is not None:
                # a submodule through its package: rare enough to be patched
                self.house.fault(f"{file.path}:{use.node.lineno}: {use.name}.{attribute.attr} is a module")
            start, end = file.span(attribute)
            if is_own:
                if use.scope.between(name, file.scope):
                    self.house.fault(f"{self.new}: {file.module}:{use.node.lineno}: {use.name}.{name} would be hidden by a local {name}")
                file.edit(start, end, name)
            elif name != attribute.attr:
                file.edit(end - len(attribute.attr), end, name)
        for call, scope in file.calls:  # monkeypatch.setattr(module, "name", ...)
            if len(call.args) >= 2 and isinstance(call.args[0], ast.Name) and isinstance(call.args[1], ast.Constant) and isinstance(call.args[1].value, str):
                where = scope.find(call.args[0].id)
                if where is not None and (id(where), call.args[0].id) in modules:
                    meant = self.house.resolve(modules[id(where), call.args[0].id][1].origin, call.args[1].value)
                    if meant is not None and meant.name not in (None, call.args[1].value):
                        start, end = file.span(call.args[1])
                        file.edit(start + 1, end - 1, meant.name)

    def references(self, file: File, replaced: dict) -> None:
        final = self.house.names_of.get(file.module, {}) if file.module is not None else {}
        for use in file.uses:
            scope = use.scope.find(use.name)
            if scope is None:
                continue
            found = replaced.get((id(scope), use.name))
            if found is not None:
                new, own, one = found
            elif scope is file.scope and use.name in final:
                new, own = final[use.name], None
            else:
                continue
            binds_here = isinstance(use.node, ast.Name) and isinstance(use.node.ctx, ast.Store)
            if (new != use.name or own) and not binds_here:
                stop = file.scope if own else scope
                if own and scope is not file.scope:
                    others = [n for n in scope.bound[new] if not isinstance(n, ast.alias)]
                    hidden = bool(others) or self.hidden(use.scope, new, scope, file.scope)
                else:
                    hidden = use.scope.between(new, stop)
                if hidden:
                    self.house.fault(f"{self.new or file.path}: {file.module or file.path}:{getattr(use.node, 'lineno', 0)}: {use.name} -> {new} would be hidden by a local {new}")
            if new != use.name:
                file.edit(use.start, use.end, new)
        renamed = {use: new for (key, use), (new, *_ ) in replaced.items() if use != new} | {a: b for a, b in final.items() if a != b}
        for call, _scope in file.calls:
            if getattr(call.func, "id", "") == "cast" and call.args and isinstance(call.args[0], ast.Constant) and isinstance(call.args[0].value, str):
                start, end = file.span(call.args[0])
                text = file.text[start:end]
                new = re.sub(r"\b[A-Za-z_]\w*\b", lambda word: renamed.get(word[0], word[0]), text)
                if new != text:
                    file.edit(start, end, new)

    def hidden(self, start: Scope, name: str, skip: Scope, stop: Scope) -> bool:
        scope: Scope | None = start
        first = True
        while scope is not None and scope is not stop:
            if scope is not skip and (first or scope.kind != "class") and name in scope.bound and name not in scope.escaped:
                return True
            scope, first = scope.parent, False
        return False

    # ------------------------------------------------------------ the statements themselves

    def statements(self, file: File, by_node: dict[int, list[tuple[Import, str | None]]]) -> None:
        seen = set()
        for one in file.imports:
            node = one.node
            if id(node) in seen:
                continue
            seen.add(id(node))
            lines = [(line, imp) for imp, line in by_node[id(node)]]
            start, end = file.span(node)
            tail_end = file.text.find("\n", end)
            comment = file.text[end:tail_end]
            if "#" in file.text[start:end]:
                comment = "#" # a comment inside: the statement is kept as it is
            if one.header and self.merged:
                if isinstance(node, ast.ImportFrom) and node.module == "__future__":
                    pass
                elif comment.strip() and not self.house.ours(getattr(node, "module", None)):
                    self.kept.append(file.text[start:tail_end])
                else:
                    for line, imp in lines:
                        if line is not None:
                            self.header[imp.typing].add(line + (comment if comment.strip() else ""))
                continue
            unchanged = all(line is not None for line, _ in lines) and sorted(self.expanded(node)) == sorted(line for line, _ in lines)
            if unchanged:
                continue
            wanted = [line for line, _ in lines if line is not None]
            if not one.header and self.merged and not one.typing:
                loaded = self.runtime_lines()
                wanted = [line for line in wanted if line not in loaded]
            if wanted:
                indent = " " * node.col_offset
                suffix = comment if comment.strip() and comment != "#" else ""
                file.edit(start, tail_end if suffix else end, ("\n" + indent).join(w + suffix for w in wanted))
            else:
                self.remove(file, node, start, end)

    def runtime_lines(self) -> set[str]:
        if not hasattr(self, "_runtime"):
            self._runtime: set[str] = set()
            for file in self.files:
                for one in file.imports:
                    if one.header and not one.typing:
                        target = self.target(one)
                        if target is not None and target.module != self.new:
                            self._runtime.add(import_line(target, self.local_name(file, one, target)))
        return self._runtime

    def expanded(self, node: ast.Import | ast.ImportFrom) -> list[str]:
        result = []
        for alias in node.names:
            asname = f" as {alias.asname}" if alias.asname else ""
            if isinstance(node, ast.Import):
                result.append(f"import {alias.name}{asname}")
            else:
                result.append(f"from {'.' * node.level}{node.module or ''} import {alias.name}{asname}")
        return result

    def remove(self, file: File, node: ast.AST, start: int, end: int) -> None:
        body = next(
            statements
            for parent in ast.walk(file.tree)
            for name in ("body", "orelse", "finalbody", "handlers")
            if isinstance(statements := getattr(parent, name, None), list) and node in statements
        )
        alone = all(
            isinstance(s, (ast.Import, ast.ImportFrom)) and self.goes(file, s) for s in body
        )
        if alone and body[0] is node:
            file.edit(start, end, "pass")
            return
        line_start = file.text.rfind("\n", 0, start) + 1
        line_end = file.text.find("\n", end) + 1
        if file.text[line_end : line_end + 1] == "\n":
            line_end += 1
        file.edit(line_start, line_end, "")

    def goes(self, file: File, node: ast.AST) -> bool:
        for one in file.imports:
            if one.node is node:
                target = self.target(one)
                if target is None or target.module != self.new:
                    return False
        return True

    def lists(self, file: File) -> None:
        """Rename in ``__all__``."""
        for statement in file.tree.body:
            if isinstance(statement, ast.Assign) and getattr(statement.targets[0], "id", "") == "__all__":
                for element in getattr(statement.value, "elts", ()):
                    target = self.house.resolve(file.module, element.value) if file.module is not None else None
                    if target is not None and target.name not in (None, element.value):
                        start, end = file.span(element)
                        file.edit(start, end, f'"{target.name}"')


def is_plain(statement: ast.stmt) -> bool:
    """Tell whether a definition stands for itself: equal ones are one."""
    if isinstance(statement, ast.Assign):
        return {n.id for n in ast.walk(statement.value) if isinstance(n, ast.Name)} <= BUILTINS
    if isinstance(statement, ast.FunctionDef) and not statement.decorator_list:
        names = {n.id for n in ast.walk(statement) if isinstance(n, ast.Name)}
        own = {a.arg for a in ast.walk(statement) if isinstance(a, ast.arg)}
        own |= {n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        return names - own <= BUILTINS
    return False


def assemble(house: House, new: str, rewriter: Rewriter) -> str:
    """Return the text of a module made of several."""
    files = ordered(house, new, rewriter.files)
    first = rewriter.files[0]
    pieces, typing_rest, else_rest, exported = [], [], [], set()
    consts: set[str] = set()
    for file in files:
        cut: list[tuple[int, int, str]] = []
        for place, node in enumerate(file.tree.body):
            start, end = file.span(node)
            line_start = file.text.rfind("\n", 0, start) + 1
            line_end = file.text.find("\n", end) + 1
            if place == 0 and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                cut.append((line_start, line_end, ""))
            elif isinstance(node, (ast.Import, ast.ImportFrom)):
                cut.append((line_start, line_end, ""))
            elif isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == TYPING:
                cut.append((line_start, line_end, ""))
            elif isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
                exported |= {e.value for e in node.value.elts}
                cut.append((line_start, line_end, ""))
            elif isinstance(node, ast.If) and getattr(node.test, "id", "") == TYPING:
                own_names = house_names(house, new)
                own_typing: list[str] = []
                for inner, rest in ((node.body, typing_rest), (node.orelse, else_rest)):
                    for statement in inner:
                        if rest is typing_rest and isinstance(statement, (ast.Import, ast.ImportFrom)):
                            continue
                        text = piece(file, statement)
                        if not text.strip() or text.strip() in rewriter.header[False]:
                            continue
                        uses = {n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
                        if rest is typing_rest and uses & own_names:
                            own_typing.append(text)
                        else:
                            same = [t for t in rest if ast.unparse(ast.parse(t)) == ast.unparse(ast.parse(text))]
                            if not same:
                                rest.append(text)
                            elif len(text) > len(same[0]):  # with a comment
                                rest[rest.index(same[0])] = text
                block = f"if {TYPING}:\n" + "\n".join(indented(t) for t in own_typing) + "\n" if own_typing else ""
                cut.append((line_start, line_end, block))
            elif is_plain(node):
                text = ast.unparse(ast.parse(piece(file, node)))
                if text in consts:
                    cut.append((line_start, line_end, ""))
                consts.add(text)
        body = file.edited(cut).strip("\n")
        body = re.sub(r"^(# ruff: noqa.*\n)+", "", body)
        if body.strip():
            pieces.append((file, body))
    header = [docstring(house, new, rewriter.files), "", "from __future__ import annotations", ""]
    header += sorted(rewriter.kept) + sorted(rewriter.header[False])
    typing = sorted(rewriter.header[True] - rewriter.header[False])
    if typing or typing_rest or else_rest:
        header += ["", f"{TYPING} = False", f"if {TYPING}:"] + ["    " + line for line in typing]
        header += ([""] if typing else []) + [indented(text) for text in typing_rest] or ["    pass"]
        if else_rest:
            header += ["else:"] + [indented(text) for text in else_rest]
    elif any(f"if {TYPING}" in body or f"{TYPING}" in body for _, body in pieces):
        header += ["", f"{TYPING} = False"]
    defined = {house.final(f.module, n) for f in files for n in f.defs}
    left = {n for n in exported if n not in defined}
    if left:
        public = sorted({house.final(f.module, n) if n in f.defs else n for n in exported for f in files if n in f.defs} | left)
        header += ["", f"__all__ = {public!r}"]
    text = "\n".join(header) + "\n\n"
    for place, (file, body) in enumerate(pieces):
        summary = (ast.get_docstring(file.tree) or "").split("\n")[0]
        heading = comment_lines(summary) if len(pieces) > 1 and (place or file is not first) else ""
        text += ("\n\n" if place else "\n") + (heading + "\n" if heading else "") + body + "\n"
    noqa = {line for f in files for line in f.text.split("\n")[:1] if line.startswith("# ruff: noqa")}
    return "".join(line + "\n" for line in sorted(noqa)) + text


def house_names(house: House, new: str) -> set[str]:
    names = set()
    for old in house.members[new]:
        names |= house.defined[old]
        names |= {house.final(old, name) for name in house.defined[old]}
    return names


def piece(file: File, node: ast.AST) -> str:
    """Return a statement's text with the edits that fall into it, from the margin."""
    start, end = file.span(node)
    end = file.text.find("\n", end)
    above = file.text.rfind("\n", 0, start) + 1
    while True:  # comment lines right above belong to it
        line_start = file.text.rfind("\n", 0, above - 1) + 1
        line = file.text[line_start : above - 1]
        if above > 0 and line.strip().startswith("#"):
            above = line_start
        else:
            break
    text = file.text[above:end]
    for s, e, new in sorted(file.edits, reverse=True):
        if above <= s and e <= end:
            text = text[: s - above] + new + text[e - above :]
    lines = text.split("\n")
    margin = min((len(l) - len(l.lstrip()) for l in lines if l.strip()), default=0)
    return "\n".join(l[margin:] for l in lines)


def indented(text: str) -> str:
    return "\n".join("    " + line if line.strip() else line for line in text.split("\n"))


def comment_lines(text: str) -> str:
    import textwrap

    lines = textwrap.wrap(f"--- {text.rstrip('.')} ---", 106)
    return "\n".join(f"# {line}" for line in lines) + "\n" if text else ""


def docstring(house: House, new: str, files: list[File]) -> str:
    given = house.docs.get(new)
    first = ast.get_docstring(files[0].tree) or ""
    if given is None or not given.endswith("\n"):
        summary = given if given else first.split("\n")[0]
        rest = []
        for file in files:
            text = ast.get_docstring(file.tree) or ""
            _, _, more = text.partition("\n")
            if more.strip():
                rest.append(more.strip("\n"))
        given = summary.strip() + ("\n\n" + "\n\n".join(rest) + "\n" if rest else "")
    raw = "r" if "\\" in given else ""
    return f'{raw}"""{given}"""'


def ordered(house: House, new: str, files: list[File]) -> list[File]:
    """Return the files in an order in which what is needed at import time comes first."""
    by_name = {file.module: file for file in files}
    needs: dict[str, list[str]] = {}
    for file in files:
        needs[file.module] = []
        for one in file.imports:
            if one.header and not one.typing and isinstance(one.node, ast.ImportFrom) and house.ours(one.node.module):
                module = house.short(one.node.module)
                whole = f"{module}.{one.alias.name}" if module else one.alias.name
                module = whole if whole in by_name else module
                if module in by_name and module != file.module:
                    needs[file.module].append(module)
    result: list[File] = []
    done: set[str] = set()

    def take(name: str) -> None:
        if name in done:
            return
        done.add(name)
        for other in sorted(needs[name], key=[f.module for f in files].index):
            take(other)
        result.append(by_name[name])

    for file in files:
        take(file.module)
    return result


# ---------------------------------------------------------------------- circles


def circles(house: House) -> list[str]:
    edges: dict[str, dict[str, tuple[str, str, bool]]] = defaultdict(dict)
    for old, file in house.files.items():
        new = house.new[old]
        if new is None:
            continue
        for one in file.imports:
            if one.typing or not isinstance(one.node, ast.ImportFrom) or not house.ours(one.node.module):
                continue
            target = house.resolve(house.short(one.node.module), one.alias.name)
            if target is not None and target.module != new:
                was = edges[new].get(target.module)
                if was is None or (was[2] and one.header):
                    edges[new][target.module] = (old, target.origin, not one.header)
    house.edges = edges
    rooms: dict[str, dict[str, tuple[str, str, bool]]] = defaultdict(dict)
    for v, found in edges.items():
        for w, edge in found.items():
            a, b = v.partition(".")[0], w.partition(".")[0]
            if a != b and a and b and (b not in rooms[a] or edge[2] is False):
                rooms[a][b] = edge
    return [*rings(edges, house.all_new()), *(f"rooms: {r}" for r in rings(rooms, set(rooms)))]


def rings(edges: dict[str, dict[str, tuple[str, str, bool]]], names: set[str]) -> list[str]:
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    comps: list[list[str]] = []
    sys.setrecursionlimit(10_000)

    def strong(v: str) -> None:
        index[v] = low[v] = len(index)
        stack.append(v)
        for w in edges.get(v, {}):
            if w not in index:
                strong(w)
                low[v] = min(low[v], low[w])
            elif w in stack:
                low[v] = min(low[v], index[w])
        if low[v] == index[v]:
            comp = []
            while True:
                w = stack.pop()
                comp.append(w)
                if w == v:
                    break
            comps.append(comp)

    for v in sorted(names):
        if v not in index:
            strong(v)
    found = []
    for comp in comps:
        if len(comp) > 1:
            lines = [f"circle of {sorted(comp)}:"]
            for v in sorted(comp):
                for w, (a, b, lazy) in sorted(edges.get(v, {}).items()):
                    if w in comp:
                        lines.append(f"    {v} -> {w}: {a} imports {b}{' (in a function)' if lazy else ''}")
            found.append("\n".join(lines))
    return found


# ---------------------------------------------------------------------- laziness

# What every start has loaded, or nearly nothing: see CHEAP_IMPORTS in tests/test_shape.py.
CHEAP = set(sys.builtin_module_names) | {"os", "stat", "errno", "io", "abc", "codecs", "marshal", "fcntl", "mmap", "zlib"}


def hoisted(house: House) -> list[str]:
    """Tell what users of a module load at import time, since it was merged, that they did not before."""
    own: dict[str, set[str]] = defaultdict(set)
    outer: dict[str, set[str]] = defaultdict(set)
    for old, file in house.files.items():
        for one in file.imports:
            if not one.header or one.typing:
                continue
            names = [one.alias.name] if isinstance(one.node, ast.Import) else [one.node.module or ""]
            for name in names:
                if not house.ours(name):
                    if name.partition(".")[0] not in CHEAP and not name.startswith("_") and name != "collections.abc":
                        outer[old].add(name)
                    continue
                short = house.short(name)
                whole = f"{short}.{one.alias.name}" if short else one.alias.name
                own[old].add(whole if whole in house.files else short)

    def closure(start: set[str], after: bool) -> set[str]:
        seen: set[str] = set()
        todo = list(start)
        while todo:
            module = todo.pop()
            if module in seen or module not in house.files:
                continue
            seen.add(module)
            todo += own[module]
            if after and house.new[module] is not None:
                todo += house.members[house.new[module]]
        return set().union(*(outer[module] for module in seen))

    found = []
    for new, olds in house.members.items():
        if new is None or len(olds) < 2:
            continue
        after = closure(set(olds), after=True)
        for old in olds:
            extra = after - closure({old}, after=False)
            if extra:
                found.append(f"{old} -> {new}: its users load {', '.join(sorted(extra))} too")
    return found


# ---------------------------------------------------------------------- text


class Texts:
    """Rewrites module names and paths in strings, comments and documents."""

    def __init__(self, house: House, files: dict[str, str]) -> None:
        self.house, self.files = house, files
        self.dotted = re.compile(rf"\b{PACKAGE}((?:\.[A-Za-z_]\w*)+)")
        moved = {}
        for old, file in house.files.items():
            new = house.new[old]
            if new is None or not old:
                continue
            before = str(file.path.relative_to(house.root / "src" / PACKAGE))
            after = str(house.path_of(new).relative_to(house.root / "src" / PACKAGE))
            if before != after:
                moved[before] = after
        self.moved = moved
        names = "|".join(re.escape(name) for name in sorted(moved, key=len, reverse=True))
        self.paths = re.compile(rf"(?<![\w./-])((?:(?:\.\./)*src/{PACKAGE}/)?)({names})(?!\w)") if moved else None
        self.code = re.compile(rf"from ({PACKAGE}(?:\.\w+)*) import (\w+(?:, \w+)*)")

    def module(self, found: re.Match[str]) -> str:
        parts = found[1].lstrip(".").split(".")
        for count in range(len(parts), 0, -1):
            old = ".".join(parts[:count])
            new = self.house.new.get(old)
            if new is None:
                continue
            rest = parts[count:]
            if rest:
                meant = self.house.resolve(old, rest[0])
                if meant is not None and meant.name is not None:
                    rest[0] = meant.name
            return ".".join(p for p in (PACKAGE, new, *rest) if p)
        return found[0]

    def imported(self, found: re.Match[str]) -> str:
        module = self.house.short(found[1])
        lines: dict[str, list[str]] = {}
        for name in found[2].split(", "):
            target = self.house.resolve(module, name)
            if target is None:
                return found[0]
            if target.name is None:
                parent, _, last = target.module.rpartition(".")
                lines.setdefault(self.house.full(parent), []).append(last if last == name else f"{last} as {name}")
            else:
                text = target.name if target.name == name else f"{target.name} as {name}"
                lines.setdefault(self.house.full(target.module), []).append(text)
        return "; ".join(f"from {where} import {', '.join(what)}" for where, what in lines.items())

    def text(self, text: str) -> str:
        text = self.code.sub(lambda found: self.imported(found) if found[1] != PACKAGE else found[0], text)
        marks: list[str] = []

        def keep(found: re.Match[str]) -> str:
            marks.append(found[0])
            return f"\0{len(marks) - 1}\0"

        text = self.code.sub(keep, text)
        text = self.dotted.sub(self.module, text)
        if self.paths:
            text = self.paths.sub(lambda found: found[1] + self.moved[found[2]], text)
        for old, new in self.files.items():
            if old in text:
                text = re.sub(rf"(?<![\w/]){re.escape(old)}(?!\w)", new, text)
        return re.sub(r"\0(\d+)\0", lambda found: marks[int(found[1])], text)

    def python(self, text: str) -> str:
        """Rewrite strings and comments, and leave the code to whom it belongs."""
        import io
        import tokenize

        starts = [0]
        for line in text.split("\n"):
            starts.append(starts[-1] + len(line) + 1)
        edits = []
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type in (tokenize.STRING, tokenize.COMMENT):
                new = self.text(token.string)
                if new != token.string:
                    start = starts[token.start[0] - 1] + token.start[1]
                    edits.append((start, start + len(token.string), new))
        for start, end, new in reversed(edits):
            text = text[:start] + new + text[end:]
        return text


# ---------------------------------------------------------------------- imports that sink


def sink(text: str, targets: list[str]) -> str:
    """Move module-level imports of some modules into the functions that use what they bring."""
    file = File(Path("sink"), text, None)
    wanted = {House.full(t) for t in targets}
    moving = {}
    for one in file.imports:
        if one.header and not one.typing and isinstance(one.node, ast.ImportFrom):
            asname = f" as {one.alias.asname}" if one.alias.asname else ""
            if one.node.module in wanted or f"{one.node.module}.{one.alias.name}" in wanted:
                moving[one.local] = (one, f"from {one.node.module} import {one.alias.name}{asname}")
    if not moving:
        return text
    lazy: dict[int, tuple[ast.AST, set[str]]] = {}
    stays: set[str] = set()
    typed: set[str] = set()
    annotated = annotations(file)
    for use in file.uses:
        if use.name not in moving or use.scope.find(use.name) is not file.scope:
            continue
        if id(use.node) in annotated:
            typed.add(use.name)
            continue
        scope, outer = use.scope, None
        while scope is not None:
            if scope.kind == "function" and isinstance(scope.node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                outer = scope
            scope = scope.parent
        if outer is None:
            stays.add(use.name)
        else:
            lazy.setdefault(id(outer.node), (outer.node, set()))[1].add(use.name)
    for node, names in lazy.values():
        lines = [moving[name][1] for name in sorted(names - stays)]
        if not lines:
            continue
        body = node.body
        first = body[0]
        documented = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and len(body) > 1
        at = body[1] if documented else first
        begin = min([at.lineno, *[d.lineno for d in getattr(at, "decorator_list", [])]])
        start = file.starts[begin - 1]
        indent = " " * at.col_offset
        file.edit(start, start, "".join(f"{indent}{line}\n" for line in lines) + "\n")
    nodes = {id(one.node): one.node for one, _ in moving.values()}
    typing_lines = []
    for node in nodes.values():
        kept = [alias for alias in node.names if (alias.asname or alias.name) not in moving or (alias.asname or alias.name) in stays]
        start, end = file.span(node)
        if kept:
            inner = ", ".join(a.name + (f" as {a.asname}" if a.asname else "") for a in kept)
            file.edit(start, end, f"from {node.module} import {inner}")
        else:
            file.edit(start, file.text.find("\n", end) + 1, "")
    typing_lines = [moving[name][1] for name in sorted(typed - stays)]
    result = file.edited()
    if typing_lines:
        block = "".join(f"    {line}\n" for line in typing_lines)
        marker = f"\nif {TYPING}:\n"
        if marker in result:
            result = result.replace(marker, marker + block, 1)
        else:
            tree = ast.parse(result)
            last = max(n.end_lineno for n in tree.body if isinstance(n, (ast.Import, ast.ImportFrom)))
            lines = result.split("\n")
            lines[last:last] = ["", f"{TYPING} = False", f"if {TYPING}:", block.rstrip("\n")]
            result = "\n".join(lines)
    return result


def annotations(file: File) -> set[int]:
    found: set[int] = set()
    for node in ast.walk(file.tree):
        parts = []
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            parts.append(node.returns)
        if isinstance(node, (ast.arg, ast.AnnAssign)):
            parts.append(node.annotation)
        for part in parts:
            if part is not None:
                found |= {id(inner) for inner in ast.walk(part)}
    for statement in file.tree.body:
        if isinstance(statement, ast.If) and getattr(statement.test, "id", "") == TYPING:
            for inner in statement.body:
                found |= {id(one) for one in ast.walk(inner)}
    return found


# ---------------------------------------------------------------------- carrying it out


def programs(root: Path) -> list[Path]:
    """Return Python files outside of the package, those without an ending too."""
    found = []
    for folder in ("tests", "bench", "scripts"):
        for path in sorted((root / folder).rglob("*")):
            if not path.is_file() or "__pycache__" in path.parts or (root / "scripts" / "house") in path.parents:
                continue
            if path.suffix == ".py" or (not path.suffix and path.read_bytes()[:40].startswith(b"#!/usr/bin/env python")):
                found.append(path)
    return [*found, root / "lastgood"]


def documents(root: Path) -> list[Path]:
    listed = subprocess.run(["git", "ls-files"], cwd=root, capture_output=True, text=True, check=True).stdout.split("\n")
    keep = (".md", ".toml", ".yml", ".yaml", ".txt", ".cfg")
    return [
        root / name
        for name in listed
        if name and "scripts/house" not in name and not name.startswith("changes/")
        and (name.endswith(keep) or name in ("justfile", "test") or name.startswith("scripts/"))
        and (root / name).is_file() and not name.endswith(".py")
    ]


def main() -> None:
    arguments = [a for a in sys.argv[1:] if not a.startswith("--")]
    root = Path(arguments[0] if arguments else ".").resolve()
    check = "--check" in sys.argv
    here = Path(__file__).resolve().parent
    plan: dict = {}
    for path in sorted(here.glob("map*.toml")):
        for key, value in tomllib.loads(path.read_text()).items():
            if isinstance(value, list):
                plan.setdefault(key, []).extend(value)
            else:
                plan.setdefault(key, {}).update(value)
    for one in plan.get("before", []):
        BEFORE[one["file"]].append((one["old"], one["new"]))
    house = House(root, plan.get("modules", {}), plan.get("docs", {}), plan.get("names", {}), plan.get("sink", {}), plan.get("same", {}))
    rewriters = {}
    for new in sorted(n for n in house.members if n is not None):
        rewriters[new] = Rewriter(house, new, [house.files[old] for old in house.members[new]])
        rewriters[new].run()
    others = []
    for path in programs(root):
        try:
            file = File(path, load(path), None)
        except SyntaxError:
            continue
        Rewriter(house, None, [file]).run()
        others.append(file)
    gone = {old.partition(".")[0] for old in house.new if house.new[old] != old} - {n.partition(".")[0] for n in house.modules}
    for old in house.files:
        if old and house.new[old] == old and old.partition(".")[0] in gone:
            house.fault(f"{old} is not in the map, and the rest of its package goes")
    circled = circles(house)
    for fault in sorted(house.faults):
        print(fault)
    for ring in circled:
        print(ring)
    if "--laziness" in sys.argv:
        print("\n".join(hoisted(house)))
    count = len(house.all_new())
    print(f"{len(house.files)} files -> {count}; {len(house.faults)} faults, {len(circled)} circles")
    if check or house.faults:
        raise SystemExit(bool(house.faults))
    write(root, house, rewriters, others, plan)


def write(root: Path, house: House, rewriters: dict[str, Rewriter], others: list[File], plan: dict) -> None:
    moves: dict[str, str] = plan.get("files", {})
    texts = Texts(house, moves)
    result: dict[Path, str] = {}
    for new, rewriter in rewriters.items():
        if rewriter.merged:
            text = assemble(house, new, rewriter)
        else:
            text = rewriter.files[0].edited()
            if new in house.docs:
                doc = rewriter.files[0].tree.body[0]
                start, end = rewriter.files[0].span(doc)
                assert text[start:end] == rewriter.files[0].text[start:end]
                text = text[:start] + docstring(house, new, rewriter.files) + text[end:]
        result[house.path_of(new)] = texts.python(text)
        if new in house.sink:
            result[house.path_of(new)] = sink(result[house.path_of(new)], house.sink[new])
    for new in house.all_new():
        if new not in rewriters:
            if new not in house.docs:
                raise SystemExit(f"the package {new} needs a docstring in [docs]")
            result[house.path_of(new)] = f'"""{house.docs[new]}"""\n'
    for file in house.files.values():
        if file.path not in result:
            file.path.unlink()
    for path, text in result.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for file in others:
        text = texts.python(file.edited())
        for old, new in moves.items():
            if old.startswith("tests/"):  # tools of tests are imported by where they lie
                was, now = (name.removeprefix("tests/").removesuffix(".py").replace("/", ".") for name in (old, new))
                text = re.sub(rf"(?m)^(\s*(?:from|import) ){re.escape(was)}\b", rf"\g<1>{now}", text)
        if text != file.path.read_text():
            file.path.write_text(text)
    for path in documents(root):
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        new = texts.text(text)
        if new != text:
            path.write_text(new)
    for old, new in moves.items():
        (root / new).parent.mkdir(parents=True, exist_ok=True)
        shutil.move(root / old, root / new)
    left = [*(root / "src" / PACKAGE).rglob("*"), *(path.parent for path in (root / old for old in moves))]
    for path in sorted(set(left), reverse=True):
        if path.is_dir() and path.name != "__pycache__" and not any(p.name != "__pycache__" for p in path.iterdir()):
            shutil.rmtree(path)
    tidy(root)
    missed = patch(root, plan.get("patches", []))
    if plan.get("patches"):
        tidy(root)
    for command in plan.get("run", {}).get("commands", []):
        environment = {**os.environ, "PYTHONPATH": str(root / "src")}
        done = subprocess.run(
            [str(root / ".venv" / "bin" / "python"), *command], cwd=root, env=environment, check=False
        )
        if done.returncode:
            missed.append(f"failed: {command}")
    for line in missed:
        print(line)
    if missed:
        raise SystemExit(1)


def tidy(root: Path) -> None:
    ruff = root / ".venv" / "bin" / "ruff"
    names = [str(path) for path in programs(root) if not path.suffix]
    for command in (
        ["check", "--select", "I,F401,F811,UP034,TC005", "--fix", "--quiet", "--exit-zero", "src", "tests", "bench", *names],
        ["format", "--quiet", "src", "tests", "bench", *names],
    ):
        subprocess.run([str(ruff), *command], cwd=root, check=False)


def patch(root: Path, patches: list[dict]) -> list[str]:
    missed = []
    for one in patches:
        path = root / one["file"]
        if not path.is_file():
            missed.append(f"[[patches]] {one['file']} is not there")
            continue
        text = path.read_text()
        if "from" in one:
            if text.count(one["from"]) != 1:
                missed.append(f"[[patches]] {one['file']}: not found: {one['from'][:60]!r}")
            else:
                before, marker, after = text.partition(one["from"])
                rest = "".join((marker + after).partition(one["to"])[1:]) if "to" in one else ""
                path.write_text(before + one["new"] + rest)
            continue
        if text.count(one["old"]) != one.get("count", 1):
            missed.append(f"[[patches]] {one['file']}: found {text.count(one['old'])} times: {one['old'][:60]!r}")
            continue
        path.write_text(text.replace(one["old"], one["new"]))
    return missed


if __name__ == "__main__":
    main()
