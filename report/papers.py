"""How finished suites stand to the papers -> results/papers.md: verdicts of the tables' cells and of the claims.

./run bench papers results                                # of the default suite
./run bench papers results/digits_all results/dcrl_cpu    # of several results folders
./run bench papers results/digits_all --docs              # also docs/results/*.md and the score in README.md

Nothing is run: a result that is missing or stale counts as not run; without a folder all of them do. Of a claim that
several folders judge on the same data set and protocol the one with most seeds counts; a stand-in (other data or
another protocol than the paper's) is counted apart.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from pipeline.options import Parser
from pipeline.provenance import ROOT
from pipeline.record import StageError, reading, run_stage, whole
from report.claims import LEGEND, SHOWN, VERDICTS, cells, header, markdown_row
from report.effects import ABOVE, BELOW, NO_VERDICT, NOT_RUN, WITHIN
from report.gathered import Counted, Gathered, Line, gather, titles
from report.tables import LOST

OF_CELLS = (WITHIN, ABOVE, BELOW, NO_VERDICT, LOST, NOT_RUN)
BEGIN, END = "<!-- score of the claims, written by `./run bench papers ... --docs` -->", "<!-- end of the score -->"
STANDINGS = (("its own data", False), ("stand-ins", True))
RULE = (
    "A cell is within where its mean and the paper's differ by at most twice the standard error of their difference,\n"
    "or by a band where the paper's spread or number of runs is not known; without either there is no verdict."
)


def main(words: list[str] | None = None) -> None:
    """`words`: the command line without the program; by default sys.argv."""
    parser = Parser(prog="bench papers", description=__doc__)
    parser.add_argument("folders", nargs="*", help="results folders of suites")
    parser.add_argument("--out", default="results/papers.md", help="the .md to write")
    parser.add_argument("--docs", action="store_true", help="also docs/results/*.md and the score in README.md")
    arguments = parser.parse_args(words)
    folders = list(dict.fromkeys(Path(folder) for folder in arguments.folders))
    found = gather(folders)
    command = " ".join(["./run bench papers", *map(str, folders)])
    texts = {Path(arguments.out): overview(found, command)}
    if arguments.docs:
        pages = {paper: page(found, paper, title, command) for paper, title in titles().items()}
        texts |= {ROOT / "docs" / "results" / f"{paper}.md": text for paper, text in pages.items()}
        texts[ROOT / "README.md"] = scored(ROOT / "README.md", score(found))
    for path, text in texts.items():
        with whole(path, "w") as file:
            file.write(text)
        print(path)


def overview(found: Gathered, command: str) -> str:
    """papers.md: the counts of every paper, then those of its tables."""
    text = ["# The papers, by our runs", "", f"Written by `{command}`; not by hand.", "", *_claims(found)]
    text += ["", *_tables(found.tables), "", RULE]
    return "\n".join(text) + "\n"


def page(found: Gathered, paper: str, title: str, command: str) -> str:
    """docs/results/{paper}.md: the counts of a paper's tables, and its claims one by one."""
    text = [
        f"# {title}",
        "",
        f"Written by `{command} --docs`; not by hand. The runs, their machines and how to read them:",
    ]
    text += ["[results.md](../results.md).", ""]
    text += _tables([table for table in found.tables if table.paper == paper], of_paper=False)
    text += ["", RULE, "", "## Claims", "", *_claims(found, [paper]), "", LEGEND, "", *header(SHOWN)]
    return "\n".join([*text, *(markdown_row(cells(line)) for line in found.of(paper))]) + "\n"


def score(found: Gathered) -> list[str]:
    """The score of the claims, a line for each paper."""
    lines = []
    for paper, title in titles().items():
        said = []
        for name, stands in STANDINGS:
            counts = _verdicts(found.of(paper), stands)
            judged = [f"{counts[verdict]} {verdict}" for verdict in VERDICTS if verdict != NOT_RUN and counts[verdict]]
            said += [f"on {name} {', '.join(judged)}"] if judged else []
        missing = sum(line["verdict"] == NOT_RUN for line in found.of(paper))
        said += [f"{missing} of {len({line['claim'] for line in found.of(paper)})} claims not run"] if missing else []
        lines.append(f"- [{title}](docs/results/{paper}.md): {'; '.join(said)}")
    return lines


def scored(path: Path, lines: Iterable[str]) -> str:
    """The text of a file with the score between its two marks. Raises StageError where they are not there."""
    with reading(path):
        text = path.read_text(encoding="utf-8")
    before, begin, rest = text.partition(f"{BEGIN}\n")
    _, end, after = rest.partition(f"{END}\n")
    if not begin or not end:
        raise StageError(f"{path}: the lines {BEGIN!r} and {END!r} are expected, between which the score goes")
    return "\n".join([f"{before}{BEGIN}", *lines, f"{END}\n"]) + after


def _verdicts(lines: Iterable[Line], stands: bool) -> Counter[str]:
    return Counter(line["verdict"] for line in lines if bool(line["stand_in"]) is stands)


def _claims(found: Gathered, papers: Iterable[str] | None = None) -> list[str]:
    text = header(["claims of", "judged on", *VERDICTS])
    named: Mapping[str, str] = titles()
    for paper in named if papers is None else papers:
        for name, stands in STANDINGS:
            counts = _verdicts(found.of(paper), stands)
            if counts:
                text.append(markdown_row([named[paper], name, *(str(counts[verdict]) for verdict in VERDICTS)]))
    return text


def _tables(tables: Iterable[Counted], of_paper: bool = True) -> list[str]:
    named = titles()
    text = header([*(["paper"] if of_paper else []), "table", "suite", *OF_CELLS])
    for table in sorted(tables, key=lambda each: each.paper):
        own = [named[table.paper]] if of_paper else []
        counts = (str(table.counts[verdict]) for verdict in OF_CELLS)
        text.append(markdown_row([*own, table.title, table.suite, *counts]))
    return text


if __name__ == "__main__":
    run_stage(main)
