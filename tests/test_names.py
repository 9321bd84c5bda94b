"""The names, paths, commands, extras and counts that the repository states are right.

Slow tests run in turn and prose does not run, so otherwise a mistake would be found late.
"""

import ast
import functools
import importlib
import inspect
import json
import pkgutil
import re
import tomllib
import types
from contextlib import suppress

import pytest

import dpjax
from dpjax import learners, papers
from dpjax.cli.commands import commands as group
from tests import ROOT, commands, entries, slow
from tests.attack import test_configurations, test_keys

FOLDERS = (*commands.FOLDERS, ".github")
FOUND = [
    *ROOT.iterdir(),
    ROOT / "findings" / "README.md",
    *(path for name in FOLDERS for path in (ROOT / name).rglob("*")),
]
FILES = {path.relative_to(ROOT).as_posix() for path in FOUND}
TEXT = (".cff", ".ci/run", ".in", ".ipynb", ".md", ".py", ".sh", ".toml", ".yml")
ROOMS = "|".join(info.name for info in pkgutil.iter_modules(dpjax.__path__))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# {name: the options of this command}
COMMANDS = {name: {"--help"}.union(*(option.opts for option in command.params))
            for name, command in group.commands.items()}  # fmt: skip
# Files that an example or a command makes, files of users and of others; attributes of variables.
NOT_HERE = {
    "LinBanditPrivate.py", "array.sh", "card.md", "pod.sh",
    "dpjax/compiled", "dpjax/learners/_greedy.py", "tests/learners/test_greedy.py",
    "results/card/card.md",
    "privacy.epsilon", "privacy.paper_epsilon", "study.json", "study.run",
    "study.tune", "notebooks/.ipynb_checkpoints",
}  # fmt: skip
WORD = re.compile(r"(?<![\w-])--[\w-]+|(?<![\w\\-])[a-zA-Z]\w{2,}")
# Words in code font that are names of other programs, or of a plan.
FOREIGN = {
    "--cpus-per-task", "--ntasks-per-node", "--xla_backend_extra_options",
    "--xla_cpu_max_isa", "--xla_force_host_platform_device_count", "CpuDevice", "CudaDevice",
    "Executor", "JAX_COMPILATION_CACHE_DIR", "JAX_ENABLE_COMPILATION_CACHE",
    "SLURM_CPUS_PER_TASK", "TabularPolicies", "cuda12",
    "get_dummies", "loggamma", "major", "nav", "optimization_barrier", "potrf",
    "private_ucbvi", "pth", "setLevel", "taskset", "trtrs", "xdist_group",
}  # fmt: skip


@functools.cache
def text_of(name, kinds=("code", "markdown")):
    """The text of a file; of a notebook, that of its cells of these kinds."""
    text = (ROOT / name).read_text()
    if not name.endswith(".ipynb"):
        return text
    cells = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] in kinds]
    return "\n".join("".join(cell["source"]) for cell in cells)


def program_of(name):
    """The Python program of a file; of a notebook, that of its code cells."""
    code = text_of(name, ("code",))
    if not name.endswith(".ipynb"):
        return code
    return re.sub(r"^( *)[%!]\w.*", r"\1pass", code, flags=re.MULTILINE)


def stated():
    """The files with statements about the present. The changelog is about the past."""
    names = {name for name in FILES if name.endswith(TEXT) and (ROOT / name).is_file()}
    names = {name for name in names if not name.startswith("findings/")}  # of other packages
    return sorted(names - {"CHANGELOG.md", "tests/test_names.py"})


def modules_of(tree) -> dict[str, types.ModuleType]:
    """The modules of the package by the names under which a file imports them."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "dpjax":
            for name in node.names:
                member = pkgutil.resolve_name(f"{node.module}.{name.name}")
                if isinstance(member, types.ModuleType):
                    found[name.asname or name.name] = member
        elif isinstance(node, ast.Import):
            for name in node.names:
                if name.name.split(".")[0] == "dpjax":
                    module = importlib.import_module(name.name if name.asname else "dpjax")
                    found[name.asname or "dpjax"] = module
    return found


def gone(text) -> list[str]:
    """``line: module.name`` for each attribute that a module of the package lacks."""
    tree = ast.parse(text)
    modules = modules_of(tree)
    uses = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    uses = [(node.lineno, getattr(node.value, "id", None), node.attr) for node in uses]
    return [
        f"{line}: {name}.{attribute}"
        for line, name, attribute in uses
        if name in modules and not hasattr(modules[name], attribute)
    ]


@pytest.mark.parametrize("folder", ["tests", "benchmarks", "examples", "notebooks"])
def test_names_of_the_package_exist(folder):
    files = [name for name in FILES if re.fullmatch(rf"{folder}/.*\.(py|ipynb)", name)]
    assert {name: found for name in files if (found := gone(program_of(name)))} == {}


def test_a_name_that_is_gone_is_found():
    assert gone("from dpjax.cli import audits\naudits.pairs_for\naudits.build") == [
        "2: audits.pairs_for"
    ]
    with pytest.raises(AttributeError):
        gone("from dpjax import no_such_learner")


@functools.cache
def is_name(path) -> bool:
    """Whether a dotted path is a module of the package, or an object in one."""
    for find in (lambda path: eval(path, {"dpjax": dpjax}), pkgutil.resolve_name):
        with suppress(ImportError, AttributeError):
            find(path)
            return True
    return False


def names(text):
    """Dotted names that begin with dpjax or, in code font, with the name of one of its packages."""
    found = re.findall(rf"(?:(?<![\w/.\[-])dpjax\.|`(?=(?:{ROOMS})\.))([a-zA-Z][\w.]*\w)", text)
    return {path for path in {*found} if not is_name(f"dpjax.{path}")}


def takes(function, keywords) -> bool:
    """Whether a function has parameters of these names."""
    with suppress(TypeError, ValueError):
        inspect.signature(function).bind_partial(**dict.fromkeys(keywords))
        return True
    return False


def calls(text):
    """Calls in code font with keywords, such as ``exp3(rate=)``, that fit no public function."""
    lost = set()
    for span in re.findall(r"`(\w[\w.]*\([^`]*=[^`]*\))`", text):
        with suppress(SyntaxError):
            for call in ast.walk(ast.parse(re.sub(r"=(?=[,)])", "=0", span))):
                if isinstance(call, ast.Call):
                    *room, name = ast.unparse(call.func).split(".")
                    rooms = [getattr(dpjax, x, None) for x in room or ROOMS.split("|")]
                    rooms = [x for x in rooms if name in getattr(x, "__all__", ())]
                    asked = [keyword.arg for keyword in call.keywords]
                    if rooms and not any(takes(getattr(x, name), asked) for x in rooms):
                        lost.add(span)
    return lost


def paths(text):
    """Paths from the root, in which ``<x>`` and ``{x}`` are anything, and names of source files."""
    folders = "|".join(FOLDERS)
    found = re.findall(rf"(?<![\w/.$<-])(?:\.\./)*((?:{folders})/[\w./*<>{{}}-]*)", text)
    for joined in re.findall(rf'"(?:{folders})"(?: / "[\w.-]+")+', text):
        found.append("/".join(re.findall(r"[\w.-]+", joined)))
    found = {re.sub(r"<\w*>?|\{\w*\}?|NAME", "*", path).rstrip("./") for path in found}
    lost = {path for path in found - FILES if not any(ROOT.glob(path))}
    files = re.findall(r"(?<![\w/.*<>{}$-])([\w/-]+\.(?:ipynb|md|py|sh|toml|yml))\b", text)
    return lost | {file for file in files if not any(f"/{x}".endswith(f"/{file}") for x in FILES)}


@functools.cache
def known_words():
    """The words and options of all programs, without docstrings and comments, and of file names."""
    code = [text_of(name) for name in stated() if name.endswith((".py", ".sh"))]
    code = [re.sub(r'r?"""[\s\S]*?"""|(?<!["\'])#.*', "", text) for text in code]
    asked = [*COMMANDS.values()]
    asked += [re.findall(r'"(--[\w-]+)"', text) for text in code]
    return FOREIGN.union(*asked, *map(WORD.findall, [*code, *FILES, *NOT_HERE]))


def words(text):
    """Words in code font that occur in no program, and options of no program."""
    spans = re.findall(r"(?<!`)`([^`\n]+)`|(?<!`)``([^`]+)``", commands.FENCED.sub("", text))
    spans = [span for pair in spans for span in pair if not re.match(commands.COMMAND, span)]
    return {word for word in WORD.findall(" ".join(spans)) if word not in known_words()}


def options(text):
    """Commands of dpjax, scripts, and options of both, each command in one line of a text."""
    lost, folders = set(), "|".join(FOLDERS)
    program = rf"\bpython3? (?:-m )?((?:{folders})[./][a-z\d_./]*[a-z\d_])(?![\w./])([^`]*)"
    for line in re.split(r"&&|[\n#;|\"]", text.replace("\\\n", " ")):
        for mark, name, words in re.findall(r"(`?)\bdpjax ([a-z]+)([^`]*)", line):
            asked = re.findall(r" (--[a-z][\w-]*)", words)
            if name in COMMANDS:
                lost |= {f"{name} {option}" for option in asked if option not in COMMANDS[name]}
            elif mark or asked:
                lost.add(name)
        for script, words in re.findall(program, line):
            path = script if script.endswith(".py") else f"{script.replace('.', '/')}.py"
            frame = f"{path.rpartition('/')[0]}/frame.py"  # of the referees
            source = "".join(text_of(file) for file in (path, frame) if file in FILES)
            asked = re.findall(r" (--[a-z][\w-]*)", words)
            lost |= {f"{path} {option}" for option in asked if f'"{option}"' not in source}
            lost |= {path} - FILES
    return lost


def extras(text):
    """Extras of dpjax that a command or a message asks for."""
    asked = ",".join(re.findall(r"(?:dpjax|'\.)\[([a-z,]+)\]", text)).split(",")
    return {*asked} - {"", *PROJECT["optional-dependencies"]}


CHECKS = (names, calls, paths, words, options, extras)
checked = pytest.mark.skipif(not (ROOT / "dpjax").is_dir(), reason="dpjax is not in this folder")


@checked
@pytest.mark.parametrize("check", CHECKS)
def test_all_that_is_stated_exists(check):
    lost = {}
    for name in stated():
        if "/test_" in name and check is not names:
            continue  # Tests invent files and words.
        text = text_of(name)
        if check is options and name.endswith(".md"):
            text = "\n".join(commands.printed(ROOT / name))
        if found := check(text) - NOT_HERE:
            lost[name] = found
    assert lost == {}


@checked
def test_all_exceptions_are_needed():
    text = "\n".join(text_of(name) for name in stated() if "/test_" not in name)
    assert not [each for each in NOT_HERE | FOREIGN if each not in text]


@checked
@pytest.mark.parametrize(("statement", "lost"), entries("wrong_prose.txt"))
def test_a_statement_that_is_wrong_is_found(statement, lost):
    check, _, text = statement.partition(": ")
    assert globals()[check](text) == {lost} - {"-"}


DIAGNOSES = (ROOT / "tests" / "data" / "diagnoses.csv").read_text().splitlines()
# The scripts that compare dpjax with a clone.
CLONES = [name for name in FILES if re.fullmatch(r"benchmarks/referees/\w+\.py", name)
          and " --clone " in text_of(name)]  # fmt: skip
NUMBERS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
NUMBERS += ["ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen"]


@pytest.mark.parametrize(
    ("page", "sentence", "count"),
    [
        ("README.md", "More than {} [learners]", (len(learners.__all__) - 1) // 10 * 10),
        ("README.md", "[{} papers](docs/papers/index.md)", len(papers.__all__)),
        ("README.md", "the public code of {} papers", len(CLONES)),
        ("docs/referees.md", "with {} other libraries and repositories", len(CLONES) + 4),
        ("README.md", "{} patients (rounds)", len(DIAGNOSES) - 1),
        ("docs/guides/losses.md", "{} patients (rounds)", len(DIAGNOSES) - 1),
        ("README.md", "{} diagnostic rules (arms)", DIAGNOSES[0].count(",") + 1),
        ("docs/guides/losses.md", "{} diagnostic rules (arms)", DIAGNOSES[0].count(",") + 1),
        ("docs/attacks.md", "{} draws of `dpjax.noise`", len(test_keys.DRAWS)),
        ("docs/attacks.md", "and {} learners were called", len(test_keys.MADE)),
        ("docs/attacks.md", "each of {} JAX transformations", len(test_configurations.WITHIN)),
        (".ci/run", "one of {} parts of the slow tests", slow.PARTS),
        ("docs/contributing.md", "one of {} parts of the slow tests", slow.PARTS),
    ],
)  # fmt: skip
def test_counts(page, sentence, count):
    """In digits or in words."""
    word = NUMBERS[count] if count < len(NUMBERS) else str(count)
    text = " ".join(text_of(page).replace("\n#", "").split())
    assert any(sentence.format(x) in text for x in (count, word, word.capitalize()))


def test_versions():
    """The oldest versions that are tested are those that the project allows."""
    bounds = re.findall(r'"([\w-]+)>=([\d.]+)', (ROOT / "pyproject.toml").read_text())
    oldest = dict(re.findall(r"^([\w-]+)==([\d.]+)$", text_of("tests/oldest.txt"), re.MULTILINE))
    for name, version in bounds:
        assert f"{oldest.get(name, version)}.".startswith(f"{version}."), name
    assert {name.partition(">=")[0] for name in PROJECT["dependencies"]} <= oldest.keys()
    assert f"Python {PROJECT['requires-python'][2:]} or later" in text_of("README.md")
    assert f"\nversion: {dpjax.__version__}\n" in text_of("CITATION.cff")
