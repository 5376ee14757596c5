"""Wheel and source archive: complete, and at work where only the runtime dependencies are installed;
the locks.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def built(target: str, factory: pytest.TempPathFactory) -> Path:
    """A folder with what hatchling makes, without network."""
    pytest.importorskip("hatchling")
    out = factory.mktemp(target)
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(out)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return out


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel as users get it."""
    return next(built("wheel", tmp_path_factory).glob("*.whl"))


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The root folder of the unpacked source archive."""
    out = built("sdist", tmp_path_factory)
    subprocess.run(
        ["tar", "-xzf", str(next(out.glob("*.tar.gz"))), "-C", str(out)], check=True, capture_output=True
    )
    return next(p for p in out.iterdir() if p.is_dir())


@pytest.fixture(scope="module")
def minimal(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the unpacked wheel and links to its runtime dependencies, and nothing else."""
    site = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    waiting, done = _requirements(next(site.glob("*.dist-info/METADATA")).read_text("utf-8")), set()
    while waiting:
        name = waiting.pop()
        if name in done:
            continue
        done.add(name)
        distribution = metadata.distribution(name)
        waiting += _requirements(str(distribution.read_text("METADATA")))
        for file in distribution.files or ():
            if ".." in file.parts or "__pycache__" in file.parts:
                continue
            target = site / file
            target.parent.mkdir(parents=True, exist_ok=True)
            if not target.exists():
                target.symlink_to(file.locate())
    return site


def _requirements(text: str) -> list[str]:
    """Names that a distribution requires here, without extras."""
    from packaging.requirements import Requirement

    rows = [
        Requirement(line.partition(":")[2].strip())
        for line in text.splitlines()
        if line.startswith("Requires-Dist:")
    ]
    return [r.name for r in rows if r.marker is None or r.marker.evaluate({"extra": ""})]


def _run(site: Path, code: str) -> subprocess.CompletedProcess[str]:
    """Run code where only `site` and the standard library can be imported."""
    start = f"import sys; sys.path[:] = [p for p in sys.path if 'site-packages' not in p] + [{str(site)!r}]\n"
    env = {"PATH": os.environ["PATH"], "OTEL_EXPORTER_PROMETHEUS_PORT": "0"}
    return subprocess.run(
        [sys.executable, "-I", "-S", "-c", start + code],
        capture_output=True,
        text=True,
        env=env,
        cwd=site,
        timeout=60,
        check=False,
    )


def test_the_wheel_is_complete(wheel: Path) -> None:
    """Every file of the package is in the wheel, data files and the typing marker included."""
    here = {
        str(p.relative_to(ROOT))
        for p in (ROOT / "lz_otel").rglob("*")
        if p.is_file() and "__pycache__" not in p.parts and p.suffix != ".pyc"
    }
    with zipfile.ZipFile(wheel) as archive:
        packed = {n for n in archive.namelist() if ".dist-info/" not in n}
    assert here == packed


def test_the_source_archive_is_a_checkout(sdist: Path) -> None:
    """Every file that git knows is in the source archive, as executable as it was."""
    asked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if asked.returncode or not (ROOT / ".git").exists():
        pytest.skip("not a checkout: git ls-files says nothing")
    tracked = [name for name in asked.stdout.split("\0") if name and (ROOT / name).is_file()]
    assert len(tracked) > 100
    assert [] == [name for name in tracked if not (sdist / name).is_file()]
    assert [] == [n for n in tracked if os.access(ROOT / n, os.X_OK) != os.access(sdist / n, os.X_OK)]


def test_links_lead_somewhere_in_the_source_archive(sdist: Path) -> None:
    """Every page in the archive, the README among them, links to files that are in it."""
    pages = [*sdist.glob("*.md"), *(sdist / "docs").glob("*.md")]
    links = [
        (p, t) for p in pages for t in re.findall(r"\]\((?!https?:|#)([^)#]+)[^)]*\)", p.read_text("utf-8"))
    ]
    assert sdist / "README.md" in {page for page, _ in links}
    assert [] == [(page.name, target) for page, target in links if not (page.parent / target).exists()]


def test_what_the_stack_mounts_is_in_the_source_archive(sdist: Path) -> None:
    """Every file of the project that docker-compose.yml names is in the archive."""
    named = re.findall(
        r"(?m)^\s*- \./([^:\s]+):|dockerfile: (\S+)", (sdist / "docker-compose.yml").read_text("utf-8")
    )
    assert len(named) > 5
    assert [] == [path for pair in named for path in pair if path and not (sdist / path).exists()]


def test_the_wheel_holds_licence_and_commands(wheel: Path) -> None:
    """Licence and notice go with the code; the command line is installed under its name."""
    with zipfile.ZipFile(wheel) as archive:
        names = {n.partition(".dist-info/")[2] for n in archive.namelist() if ".dist-info/" in n}
        entry = next(n for n in archive.namelist() if n.endswith("entry_points.txt"))
        commands = archive.read(entry).decode()
    assert {"licenses/LICENSE", "licenses/NOTICE", "METADATA"} <= names
    assert "lz-otel = lz_otel.cli:main" in commands


def test_runtime_dependencies_are_few(wheel: Path) -> None:
    """A host installs six packages for us, and no HTTP client: it has its own."""
    with zipfile.ZipFile(wheel) as archive:
        text = archive.read(next(n for n in archive.namelist() if n.endswith("METADATA"))).decode()
    runtime = {
        "msgspec",
        "opentelemetry-api",
        "opentelemetry-instrumentation-httpx",
        "opentelemetry-sdk",
        "prometheus-client",
        "structlog",
    }
    assert runtime == set(_requirements(text))


def test_minimal_install_works(minimal: Path) -> None:
    """Without httpx, httpx2 and every extra, ``instrument()`` returns, twice, and ``uninstrument()`` too."""
    program = ROOT / "tests" / "programs" / "minimal_install.py"
    done = _run(minimal, f"import runpy; runpy.run_path({str(program)!r})")
    assert (0, f"fine {_version()}\n") == (done.returncode, done.stdout), done.stderr


def test_command_line_without_its_extra_says_what_to_install(minimal: Path) -> None:
    """``lz-otel`` on a minimal install ends with the command to type, not with a traceback."""
    done = _run(minimal, "from lz_otel.cli import main\nsys.argv = ['lz-otel', 'demo']\nsys.exit(main())")
    assert 0 != done.returncode
    assert "pip install 'lz-otel[" in done.stderr
    assert "Traceback" not in done.stderr


def _version() -> str:
    match = re.search(r'__version__ = "(.+)"', (ROOT / "lz_otel" / "_version.py").read_text("utf-8"))
    assert match
    return match[1]


@pytest.mark.parametrize("lock", sorted((ROOT / "requirements").glob("*.txt")), ids=lambda p: p.name)
def test_locks_are_hashed_and_name_no_address(lock: Path) -> None:
    """Every locked requirement is exact and has hashes; no address of a registry is in a lock."""
    text = lock.read_text("utf-8")
    assert "://" not in text
    entries = [e for e in re.split(r"\n(?=\S)", re.sub(r"(?m)^\s*#.*\n", "", text)) if e.strip()]
    assert [] == [e.split()[0] for e in entries if "==" not in e.split()[0] or "--hash=sha256:" not in e]
    assert len(entries) > 0


def _locked(name: str) -> dict[str, str]:
    text = (ROOT / "requirements" / name).read_text("utf-8")
    return dict(re.findall(r"(?m)^([a-z0-9.-]+)==([^\s;]+)", text))


def test_the_demo_is_locked() -> None:
    """Its lock holds what the extra, the runtime and the build need,
    in the versions that are tested and audited.
    """
    from packaging.requirements import Requirement

    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    texts = project["project"]["dependencies"] + project["build-system"]["requires"]
    texts += [t for e in ("demo", "cli") for t in project["project"]["optional-dependencies"][e]]
    demo, tested = _locked("demo.txt"), _locked("dev.txt")
    needed = {Requirement(text).name for text in texts} - {project["project"]["name"]}
    assert set() == needed - set(demo)
    assert demo == {name: tested.get(name) for name in demo}
    assert "requirements/demo.txt" in (ROOT / "scripts" / "lock").read_text("utf-8")


DOCKERFILE = ROOT / "stack" / "Dockerfile"


def _instructions(word: str) -> list[str]:
    """Instructions of the first stage of the image of the demo, continued lines joined."""
    text = re.sub(r"\\\n\s*", "", DOCKERFILE.read_text("utf-8")).split("\nFROM ")[1]
    return re.findall(rf"(?m)^{word} (.+)$", text)


def test_the_image_holds_only_what_is_locked_by_hash() -> None:
    """Each ``pip install`` of the Dockerfile takes a lock with hashes,
    or the project alone and fetches nothing.
    """
    text = re.sub(r"\\\n\s*", "", DOCKERFILE.read_text("utf-8"))
    installs = re.findall(r"\binstall ([^&\n]+)", text)
    copied = " ".join(_instructions("COPY"))
    assert text.count("install") == len(installs) == 2
    locks, project = installs
    named = re.findall(r"-r (\S+)", locks)
    assert "--require-hashes" in locks
    assert ["requirements/demo.txt"] == named
    assert named[0] in copied
    assert [] == [
        word for word in locks.split() if not word.startswith("-") and word not in (":all:", *named)
    ]
    assert {"--no-deps", "--no-index", "--no-build-isolation", "."} <= set(project.split())
    assert "." == " ".join(word for word in project.split() if not word.startswith("-"))


@pytest.mark.skipif(os.environ.get("LZ_SLOW") != "1", reason="installs packages: set LZ_SLOW=1")
def test_the_commands_of_the_image_work(tmp_path: Path) -> None:
    """What the Dockerfile copies and runs makes an environment in which the demo ends with the truth."""
    source, venv = tmp_path / "src", tmp_path / "venv"
    source.mkdir()
    for instruction in _instructions("COPY"):
        *files, target = instruction.split()
        for file in files:
            copy = shutil.copytree if (ROOT / file).is_dir() else shutil.copy
            to = source / target if (ROOT / file).is_dir() else source / target / Path(file).name
            to.parent.mkdir(parents=True, exist_ok=True)
            copy(ROOT / file, to)
    for command in _instructions("RUN"):
        line = command.replace("/venv", str(venv)).replace("python -m venv", f"{sys.executable} -m venv")
        done = subprocess.run(
            ["sh", "-euc", line], cwd=source, capture_output=True, text=True, timeout=900, check=False
        )
        assert 0 == done.returncode, done.stdout + done.stderr
    env = {"PATH": os.environ["PATH"]}
    done = subprocess.run(
        [str(venv / "bin" / "lz-otel"), "demo", "--seconds", "2", "--port", "0"],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert 0 == done.returncode, done.stdout + done.stderr
