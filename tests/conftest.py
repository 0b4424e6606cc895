"""What several test files need: prepared data, a copy of the project with a finished smoke suite, snakemake runs."""

import atexit
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import warm

# Test processes side by side, each with a thread for every core, would spend their time waiting for one another.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")

ROOT = Path(__file__).resolve().parent.parent
os.environ["BENCH_OWN"] = str(ROOT / "tests" / "nothing")  # tests see what is part of the project, nobody's own data
SMOKE = "config/suites/smoke.yaml"


SHARING = {  # files whose tests share what takes long to make, so that one test process makes it
    "smoke": tuple(f"/test_{name}.py" for name in ("staleness", "tracking", "campaign", "shown", "report", "verify")),
    "plans": ("test_builds.py", "test_every_network.py", "pipeline/test_plan.py"),  # of all suites
}


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Files go to the test processes whole, and those that share something go to one of them."""
    from xdist.scheduler import LoadFileScheduling

    class Shared(LoadFileScheduling):
        def _split_scope(self, nodeid):
            return _group(super()._split_scope(nodeid))

    return Shared(config, log)


def _group(nodeid: str) -> str:
    """What a test shares with others, or its file."""
    file = nodeid.partition("::")[0]
    return next((name for name, files in SHARING.items() if file.endswith(files)), file)


SLOW = (
    "tests/workflow",
    "tests/training/test_distributed.py",
    "tests/training/test_resume.py",
)  # processes of their own


def pytest_collection_modifyitems(items):
    """The longest groups begin first, so that both processes end together."""
    items.sort(key=lambda item: (_group(item.nodeid) != "smoke", not item.nodeid.startswith(SLOW)))


def pytest_configure(config):
    """The test processes share one server of warm Pythons, which is ready when the first of them asks."""
    if getattr(config.option, "numprocesses", None):
        warm_python()


def warm_python() -> str:
    """The folder of a `python` that starts at once (tests/warm.py)."""
    if "WARM_PYTHON" not in os.environ:
        folder = Path(tempfile.mkdtemp(prefix="warm"))
        server = warm.start(folder)  # it ends when its input does, which is when this process has ended
        atexit.register(lambda: (server.kill(), shutil.rmtree(folder, ignore_errors=True)))
        os.environ["WARM_PYTHON"] = str(folder)
    return os.environ["WARM_PYTHON"]


@dataclass
class Project:
    """A copy of the project in which tests may edit files and run the pipeline."""

    root: Path
    said: str = ""  # what its first run of the pipeline showed

    def environment(self, env: dict[str, str] | None = None) -> dict[str, str]:
        """What a command here finds, nothing of this process's own settings, and `env`."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("BENCH_", "SNAKEMAKE_", "MLFLOW_"))}
        return kept | {
            "PATH": os.pathsep.join([warm_python(), str(Path(sys.executable).parent), os.environ["PATH"]]),
            "PYTHONPATH": str(self.root),
            "BENCH_OWN": os.environ["BENCH_OWN"] if self.root == ROOT else str(self.root / "own"),
            "MLFLOW_DISABLE_TELEMETRY": "true",
            "BENCH_LOG": "full",  # tests read Snakemake's own messages
            **(env or {}),
        }

    def run(
        self, *command: str, env: dict[str, str] | None = None, timeout: int = 300, cwd: Path | None = None
    ) -> subprocess.CompletedProcess:
        return subprocess.run(
            command, cwd=cwd or self.root, env=self.environment(env), capture_output=True, text=True, timeout=timeout,
            check=False,
        )  # fmt: skip

    def snakemake(self, *words: str, env: dict[str, str] | None = None, timeout: int = 300):
        return self.run(
            "python", "-m", "snakemake", *words, "--cores", "2", "--configfile", SMOKE, env=env, timeout=timeout
        )

    def plan(self, name: str) -> Path:
        """The newest plan of a table of the smoke suite, or of the suite itself."""
        plans = self.root.glob(f"results/smoke/.plan/{name}-*.json")
        return max(plans, key=lambda path: path.stat().st_mtime_ns)

    def stage(self, module: str, *words: str, env: dict[str, str] | None = None, timeout: int = 120):
        return self.run("python", "-m", module, *words, env=env, timeout=timeout)


def copy_project(target: Path) -> Project:
    ignored = shutil.ignore_patterns(".git", ".venv*", ".snakemake", "__pycache__", ".*_cache", ".hypothesis", "own")

    def skip(folder: str, names: list[str]) -> set[str]:
        out = set(ignored(folder, names))
        if Path(folder) == ROOT / "results":
            out |= set(names) - {"README.md"}
        return out

    shutil.copytree(ROOT, target, ignore=skip)
    return Project(target)


@pytest.fixture(scope="session")
def project() -> Project:
    """The project itself, for stages that write elsewhere."""
    return Project(ROOT)


@pytest.fixture(scope="session")
def digits_200(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The prepared folder of 200 digits."""
    folder = tmp_path_factory.mktemp("data") / "digits_200"
    done = Project(ROOT).stage("preparation.prepare", "--dataset", "digits_200", "--out", str(folder))
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="session")
def smoke(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A copy of the project with a finished smoke suite. Tests that edit it put back what they found."""
    copied = copy_project(tmp_path_factory.mktemp("smoke") / "project")
    done = copied.snakemake("results/smoke/table2.csv", env={"BENCH_LOG": "live"})
    copied.said = done.stdout + done.stderr
    assert done.returncode == 0, copied.said
    return copied
