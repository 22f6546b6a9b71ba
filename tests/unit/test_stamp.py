"""tools/stamp: a version that rises with the commits; commit and date are of git, or else as in the sources."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import nri

ROOT = Path(__file__).parent.parent.parent
DATE = "2031-02-03"
WHO = {"NAME": "a", "EMAIL": "a", "DATE": f"{DATE}T04:05:06Z"}
ENVIRONMENT = {
    **{f"GIT_{of}_{key}": value for of in ("AUTHOR", "COMMITTER") for key, value in WHO.items()},
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "GIT_CONFIG_GLOBAL": "/dev/null",
}


def run(cwd: Path, *words: str) -> str:
    done = subprocess.run(
        words, cwd=cwd, env=ENVIRONMENT, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def stamp(tree: Path, *words: str) -> str:
    return run(tree, sys.executable, str(tree / "tools/stamp"), *words)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A source tree without git."""
    tree = tmp_path / "tree"
    for name in ("tools", "nri"):
        (tree / name).mkdir(parents=True)
    shutil.copy(ROOT / "tools/stamp", tree / "tools")
    shutil.copy(ROOT / "nri/__init__.py", tree / "nri")
    return tree


@pytest.fixture
def repository(tree: Path) -> Path:
    """The same with a commit."""
    run(tree, "git", "init", "--quiet")
    commit(tree)
    return tree


def commit(tree: Path, *words: str) -> str:
    run(tree, "git", "add", "--all")
    run(tree, "git", "commit", "--quiet", "--allow-empty", "--message=a", *words)
    return run(tree, "git", "rev-parse", "--short=12", "HEAD")


def written(tree: Path) -> str:
    """Return what a program says that is built from the tree."""
    copy = tree.parent / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(tree / "nri", copy / "nri")
    shutil.copy(ROOT / "nri/version.py", copy / "nri")
    stamp(tree, str(copy / "nri/__init__.py"))
    return run(copy, sys.executable, "-c", "from nri.version import describe; print(describe())")


def test_without_git_the_commit_is_unknown(tree: Path) -> None:
    assert written(tree) == f"{nri.__version__} (commit unknown)"


def test_without_a_tag_it_is_a_development_version(repository: Path) -> None:
    (repository / "nri/new.py").touch()
    head = commit(repository)
    commit(repository)  # changes no source
    assert written(repository) == f"{nri.__version__}.dev2+g{head} (commit {head}, {DATE})"


def test_the_version_is_the_tags_and_how_many_commits_came_since(repository: Path) -> None:
    commit(repository)
    run(repository, "git", "tag", "v7.8.9")
    run(repository, "git", "tag", "nightly")
    assert written(repository).startswith("7.8.9 (commit ")
    commit(repository)
    (repository / "nri/new.py").touch()
    head = commit(repository)
    assert written(repository) == f"7.8.9+2.g{head} (commit {head}, {DATE})"


def test_a_tree_with_changes_says_so(repository: Path) -> None:
    (repository / "notes").write_text("goes into no build")
    assert "dirty" not in written(repository)
    (repository / "nri/new.py").touch()
    assert "-dirty, " in written(repository)


def test_commit_without_a_changed_source_changes_no_build(repository: Path) -> None:
    key = stamp(repository, "--key")
    (repository / "README.md").touch()
    commit(repository)
    assert stamp(repository, "--key") == key
    (repository / "nri/new.py").touch()
    dirty = stamp(repository, "--key")
    commit(repository)
    assert len({key, dirty, stamp(repository, "--key")}) == 3
    run(repository, "git", "tag", "v7.8.9")
    assert stamp(repository, "--key").startswith("7.8.9 ")
