"""The pages of docs: their programs run, their links resolve, and the site builds."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import matplotlib
import numpy as np
import pandas
import pytest
import xarray

import dpjax
from dpjax import environments, learners, mechanisms
from tests import ROOT, script

DOCS, PACKAGE = ROOT / "docs", Path(dpjax.__file__).parent
PAGES = sorted([ROOT / "README.md", ROOT / "benchmarks" / "README.md", *DOCS.rglob("*.md")])


def programs(path):
    return re.findall(r"^```python\n(.*?)^```", path.read_text(), flags=re.DOTALL | re.MULTILINE)


def studied(names):
    assert names["data"].final_regret.shape == (2, 2, 4, 2, 200)


def identified(names):
    found = names["found"].squeeze("environment")
    assert (found["error_low"] < 0.01).all() and (found["stopped"] == 1.0).all()
    assert (found["time"].diff("epsilon") < 0).all()  # more privacy, more rounds


def swept(name, shape):
    """A result of a sweep over epsilon: more privacy, more regret."""

    def check(names):
        assert names[name].regret.shape == shape
        assert (np.diff(names[name].regret[:, :, -1].mean(axis=1)) < 0).all()

    return check


def stored(names):
    assert names["data"].regret.shape == (1, 3, 400, 100)
    np.testing.assert_array_equal(names["kept"].regret, names["data"].regret[0])


def audited(names):
    assert names["verdict"].failed == ()
    np.testing.assert_allclose(names["verdict"].spent.max(), 1.0, rtol=1e-5)


def replayed(names):
    """All rounds count, and the interval contains the mean loss of the policy."""
    assert names["result"].tally.counted == 2000
    assert names["low"] < 0.7 * 0.2 + 0.1 * (0.4 + 0.6 + 0.8) < names["high"]


# The state after each program; for the others it suffices that they run.
LEAVES = {
    "guides/audits.md": audited,
    "guides/clusters.md": lambda names: names["study"].run("spread", part=(1, 4), progress=False),
    "guides/identification.md": identified,
    "guides/losses.md": replayed,
    "guides/mechanisms.md": swept("private_result", (3, 200, 100)),
    "guides/stores.md": stored,
    "guides/studies.md": studied,
    "guides/sweeps.md": swept("result", (3, 1000, 100)),
}  # fmt: skip
WITH_PROGRAMS = [str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md") if programs(page)]


@pytest.mark.parametrize("name", sorted(WITH_PROGRAMS))
def test_the_programs_of_a_page_run(name, tmp_path, monkeypatch):
    matplotlib.use("agg")
    monkeypatch.chdir(tmp_path)
    names = {}
    for program in programs(DOCS / name):
        exec(program, names)
    LEAVES.get(name, lambda names: None)(names)
    assert LEAVES.keys() <= {*WITH_PROGRAMS}


def test_the_errors_of_the_mechanisms_are_theirs():
    """The table of mechanisms, to its printed digits, from the factorizations."""
    row = r"^\| `(\w+)(?:\((\w+)=([\w*]+)\))?`.* \| ([\d.]+|none) \| ([\d.]+) \|$"
    rows = re.findall(row, (DOCS / "guides/mechanisms.md").read_text(), flags=re.MULTILINE)
    assert {name for name, *_ in rows} == set(mechanisms.__all__) - {"exact"}
    for name, argument, given, *printed in rows:
        arguments = {argument: eval(given)} if argument else {}
        for noise, error in zip(("laplace", "gaussian"), printed, strict=True):
            if error == "none":
                with pytest.raises(ValueError, match="^noise must be "):
                    getattr(mechanisms, name)(1024, noise=noise)
                continue
            mechanism = getattr(mechanisms, name)(1024, noise=noise, **arguments)
            draw = 2.0 if noise == "laplace" else 1.0
            sensitivity = mechanism.sensitivity[noise == "gaussian"]
            exact = sensitivity * np.sqrt(draw * mechanism.variance()[1:].mean())
            assert f"{exact:.3g}" == f"{float(error):.3g}", (name, noise)


def test_every_learner_mechanism_and_environment_is_named():
    named = (DOCS / "learners.md").read_text() + (DOCS / "guides/mechanisms.md").read_text()
    for name in [*learners.__all__, *mechanisms.__all__, *environments.__all__]:
        assert f"`{name}`" in named, name


def test_the_examples_of_trust_models_declare_them():
    rows = re.findall(r'^\| `"(\w+)"` \| .* \| `(.*)` \|$', (DOCS / "guides/trust.md").read_text(),
                      flags=re.MULTILINE)  # fmt: skip
    assert len(rows) == 6
    for model, example in rows:
        learner = eval(f"learners.{example}", {"learners": learners, "T": 64, "K": 3, "d": 2})
        assert learner.privacy.model == model


def anchors(path):
    """The anchors of a page's headings, as on GitHub and on the site."""
    text = re.sub(r"^```.*?^```", "", path.read_text(), flags=re.DOTALL | re.MULTILINE)
    heads = re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize(
    "page",
    [*PAGES, ROOT / "CHANGELOG.md", *(ROOT / "notebooks").glob("*.ipynb")],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_links_lead_somewhere(page):
    # without blocks of code and without inline code
    text = re.sub(r"^( *)```.*?^\1```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    for link in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`\n]*`", "`code`", text)):
        if re.match(r"[a-z]+:", link):
            continue
        file, _, anchor = link.partition("#")
        target = (page.parent / file).resolve() if file else page
        if target.is_relative_to(ROOT / "dpjax"):  # dpjax may be installed elsewhere
            target = PACKAGE / target.relative_to(ROOT / "dpjax")
        assert target.is_file(), f"{link}: no such file"
        assert not anchor or anchor in anchors(target), f"{link}: no such heading"


def test_the_navigation_has_every_page():
    """The site's build would warn, but it is slow."""
    named = re.findall(r": ([\w/.-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    pages = [path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")]
    assert sorted(named) == sorted([*pages, "benchmarks/README.md", "CHANGELOG.md"])


def source(path):
    """The file of a module, or of the module of a function."""
    while not (ROOT / (file := path.replace(".", "/") + ".py")).is_file():
        if (ROOT / (file := path.replace(".", "/") + "/__init__.py")).is_file():
            break
        path = path.rpartition(".")[0]
    return file


def test_pages_of_the_reference_link_to_their_source():
    """In the repository, such a page shows no docstrings."""
    for page in (DOCS / "reference").glob("*.md"):
        names = re.findall(r"^::: (\S+)$", page.read_text(), flags=re.MULTILINE)
        links = re.findall(r"^> - \[`(.*)`\]\(../../(.*)\)$", page.read_text(), flags=re.MULTILINE)
        assert links == [(name, source(name)) for name in names], page


def test_every_table_and_figure_of_a_paper_is_linked_from_its_page():
    for folder in [path for path in (DOCS / "papers").iterdir() if path.is_dir()]:
        page = (folder / "index.md").read_text()
        for file in folder.iterdir():
            assert file.name == "index.md" or f"]({file.name})" in page, file


COMMAND = re.compile(r"`(?:time )?(?:python|dpjax|pytest) [^`]+`")
# Pages whose tables have no measured numbers: names, notation, declarations, links.
NOT_MEASURED = {
    "README.md", "docs/concepts.md", "docs/engine.md", "docs/guides/losses.md",
    "docs/guides/trust.md", "docs/index.md", "docs/learners.md", "docs/newer.md",
    "docs/notebooks.md", "docs/papers/index.md", "docs/reference/index.md", "docs/surprises.md",
}  # fmt: skip


def test_every_figure_has_its_command_beneath_it():
    """In the gallery, the lines that draw a figure are above it."""
    for page in PAGES:
        if page.name == "gallery.md":
            continue
        lines = page.read_text().split("\n")
        for i, line in enumerate(lines):
            beneath = "\n".join(lines[i + 1 : i + 5]).partition("![")[0]
            assert not line.startswith("![") or COMMAND.search(beneath), (page, line)


def test_every_section_of_the_gallery_draws_its_figure():
    page = (DOCS / "gallery.md").read_text()
    sections = script("docs/gallery.py").sections()
    assert len(sections) == page.count("\n## ") == len(programs(DOCS / "gallery.md"))
    for name, code in sections.items():
        assert f"](gallery/{name}.png)" in page and len(code.strip().split("\n")) <= 20
        assert f"](gallery/{name}.png)](gallery.md#{name})" in (DOCS / "index.md").read_text()
    assert {path.stem for path in (DOCS / "gallery").iterdir()} == set(sections)


def test_every_measured_table_has_its_command_and_can_be_had_as_csv():
    tables = script("docs/tables.py").tables
    for page in PAGES:
        name, text = page.relative_to(ROOT).as_posix(), page.read_text()
        if name in NOT_MEASURED or not tables(text):
            continue
        assert ".csv)" in text or f"`python docs/tables.py {name}`" in text, name
        for section in re.split(r"^(?=#+ )", text, flags=re.MULTILINE):
            assert not tables(section) or COMMAND.search(section), section[:80]


def test_tables_of_a_page_as_csv(tmp_path, capsys):
    page = tmp_path / "page.md"
    page.write_text(
        "# A *page*: one\n\n```\n| no | table |\n|---|---|\n```\n| a | L\\* |\n|:--|--:|\n"
        "| `x \\| y` | 1, 2 |\n|  | [two](far.md) |\n\ntext\n\n| b |\n|---|\n| 3 |\n"
    )
    script("docs/tables.py").main([str(page), "--out", str(tmp_path)])
    names = ["a-page-one.csv", "a-page-one-2.csv"]
    assert capsys.readouterr().out.split() == [str(tmp_path / name) for name in names]
    first, second = ((tmp_path / name).read_text() for name in names)
    assert first == 'a,L*\nx | y,"1, 2"\n,two\n' and second == "b\n3\n"
    for page in PAGES:
        for name, (head, *rows) in script("docs/tables.py").tables(page.read_text()).items():
            assert rows and {len(row) for row in rows} == {len(head)}, (page, name)


@pytest.mark.slow
def test_the_site_is_built_without_warnings(tmp_path):
    """With the extra ``docs``, which the extra ``test`` does not install."""
    for module in ("mkdocs", "material", "mkdocstrings"):
        if importlib.util.find_spec(module) is None:
            pytest.skip("the site needs: pip install -e '.[docs]'")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    learner = (tmp_path / "reference" / "learners" / "index.html").read_text()
    assert all(f'id="dpjax.learners.{name}"' in learner for name in learners.__all__)
    assert ":func:<code>" not in learner  # roles are links


# README.md ------------------------------------------------------------------------------------

README = (ROOT / "README.md").read_text()


def test_the_readme_is_short():
    assert len(README.splitlines()) <= 140


def test_the_study_of_the_readme_draws_a_figure(tmp_path, monkeypatch, capsys):
    matplotlib.use("agg")
    monkeypatch.chdir(tmp_path)
    (block,) = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    assert len([line for line in block.splitlines() if line.strip()]) <= 15
    names = {"__name__": "__main__"}
    exec(block, names)
    assert names["data"].final_regret.shape == (2, 2, 4, 200)
    assert (tmp_path / "mine.png").stat().st_size > 10000
    assert "DP-EXP3-Lap" in capsys.readouterr().out


def test_ci_runs_the_test_command_of_the_readme():
    """.ci/run looks for the one line of README.md, which sets everything up by itself."""
    (command,) = [line for line in README.splitlines() if "bin/pytest" in line and "&&" in line][:1]
    assert command.startswith("python3 -m venv .venv && ")
    assert README.index(command) == README.index("bin/pytest") - command.index("bin/pytest")
    assert "grep -m 1 'bin/pytest' README.md" in (ROOT / ".ci" / "run").read_text()


def test_numbers_of_the_findings_stand_on_the_pages_that_they_link():
    findings = README[README.index("## Seven findings") : README.index("## How to read privacy")]
    bullets = findings.split("\n- ")[1:]
    assert len(bullets) == 7
    for bullet in bullets:
        (path,) = re.findall(r"\]\((docs/[^)]*)\)", bullet)
        page = (ROOT / path).read_text()
        said = bullet.split(path)[1]
        for number in re.findall(r"\d[\d.^]*\d|\d", said):
            assert re.search(rf"(?<![\d.]){re.escape(number)}(?![\d])", page), (path, number)


# docs/which_learner ----------------------------------------------------------------------------

HERE = ROOT / "docs" / "which_learner"
which = script("docs/which_learner.py")


def test_the_page_is_that_of_its_csv_file():
    assert which.page(HERE) == (HERE / "index.md").read_text()


def test_the_csv_file_has_all_settings_and_learners_that_exist():
    found = pandas.read_csv(HERE / "regret.csv", keep_default_na=False)
    assert set(found["setting"]) == set(which.SETTINGS)
    for name, setting in which.SETTINGS.items():
        own = found[found["setting"] == name]
        names = set(own["learner"].str.removesuffix(which.BITS))
        assert names <= {*learners.__all__, *setting.more} - set(setting.slow)
        assert set(own["environment"]) == set(setting.games)
        assert set(own["horizon"]) == set(setting.horizons)
        assert set(own["epsilon"]) == set(which.EPSILONS)


def regret(apart=1.0):
    """Four learners with 16 trials: B is better than A by 0.1, and C and D are ``apart``."""
    noise = 0.01 * np.resize([1.0, -1.0], 16)
    levels = np.array([1.1, 1.0, 1.0 + apart, 0.5])[:, None] + noise * np.array([[1, 2, 3, 0.5]]).T
    own = np.stack([levels, levels])[None]  # one environment; two epsilons
    return xarray.DataArray(
        own.transpose(2, 0, 1, 3)[:, :, None],
        {"learner": [*"ABCD"], "environment": ["narrow gap"], "horizon": [8],
         "epsilon": [1.0, np.inf],
         "privacy_epsilon": (("learner", "epsilon"), [[1, 9], [1, 9], [0.5, 9], [2, 9]]),
         "privacy_model": (("learner", "epsilon"), [["central"] * 2, ["joint"] * 2,
                                                    ["local"] * 2, ["local"] * 2])},
        ["learner", "environment", "horizon", "epsilon", "trial"],
    )  # fmt: skip


cell = which._cell


def test_learners_compete_if_their_declaration_and_their_model_allow_it():
    """D declares 2 where 1 is asked for, so it competes without privacy only."""
    found = which.rows("a setting", regret())
    served = (found["epsilon"] == 1.0) & (found["trust"] == "the server")
    assert set(found["learner"][served]) == {*"ABC"}
    assert cell(found, 1.0, "the server").startswith("`B` 1 ± ")
    assert cell(found, 1.0, "no one").startswith("`C` 2")
    assert cell(found, np.inf, "the server").startswith("`D` 0.5")
    assert cell(found, np.inf, "no one") == ""
    assert found[found["learner"] == "C"]["standard_error"].iloc[0] == pytest.approx(
        float(regret().sel(learner="C", epsilon=1.0).std("trial", ddof=1).item()) / 4.0
    )


def test_learners_on_randomized_bits_do_not_compete_with_their_bases_without_privacy():
    own = regret().assign_coords(learner=["A", "B", f"C{which.BITS}", f"D{which.BITS}"])
    found = which.rows("a setting", own)
    assert cell(found, 1.0, "no one").startswith(f"`C{which.BITS}` 2")
    assert set(found["learner"][found["epsilon"] == np.inf]) == {"A", "B"}


@pytest.mark.parametrize(
    ("setting", "names"),
    [("4 arms, bandit feedback", ["dp_imed", "kl_ucb", "thompson", "tsallis_inf"]),
     ("10 arms, full information", ["ftrl on the simplex", "hedge", "limited_updates"])],
)  # fmt: skip
def test_learners_without_noise_play_in_the_local_model(setting, names):
    found = which.competitors(which.SETTINGS[setting])[0]
    for name in names:
        made = found[name + which.BITS](horizon=64, epsilon=0.5)
        declared = made.privacy
        assert (declared.model, declared.epsilon, declared.delta) == ("local", 0.5, 0.0), name
        assert made.action_set.count == int(setting.split()[0])


@pytest.mark.parametrize(("apart", "named"), [(1.0, "`B` 1 ± 0.0"), (0.001, ", `C`")])
def test_a_learner_that_is_not_clearly_worse_stays_in(apart, named):
    text = cell(which.rows("a setting", regret(apart)), 1.0, "the server")
    assert named in text and ("`C`" in text) == (apart < 0.1) and "`A`" not in text


@pytest.mark.slow
def test_the_command_writes_the_page(tmp_path):
    which.main(tmp_path, trials=4, quick=True, progress=False)
    page = (tmp_path / "index.md").read_text()
    assert page == which.page(tmp_path) and f"## {which.QUICK}" in page
    found = pandas.read_csv(tmp_path / "regret.csv", keep_default_na=False)
    assert set(found["learner"]) == set(which.competitors(which.SETTINGS[which.QUICK])[0])
    assert (found["trials"] == 4).all()
