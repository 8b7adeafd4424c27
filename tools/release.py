"""A release: wheel and source built, checked, installed where nothing is and used there; and what is left for a person.

``make dist`` builds and checks. ``make release`` runs every test before it and says at the end what no machine should
do; with ``VERSION=1.0.0`` it first writes that version and today's date wherever they stand. The version stands in
``clusterlab.__version__``, its date and all else that a citation needs in ``CITATION.cff``; ``codemeta.json`` is made
of both and of ``pyproject.toml``.
"""

from __future__ import annotations

import argparse
import datetime
import json
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import venv
import zipfile
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]
DIST = ROOT / "_build" / "dist"
PACKAGES = "clusterlab", "explorable"
NAMES = "import importlib.metadata as m; print(*sorted(one.name for one in m.distributions()))"
AGAIN = "python tools/release.py --write"
COMMAND = ["plan", "--model", "Llama 3.1 70B", "--tokens", "1T", "--gpus", "1024", "--accelerator", "H100 SXM"]


def version() -> str:
    """Return the library's version, as its source says it."""
    (found,) = re.findall(r'^__version__ = "(.+)"$', (ROOT / "lib/clusterlab/__init__.py").read_text("utf-8"), re.M)
    return found


def citation() -> dict:
    """Return ``CITATION.cff``."""
    return yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))


def codemeta() -> dict:
    """Return what ``codemeta.json`` says: the citation and the package in the terms of CodeMeta 3."""
    cited, project = citation(), tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    known = {"codeRepository": cited.get("repository-code"), "url": cited.get("url"), "identifier": cited.get("doi")}
    return {
        "@context": "https://w3id.org/codemeta/3.0",
        "type": "SoftwareSourceCode",
        "name": cited["title"],
        "description": cited["abstract"],
        "author": [{"type": "Organization", "name": one["name"]} for one in cited["authors"]],
        "version": cited["version"],
        "dateModified": cited["date-released"],
        "license": [f"https://spdx.org/licenses/{name}" for name in cited["license"]],
        "keywords": cited["keywords"],
        "programmingLanguage": f"Python {project['requires-python']}",
        "softwareRequirements": project["dependencies"],
        "developmentStatus": "active",
        **{key: value for key, value in known.items() if value},
    }


def entries() -> dict[str, str]:
    """Return the headings of ``CHANGELOG.md``: version to date, and "Unreleased" to nothing, newest first."""
    found = re.findall(r"^## (\S+)(?: - (\S+))?$", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.M)
    return dict(found)


def disagreements() -> list[str]:
    """Return what the files that state a version, its date or its parts say differently."""
    cited, known, found = citation(), entries(), []
    if cited["version"] != version():
        found.append(f"CITATION.cff cites {cited['version']}, the library is {version()}")
    if known.get(version()) != str(cited["date-released"]):
        found.append(f"CHANGELOG.md has no entry '## {version()} - {cited['date-released']}'")
    if json.loads((ROOT / "codemeta.json").read_text("utf-8")) != codemeta():
        found.append(f"codemeta.json is not made of CITATION.cff and pyproject.toml: {AGAIN}")
    return found


def write(new: str | None) -> None:
    """Write a new version with today's date wherever they stand, if one is given, and ``codemeta.json``."""
    if new:
        if not re.fullmatch(r"\d+\.\d+\.\d+", new):
            raise SystemExit(f"VERSION must be three numbers, such as 1.0.0, got {new!r}")
        today = entries().get(new) or datetime.datetime.now(datetime.UTC).date().isoformat()
        heading = "## Unreleased" if new in entries() else f"## Unreleased\n\n## {new} - {today}"
        for name, old, now in (
            ("lib/clusterlab/__init__.py", r'^__version__ = ".*"$', f'__version__ = "{new}"'),
            ("CITATION.cff", r"^version: .*$", f"version: {new}"),
            ("CITATION.cff", r"^date-released: .*$", f'date-released: "{today}"'),
            ("CHANGELOG.md", r"^## Unreleased$", heading),
        ):
            text, times = re.subn(old, now, (ROOT / name).read_text("utf-8"), flags=re.M)
            if times != 1:
                raise SystemExit(f"{name} must have one line like {old}, it has {times}")
            (ROOT / name).write_text(text, encoding="utf-8")
        (ROOT / "pyproject.toml").touch()  # so that make installs the library anew, under its new version
    (ROOT / "codemeta.json").write_text(json.dumps(codemeta(), indent=2) + "\n", encoding="utf-8")


def wheel(folder: Path) -> Path:
    """Build the wheel of a copy of the sources, with the setuptools of this environment, and return it."""
    source = folder / "source"
    shutil.copytree(ROOT / "lib", source / "lib", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for name in ("pyproject.toml", "LICENSE"):
        shutil.copy(ROOT / name, source)
    options = "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", folder
    run(sys.executable, "-m", "pip", "wheel", *options, source)
    return next(folder.glob("*.whl"))


def missing(built: Path) -> list[str]:
    """Return what a wheel lacks of the packages, and what it has besides."""
    with zipfile.ZipFile(built) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
        (about,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        needs = re.findall(r"^Requires-Dist: (?!.*\bextra ==)(.*)$", archive.read(about).decode(), re.M)
    paths = (path for package in PACKAGES for path in (ROOT / "lib" / package).rglob("*") if path.is_file())
    wanted = {path.relative_to(ROOT / "lib").as_posix() for path in paths if "__pycache__" not in path.parts}
    found = [f"lacks {name}" for name in sorted(wanted - held)] + [f"has {name}" for name in sorted(held - wanted)]
    return found + ([] if needs == ["numpy>=2.0"] else [f"needs {needs}, and not NumPy alone"])


def empty(folder: str) -> Path:
    """Make an environment with nothing in it, and return its Python."""
    venv.create(folder, symlinks=True)
    return next(path for path in Path(folder).glob("*/python*") if path.stem == "python")


def install(python: Path, *what: str | Path) -> None:
    """Install packages into another environment; that one needs no pip."""
    run(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", *what)


def use(installed: Path) -> None:
    """Install a wheel or a source distribution where nothing is, and run the examples of its README and the command."""
    with tempfile.TemporaryDirectory() as folder:
        python = empty(folder)
        install(python, installed)
        names = run(python, "-c", NAMES).split()
        if names != ["clusterlab", "numpy"]:
            raise SystemExit(f"{installed.name} brings {names}, and not NumPy alone")
        run(python, "-I", "-m", "doctest", ROOT / "lib" / "README.md")
        command = python.with_name("clusterlab")
        if run(command, "--version").strip() != f"clusterlab {version()}":
            raise SystemExit(f"{installed.name} is not clusterlab {version()}")
        if "H100" not in run(command, *COMMAND):
            raise SystemExit("clusterlab plan says nothing of the H100s that it was asked for")
    print(f"  {installed.name}: installed with NumPy alone; the examples of its README and {' '.join(COMMAND[:1])} run")


def run(*command: str | Path) -> str:
    """Run a command outside the sources, and return what it prints; where it fails, say what it said."""
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, cwd=tempfile.gettempdir())
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def build() -> None:
    """Build source and wheel, the wheel from the source, as an index gets them; check both and use both."""
    DIST.mkdir(parents=True, exist_ok=True)
    for old in DIST.iterdir():
        old.unlink()
    with tempfile.TemporaryDirectory() as folder:
        python = empty(folder)
        install(python, "build", "setuptools", "twine")
        run(python, "-m", "build", "--no-isolation", "--outdir", DIST, ROOT)
        run(python, "-m", "twine", "check", "--strict", *DIST.iterdir())
    (built,), (source,) = DIST.glob("*.whl"), DIST.glob("*.tar.gz")
    if found := missing(built):
        raise SystemExit("\n".join([f"{built.name}:", *found]))
    with tarfile.open(source) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    if others := {name.partition("/")[0] for name in held} & {"tests", "course", "book", "bench", "sphinx_ext"}:
        raise SystemExit(f"{source.name} has {sorted(others)}")
    if lacks := {"LICENSE", "CITATION.cff", "CHANGELOG.md", "lib/README.md", "pyproject.toml"} - held:
        raise SystemExit(f"{source.name} lacks {sorted(lacks)}")
    print(f"{DIST}:")
    for one in (built, source):
        use(one)


def left() -> list[str]:
    """Return what is left for a person, in order."""
    cited, known, steps = citation(), list(entries()), []
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    waiting = re.search(r"^## Unreleased\n(.*?)(?=^## )", text, re.M | re.S)
    if known[:1] == ["Unreleased"] and waiting and waiting[1].strip():
        steps.append("Give what is Unreleased in CHANGELOG.md a version and today's date: make release VERSION=X.Y.Z")
    for key, what in (("repository-code", "the repository's address"), ("url", "the site's address")):
        if key not in cited:
            steps.append(f"Add {key} to CITATION.cff, {what}, and to [project.urls] in pyproject.toml; {AGAIN}")
    if run("git", "-C", ROOT, "status", "--porcelain").strip():
        steps.append(f'Commit: git commit --all --message "Version {version()}"')
    tag = f"v{version()}"
    steps += [
        f'Tag and push: git tag --annotate {tag} --message "Version {version()}"; git push origin main {tag}',
        "Wait for the workflow: it tests on Python 3.11 to 3.14 and publishes the site",
        f"Publish to the package index, with a token of yours: pipx run twine upload {DIST.relative_to(ROOT)}/*",
        f"Make a release of {tag} in the repository, with its entry of CHANGELOG.md and the two files; an archive that "
        "follows the repository's releases (Zenodo) gives it a DOI",
    ]
    if "doi" not in cited:
        steps.append(f"Add that DOI to CITATION.cff (doi: ...): {AGAIN}; the next commit has it")
    return steps


def main() -> None:
    """Do what the arguments say."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--write", nargs="?", const="", metavar="VERSION", help="write codemeta.json, or a new version")
    parser.add_argument("--build", action="store_true", help="build, check and use wheel and source")
    parser.add_argument("--left", action="store_true", help="say what is left for a person to do")
    asked = parser.parse_args()
    if asked.write is not None:
        write(asked.write or None)
    if found := disagreements():
        raise SystemExit("\n".join(found))
    if asked.build:
        build()
    if asked.left:
        print(f"\nTo release clusterlab {version()}, what is left for you:")
        for number, step in enumerate(left(), 1):
            print(f"  {number}. {step}")


if __name__ == "__main__":
    main()
