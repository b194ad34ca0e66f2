"""The files of a new machine: which they are, where they lie in a project, and that they are right before one is written.

The texts are plain files in `templates/`. It must not know how it was asked for.
"""

from __future__ import annotations

import json
import keyword
import re
import shlex
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.resources import files as resources
from pathlib import Path

from statemachine_agent import files
from statemachine_agent.chart.compile import checked_catalogue, compile_machine
from statemachine_agent.definition.catalogue import Catalogue, files_at
from statemachine_agent.definition.faults import FaultyDefinitionError, Report
from statemachine_agent.definition.names import LOWER, is_reserved
from statemachine_agent.definition.settings import FILES, TABLE, Project
from statemachine_agent.definition.source import Source, read_text
from statemachine_agent.environment import Environment
from statemachine_agent.errors import UsageError
from statemachine_agent.text import one_line

#: the package of the tools, where a project has none
PACKAGE = "agent_tools"
_LONGEST = 50  # its tools are named after it, and names have at most 63 characters
#: pytest comes with an extra, so that whoever only runs tasks does not have it
_HOW_TO_TEST = "from pip install 'statemachine-agent[testing]'; of a clone: pip install 'PATH[testing]'"
_PYTEST = ("pytest.ini", ".pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg")


def check_name(name: str) -> None:
    """UsageError unless `name` can be the name of a machine, and the tools and the module can be named after it."""
    shown = one_line(name, 60)
    if not LOWER.fullmatch(name):
        raise UsageError(
            f"`{shown}` is not the name of a machine", hint="write it in a-z, 0-9 and _, beginning with a letter"
        )
    if is_reserved(name) or keyword.iskeyword(name):
        raise UsageError(f"the name `{shown}` is taken by the language", hint="name it after what it does")
    if len(name) > _LONGEST:
        hint = f"its tools are named after it: use at most {_LONGEST} characters"
        raise UsageError(f"the name `{shown}` is too long", hint=hint)


@dataclass
class Scaffold:
    """What is to be written, path by path."""

    project: Project
    name: str
    #: the machine's file and those of its tools
    definitions: tuple[Path, ...]
    #: files of the machine's own, these included: none of them may be there
    own: dict[Path, str]
    #: files of the project, written only where they are missing
    shared: dict[Path, str]
    #: a line that the settings need, and the settings' text with it
    settings: tuple[Path, str] | None
    diagram: Path
    notes: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, project: Project, name: str) -> Scaffold:
        """Everything for a machine `name` in `project`; UsageError where its settings leave no place for it."""
        folder = project.folder
        fresh = project.source == "defaults"
        package = _package(project) or PACKAGE
        machines = _folder(project, project.settings.machines, "machines")
        manifests = _folder(project, project.settings.tools, "tools")
        has_people = not fresh and project.people is not None
        values = {
            "name": name,
            "read": f"look_at_{name}",
            "write": f"note_{name}",
            "source": name.replace("_", "-"),
            "module": f"{package}.{name}",
            "read_scopes": _scopes(f"{name}:read", commented=has_people),
            "write_scopes": _scopes(f"{name}:write", commented=has_people),
            "user": json.dumps(Environment().user()),
        }
        machine = machines / f"{name}.yaml"
        read, write = (manifests / name / f"{tool}.yaml" for tool in (f"look_at_{name}", f"note_{name}"))
        own = {
            machine: "machine.yaml",
            read: "read.yaml",
            write: "write.yaml",
            folder / package / f"{name}.py": "tools.py",
            folder / "scripts" / f"{name}.yaml": "script.yaml",
            folder / "tests" / f"test_{name}.py": "test.py",
        }
        shared = {folder / package / "__init__.py": "package.py", folder / ".gitignore": "gitignore"}
        if not has_people:
            shared[folder / project.settings.people] = "people.yaml"
        if fresh:
            shared[folder / FILES[0]] = "settings.toml"
        if not any(not files.is_absent(folder / ini) for ini in _PYTEST):
            shared[folder / "pytest.ini"] = "pytest.ini"
        found = cls(
            project,
            name,
            (machine, read, write),
            {path: _filled(template, values) for path, template in own.items()},
            {path: _filled(template, values) for path, template in shared.items()},
            None if fresh or _package(project) else _with_package(project),
            folder / "diagrams" / f"{name}.svg",
        )
        if has_people:
            found.notes.append(f"the tools need no scope yet; `# scopes` in {manifests / name} says how they would")
        return found

    def check(self) -> None:
        """UsageError where one of its files is there; FaultyDefinitionError where it does not go with what is there."""
        for path in (*self.own, self.diagram):
            if not files.is_absent(path):
                raise UsageError(
                    f"{path} is there already, and nothing was written", hint="choose another name, or move it away"
                )
        catalogue = self._catalogue()
        report = Report()
        names = {str(path) for path in self.own}
        report.add(f for f in catalogue.report.errors if f.file in names)
        if report.errors:
            raise FaultyDefinitionError(report)
        self._picture = self._drawn(catalogue)

    def _catalogue(self) -> Catalogue:
        """The project with the new files, before any of them is written."""
        project = self.project
        sources: list[list[Source]] = [[], []]
        machine, *tools = self.definitions
        for found, places, new in zip(sources, (project.machines, project.tools), ([machine], tools), strict=True):
            for path in files_at([p for p in places if not files.is_absent(p)], []):
                source, faults = read_text(path)
                if not faults:
                    found.append(source)
            found += [Source(str(path), self.own[path]) for path in new]
        return checked_catalogue(Catalogue.build(sources[0], sources[1], None, *project.listed))

    def _drawn(self, catalogue: Catalogue) -> bytes:
        from statemachine_agent.diagrams import diagram

        return diagram(compile_machine(catalogue, self.name), "svg")

    def write(self) -> Iterator[Path]:
        """Write what is missing, and say each path; UsageError where that cannot be."""
        texts = {**self.own, **{p: t for p, t in self.shared.items() if files.is_absent(p)}}
        for path, content in {**{p: t.encode() for p, t in texts.items()}, self.diagram: self._picture}.items():
            _create(path, content)
            yield _short(path)
        if self.settings is not None:
            path, text = self.settings
            path.write_text(text, encoding="utf-8")
            self.notes.insert(0, f"added `{PACKAGE}` to `python_packages` in {_short(path)}")

    def next_commands(self, here: Path) -> Iterator[str]:
        """What to type now."""
        folder = self.project.folder
        if here != folder and folder not in here.parents:
            yield f"cd {shlex.quote(str(_short(folder)))}"
        script = self.project.folder / "scripts" / f"{self.name}.yaml"
        shown = script.relative_to(folder) if here == folder or folder not in here.parents else script
        actor = self._actor()
        yield "sma check"
        yield f"sma run {self.name} -i item=box-1{actor} --model scripted:{shlex.quote(str(shown))}"
        yield f"sma run {self.name} -i item=box-2{actor} --model ask        # you play the model"
        yield f"pytest        # {_HOW_TO_TEST}"

    def _actor(self) -> str:
        if self.project.settings.identity != "asserted":
            return ""
        source, faults = read_text(self.project.folder / self.project.settings.people)
        people = Catalogue.build([], [], source).people if not faults else None
        return f" --actor {shlex.quote(next(iter(people.people)))}" if people and people.people else " --actor WHO"


def _filled(template: str, values: dict[str, str]) -> str:
    text = (resources("statemachine_agent.cli") / "templates" / f"{template}.template").read_text(encoding="utf-8")
    return re.sub(r"\{\{(\w+)\}\}", lambda found: values[found[1]], text)


def _scopes(scope: str, *, commented: bool) -> str:
    told = "what the actor must be allowed; people.yaml gives it"
    return f'# scopes: ["{scope}"]   # {told}' if commented else f'scopes: ["{scope}"]   # {told}'


def _folder(project: Project, places: tuple[str, ...], what: str) -> Path:
    """The first folder among `places`, or one that can be made."""
    for text in places:
        path = project.path(text)
        if path.suffix not in (".yaml", ".yml") and files.look(path)[0] in (files.Kind.FOLDER, files.Kind.NOTHING):
            return path
    raise UsageError(f"{project.source} names no folder under `{what}`", hint=f'write {what} = ["{what}"] there')


def _package(project: Project) -> str | None:
    """A package of the settings whose folder lies beside them."""
    for name in project.settings.python_packages:
        if files.look(project.folder / name)[0] is files.Kind.FOLDER:
            return name
    return None


def _with_package(project: Project) -> tuple[Path, str] | None:
    """The settings' file with the package of the tools added to its list; UsageError where that is not plain to do."""
    if PACKAGE in project.settings.python_packages:
        return None
    path = Path(project.source)
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as problem:
        raise UsageError(f"{path} cannot be read: {problem.strerror}", hint="mend it first") from None
    is_pyproject = path.name == "pyproject.toml"
    key = re.compile(r"^(python_packages\s*=\s*\[)", re.MULTILINE)
    head = re.compile(rf"^\[tool\.{TABLE}\]\s*$", re.MULTILINE)
    if key.search(text):
        names = '"' + PACKAGE + '"' + (", " if project.settings.python_packages else "")
        changed = key.sub(lambda found: found[1] + names, text, count=1)
    elif not is_pyproject:
        changed = f'python_packages = ["{PACKAGE}"]\n{text}'
    else:
        changed = head.sub(lambda found: f'{found[0].rstrip()}\npython_packages = ["{PACKAGE}"]', text, count=1)
    before, after = _table(text, is_pyproject=is_pyproject), _table(changed, is_pyproject=is_pyproject)
    wanted = {**before, "python_packages": [PACKAGE, *project.settings.python_packages]}
    if after != wanted:
        raise UsageError(f"{path} does not list `{PACKAGE}`", hint=f'add "{PACKAGE}" to `python_packages` there')
    return path, changed


def _table(text: str, *, is_pyproject: bool) -> dict[str, object]:
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return {}
    table: dict[str, object] = found.get("tool", {}).get(TABLE, {}) if is_pyproject else found
    return table


def _create(path: Path, content: bytes) -> None:
    """Write a file that is not there yet."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("xb") as file:
            file.write(content)
    except FileExistsError:
        raise UsageError(f"{path} is there already", hint="choose another name, or move it away") from None
    except OSError as problem:
        raise UsageError(f"{path} cannot be written: {problem.strerror}", hint="name another folder") from None


def _short(path: Path) -> Path:
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path
