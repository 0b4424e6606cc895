"""What the documentation shows: files that it gives whole, and blocks of code."""

import re
from collections.abc import Mapping
from pathlib import Path

from tests.conftest import ROOT

PAGES = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")))
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# A line that names the file, and the block below it.
FILE = re.compile(r"^(Append to )?`([\w./]+)`[^\n]*:\n\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def section(page: str, title: str) -> str:
    """The text under a title of docs/{page}.md. Raises KeyError where there is no such title."""
    parts = re.split(r"^## (.*)\n", (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))[title]


def blocks(text: str, *languages: str) -> list[str]:
    """The blocks of code in the languages."""
    return [content for language, content in FENCE.findall(text) if language in languages]


def files(text: str) -> Mapping[str, tuple[bool, str]]:
    """path -> (whether it is appended, content) of every block whose file the line above names."""
    return {path: (bool(append), content) for append, path, content in FILE.findall(text)}


def write(root: Path, text: str) -> None:
    """Do what a section says: write its files below a folder, append what is to be appended."""
    for path, (append, content) in files(text).items():
        target = root / path
        assert target.exists() == append, path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text((target.read_text(encoding="utf-8") if append else "") + content, encoding="utf-8")
