"""The rules of the house: what is built, who imports whom, what is documented, what is committed.

A rule that reads source is a function from files to a list of what breaks it. It is run on the repository,
where the list must be empty, and on small files with a fault in them, where it must not be.
"""

import ast
import importlib.metadata
import inspect
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest
from numpydoc.validate import validate

import bayescal

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "bayescal"
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
VERSION = bayescal.__version__

FOLDERS = {"bayescal", "models", "tests", "notebooks", ".ci"}
DOCUMENTS = {"README.md", "LICENSE", "CHANGELOG.md", "CONTRIBUTING.md"}
SETTINGS = {"pyproject.toml", ".gitignore", ".python-version"}

# A module of `bayescal` may import from its own package and from the rows above its own.
LAYERS = (
    {"validation"},
    {"pav", "tables", "registry"},  # the registry names in strings the modules that it loads
    {"priors"},
    {"inference", "datasets"},
    {"calibrators"},
    {"casimac", "label_shift"},
    {"classifier", "evaluation"},
    {"plots"},
    {"report"},
    {"cli"},
    {"__main__", "__init__"},  # `__init__` resolves its names lazily
)
SAMPLERS = {"pymc", "pytensor", "nutpie"}
WITHOUT_SAMPLERS = {"evaluation", "plots"}  # not even inside a function
HEAVY = SAMPLERS | {"arviz", "matplotlib", "sklearn", "pandas"}
ARRIVES_WITH = {"pytensor": "pymc", "arviz_base": "arviz", "arviz_stats": "arviz", "arviz_plots": "arviz"}
IMPORTS_OF_MODELS = {"numpy", "pymc", "pytensor", "typing"}


# ------------------------------------------------------------------------------
# What is built and committed
# ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def repository_files(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Paths of the files that git tracks or would add; of all that are not ignored, in an unpacked sdist."""
    git = ["git", "-c", "safe.directory=*"]
    if not (ROOT / ".git").exists():
        git += ["--git-dir", str(tmp_path_factory.mktemp("git") / ".git"), "--work-tree", str(ROOT)]
        subprocess.run([*git, "init", "--quiet"], cwd=ROOT, check=True)
    listing = subprocess.run(
        [*git, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    names = set(listing.stdout.split("\0")) - {"", "PKG-INFO"}
    return {name for name in names if (ROOT / name).exists()}


class Built(NamedTuple):
    """Names of the files in each distribution."""

    wheel: set[str]
    sdist: set[str]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Build the sdist, and the wheel from it."""
    out = tmp_path_factory.mktemp("dist")
    done = subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", out, ROOT],
        capture_output=True,
        text=True,
        cwd=out,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    with zipfile.ZipFile(out / f"bayescal-{VERSION}-py3-none-any.whl") as wheel:
        wheel_names = {info.filename for info in wheel.infolist() if not info.is_dir()}
    top = f"bayescal-{VERSION}/"
    with tarfile.open(out / f"bayescal-{VERSION}.tar.gz") as sdist:
        sdist_names = {member.name.removeprefix(top) for member in sdist.getmembers() if member.isfile()}
    return Built(wheel_names, sdist_names)


def test_wheel_holds_the_package_and_nothing_else(built: Built, repository_files: set[str]) -> None:
    package = {name for name in built.wheel if not name.startswith(f"bayescal-{VERSION}.dist-info/")}
    assert package == {name for name in repository_files if name.startswith("bayescal/")}
    assert "bayescal/py.typed" in package  # the classifier "Typing :: Typed" promises it
    licences = {"LICENSE", "bayescal/data/LICENSE-Apache-2.0.txt"}  # of the code, and of the shipped data
    assert built.wheel - package >= {f"bayescal-{VERSION}.dist-info/licenses/{name}" for name in licences}


def test_sdist_holds_every_committed_file(built: Built, repository_files: set[str]) -> None:
    assert built.sdist == repository_files | {"PKG-INFO"}


def test_top_level_is_closed(repository_files: set[str]) -> None:
    assert {name.split("/")[0] for name in repository_files} == FOLDERS | DOCUMENTS | SETTINGS


# Built from pieces, so that this file does not hold what it forbids.
MACHINE_PATH = re.compile(rb"(?<![\w.])/(?:work|root|home|Users|tmp/ipykernel\w*)" + b"/")


def machine_paths(root: Path, names: Iterable[str]) -> list[str]:
    """Files that name a directory of the machine they were made on."""
    return [
        f"{name}: {match[0].decode()}"
        for name in sorted(names)
        if (match := MACHINE_PATH.search((root / name).read_bytes()))
    ]


def test_no_file_names_a_path_of_a_machine(repository_files: set[str]) -> None:
    assert machine_paths(ROOT, repository_files) == []


def test_machine_paths_are_found(tmp_path: Path) -> None:
    (tmp_path / "a.ipynb").write_text("".join(["/", "tmp/ipykernel_12/3.py:1: UserWarning"]))
    (tmp_path / "b.py").write_text("".join(['open("', "/", 'home/jo/scores.csv")']))
    (tmp_path / "c.md").write_text("https://example.org/home/x and ./root/x are no machine paths")
    found = machine_paths(tmp_path, ["a.ipynb", "b.py", "c.md"])
    assert [line.partition(":")[0] for line in found] == ["a.ipynb", "b.py"]


def test_lock_file_is_ignored_and_not_committed(repository_files: set[str]) -> None:
    assert "uv.lock" not in repository_files
    assert "/uv.lock" in (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()


def test_version_is_the_same_everywhere() -> None:
    assert importlib.metadata.version("bayescal") == VERSION
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(rf"^## \[{re.escape(VERSION)}\]", changelog, re.MULTILINE)


@pytest.mark.parametrize("command", ["uv run bayescal demo", "uv run pytest"])
def test_readme_names_the_command(command: str) -> None:
    assert command in (ROOT / "README.md").read_text(encoding="utf-8")


# ------------------------------------------------------------------------------
# Who imports whom
# ------------------------------------------------------------------------------


class Import(NamedTuple):
    """One imported module or name."""

    target: str  # dotted and absolute
    line: int
    at_import: bool  # runs when the importing module is imported


def imports(source: str, package: str) -> Iterator[Import]:
    """Every import in the source of a module of `package`, those inside functions included."""

    def walk(node: ast.AST, at_import: bool) -> Iterator[Import]:
        if isinstance(node, ast.Import):
            yield from (Import(alias.name, node.lineno, at_import) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")
            base = parents[: len(parents) - node.level + 1] if node.level else []
            start = ".".join([*base, *([node.module] if node.module else [])])
            yield from (Import(f"{start}.{alias.name}", node.lineno, at_import) for alias in node.names)
        elif isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            for child in node.body:
                yield from walk(child, False)
            for child in node.orelse:
                yield from walk(child, at_import)
        else:
            in_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            for child in ast.iter_child_nodes(node):
                yield from walk(child, at_import and not in_function)

    return walk(ast.parse(source), True)


def modules(package: Path) -> Iterator[tuple[str, str, Path]]:
    """(name in LAYERS, dotted name of the package it is in, path) of every module."""
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package).with_suffix("").parts
        yield parts[0], ".".join([package.name, *parts[:-1]]), path


def layer_of(name: str) -> int | None:
    """Row of `name` in LAYERS."""
    return next((row for row, names in enumerate(LAYERS) if name in names), None)


def broken_import_rules(package: Path) -> list[str]:
    """Modules without a layer, imports against the layers, samplers imported where they must not be."""
    broken = []
    existing = {name for name, _, _ in modules(package)}
    for name, parent, path in modules(package):
        layer = layer_of(name)
        where = path.relative_to(package.parent).as_posix()
        if layer is None:
            broken.append(f"{where}: has no layer; add {name!r} to LAYERS in tests/test_house.py")
            continue
        for target, line, at_import in imports(path.read_text(encoding="utf-8"), parent):
            top, _, rest = target.partition(".")
            if top in SAMPLERS and name in WITHOUT_SAMPLERS:
                broken.append(f"{where}:{line}: {name} never imports {top}")
            elif top in SAMPLERS and at_import and name != "inference":
                broken.append(f"{where}:{line}: only bayescal/inference imports {top} outside functions")
            elif top == package.name and rest != "__version__":
                other = rest.partition(".")[0]
                if other not in existing:
                    broken.append(f"{where}:{line}: imports {target}; name a module of the package")
                elif other != name and (layer_of(other) or 0) >= layer:
                    broken.append(f"{where}:{line}: {name} imports {other}, which is not below it in LAYERS")
    return broken


def test_imports_point_one_way() -> None:
    assert broken_import_rules(PACKAGE) == []


@pytest.mark.parametrize(
    ("name", "source", "expected"),
    [
        ("pav.py", "from bayescal.validation import check", None),
        ("pav.py", "from bayescal import __version__", None),
        ("pav.py", "from bayescal.tables import read", "not below it"),
        ("pav.py", "def f():\n    from . import inference", "not below it"),
        ("pav.py", "from bayescal import fit", "name a module"),
        ("pav.py", "import bayescal", "name a module"),
        ("pav.py", "import pymc as pm", "outside functions"),
        ("pav.py", "try:\n    import pytensor.tensor\nfinally:\n    pass", "outside functions"),
        ("calibrators/platt.py", "def f():\n    import pymc", None),
        ("calibrators/platt.py", "if typing.TYPE_CHECKING:\n    import pymc", None),
        ("calibrators/platt.py", "if TYPE_CHECKING:\n    pass\nelse:\n    import pymc", "outside functions"),
        ("calibrators/platt.py", "from .base import Base\nfrom ..validation import check", None),
        ("calibrators/platt.py", "from ..plots import curve", "not below it"),
        ("inference/sample.py", "import nutpie", None),
        ("evaluation/metrics.py", "def f():\n    from pymc import Model", "never imports"),
        ("sundry.py", "", "has no layer"),
    ],
)
def test_import_rules_are_enforced(tmp_path: Path, name: str, source: str, expected: str | None) -> None:
    package = tmp_path / "bayescal"
    for known in ("__init__.py", "validation/__init__.py", "tables.py", "inference/seeds.py", "plots/curve.py", name):
        (package / known).parent.mkdir(parents=True, exist_ok=True)
        (package / known).touch()
    (package / name).write_text(source)
    broken = broken_import_rules(package)
    assert len(broken) == (expected is not None)
    assert expected is None or expected in broken[0]


def test_every_import_is_a_declared_dependency() -> None:
    requirements = PYPROJECT["project"]["dependencies"]
    declared = {re.match(r"[\w-]+", requirement)[0].lower() for requirement in requirements}
    distributions = importlib.metadata.packages_distributions()
    undeclared = {
        f"{path.relative_to(ROOT).as_posix()}:{line}: {target}"
        for _, parent, path in modules(PACKAGE)
        for target, line, _ in imports(path.read_text(encoding="utf-8"), parent)
        if (top := target.partition(".")[0]) not in sys.stdlib_module_names | {"bayescal"}
        if declared.isdisjoint(name.lower() for name in distributions.get(ARRIVES_WITH.get(top, top), []))
    }
    assert undeclared == set()


AT_EXIT = f"import atexit, sys; atexit.register(lambda: print('heavy:', {HEAVY} & {{*sys.modules}}))"
HELP = "import runpy; sys.argv[1:] = ['--help']; runpy.run_module('bayescal', run_name='__main__')"


@pytest.mark.parametrize(("program", "says"), [("import bayescal", ""), (HELP, "demo")], ids=["import", "help"])
def test_start_is_light(program: str, says: str) -> None:
    command = [sys.executable, "-W", "error", "-c", f"{AT_EXIT}\n{program}"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert says in done.stdout
    assert done.stdout.endswith("heavy: set()\n")


# ------------------------------------------------------------------------------
# What is documented
# ------------------------------------------------------------------------------


def public_objects(module: ModuleType) -> Iterator[tuple[str, bool]]:
    """(dotted name, whether it is named in an `__all__`) of what a user can reach from `module.__all__`."""
    assert hasattr(module, "__all__"), f"{module.__name__} is public: its `__all__` must say what is"
    for name in module.__all__:
        value = getattr(module, name)
        dotted = f"{module.__name__}.{name}"
        if inspect.ismodule(value):
            assert value.__doc__, f"{value.__name__} has no docstring"
            if re.search(r"^(def|class) ", inspect.getsource(value), re.MULTILINE):
                yield dotted, False  # numpydoc cannot read a module that only gathers names
            yield from public_objects(value)
        elif inspect.isclass(value):
            yield dotted, not issubclass(value, BaseException)
            ours = [base for base in value.__mro__ if base.__module__.partition(".")[0] == "bayescal"]
            members = {key: member for base in reversed(ours) for key, member in vars(base).items()}
            for key, member in members.items():
                if not key.startswith("_") and (callable(member) or inspect.isdatadescriptor(member)):
                    yield f"{dotted}.{key}", False
        elif callable(value):
            yield dotted, True


def docstring_faults(names: Iterable[tuple[str, bool]], checks: set[str]) -> list[str]:
    """What numpydoc objects to."""
    return [
        f"{name}: {code} {message}"
        for name, needs_example in names
        for code, message in validate(name)["errors"]
        if code in checks or (needs_example and code == "EX01")
    ]


def test_public_docstrings_are_complete() -> None:
    names = dict(public_objects(bayescal))
    assert names, "bayescal.__all__ is empty"
    assert docstring_faults(names.items(), set(PYPROJECT["tool"]["numpydoc_validation"]["checks"])) == []


# ------------------------------------------------------------------------------
# The specifications in models/
# ------------------------------------------------------------------------------


def code_lines(source: str, function: ast.FunctionDef) -> int:
    """Lines of a function without its docstring and blank lines."""
    numbers = set(range(function.lineno, (function.end_lineno or 0) + 1))
    if ast.get_docstring(function) is not None:
        numbers -= set(range(function.body[0].lineno, (function.body[0].end_lineno or 0) + 1))
    lines = source.splitlines()
    return sum(bool(lines[number - 1].strip()) for number in numbers)


def broken_model_rules(path: Path) -> list[str]:
    """What keeps a file from being a plain specification of one model."""
    source = path.read_text(encoding="utf-8")
    tree = ast.parse(source)
    broken = []
    if not ast.get_docstring(tree):
        broken.append("has no module docstring, the model card")
    for target, line, _ in imports(source, "models"):
        if target.partition(".")[0] not in IMPORTS_OF_MODELS:
            broken.append(f"line {line} imports {target}; only {sorted(IMPORTS_OF_MODELS)} are allowed")
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "model"]
    if len(functions) != 1:
        broken.append("needs exactly one function `model`")
    for function in functions:
        if (count := code_lines(source, function)) >= 40:
            broken.append(f"`model` has {count} lines of code; fewer than 40 are allowed")
    return [f"{path.name}: {fault}" for fault in broken]


def test_models_are_plain_specifications() -> None:
    paths = sorted((ROOT / "models").glob("*.py"))
    assert paths, "models/ is empty"
    assert [fault for path in paths for fault in broken_model_rules(path)] == []


PLAIN_MODEL = '''"""Card."""
import pymc as pm

def model(y):
    """One
    two."""

    with pm.Model() as m:
'''


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda source: source + "        pm.Normal('a')\n" * 36 + "    return m\n", []),
        (lambda source: source + "        pm.Normal('a')\n" * 37 + "    return m\n", ["40 lines"]),
        (lambda source: source.replace('"""Card."""', "") + "        pass\n", ["no module docstring"]),
        (lambda source: source + "        import bayescal.pav\n", ["imports bayescal.pav"]),
        (lambda source: source.replace("def model", "def build") + "        pass\n", ["exactly one"]),
    ],
    ids=["39 lines", "40 lines", "no card", "import", "no model"],
)
def test_model_rules_are_enforced(tmp_path: Path, change: Callable[[str], str], expected: list[str]) -> None:
    path = tmp_path / "plain.py"
    path.write_text(change(PLAIN_MODEL))
    broken = broken_model_rules(path)
    assert len(broken) == len(expected)
    assert all(part in fault for part, fault in zip(expected, broken, strict=True))
