"""What a report page shows: runs that are finished, diverged, stale and missing, and plans of tables over them."""

import html.parser
import json

from pipeline.record import sha256, write_json
from pipeline.tables import plan_name
from report.tables import build
from tests.report.folders import plan, reported, row, run

EVIL = '<script>window.pwned=1</script><img src=x onerror="window.pwned=1">'
LABEL = f"R&D's best {EVIL}"
VOID = {"meta", "img", "br", "link", "input", "hr"}
AROUND = {
    "ended": "2026-01-02T03:04:05+00:00", "lock": "10c4", "git": {"commit": "c0ffee", "dirty": True},
    "versions": {"python": "3.11.7", "torch": "2.14.1"}, "machine": "Linux <x86_64>", "device": "cpu", "devices": 1,
    "precision": "32-true",
}  # fmt: skip


def trained(results, recipe, seed, acc, history="epoch,total,push\n1,3,0.5\n2,2.5,0.25\n", dataset="d", **train):
    """A run in the folder that it has in a results folder, with all that its training leaves behind."""
    folder = results / "runs" / dataset / "full" / recipe / f"seed{seed}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "history.csv").write_text(history)
    settings = {"recipe": {"name": recipe, "batch_size": 64}, "protocol": {"name": "full"}}
    whole = AROUND | {"settings": settings, "seed": seed, "files": {"history.csv": sha256(folder / "history.csv")},
                      "diverged": None, "untaught": None, "base_seed": seed, "seconds": 9.5} | train  # fmt: skip
    fingerprint = whole.pop("fingerprint", "f")
    entry = run(folder, seed, acc, fingerprint, whole) | {"recipe": recipe, "dataset": dataset}
    prepared = {"prepare": {"fingerprint": "p", "code": "pc", "content": "c0", "settings": {"name": dataset}}}
    for path in (folder / "train.json", folder / "metrics/clustering/kmeans.json"):
        held = json.loads(path.read_text())
        write_json(path, held | {"records": prepared | held["records"]})
    return entry | {"expected": {"prepare": ["p", "pc"], **entry["expected"]}}


def card(results, name="d", **more):
    """A data card, and the source that a plan names it by."""
    record = {"fingerprint": "p", "code": "pc", "content": "c0", "seconds": 2.0, "ended": AROUND["ended"],
              "settings": {"title": f"Data {EVIL}"}}  # fmt: skip
    path = results / "data" / name / "card.json"
    held = {
        "name": name, "source": "a & b", "classes": 2, "class_names": ["cat", EVIL], "shape": [8, 8, 1],
        "splits": {"train": [0, 30], "test": [30, 40]}, "counts": {"train": [20, 10], "test": [6, 4]},
        "normalisation": {"mean": [0.5], "std": [0.25]}, "sha256": {"images.npy": "1a2b"},
        "notes": {"source_rows": list(range(500)), "split": 'by "hash" <0.2'}, "record": record, **more,
    }  # fmt: skip
    write_json(path, held)
    return {"output": str(path), "record": str(path), "stage": "prepare", "fingerprint": "p", "log": "prepare.log"}


def suite(folder):
    """(results folder, paths of the plans of two tables): three good runs of one recipe, and bad ones of another."""
    results = folder / "results"
    prepared = card(results)
    good = [trained(results, "good", seed, acc) for seed, acc in ((0, 0.5), (1, 0.75), (2, 0.25))]
    other = [trained(results, "other", seed, 0.4 + seed / 10) for seed in (0, 1)]
    bad = [
        trained(results, "bad", 0, 0.5, "epoch,total\n1,4\n2,inf\n", status="diverged",
                diverged={"epoch": 2, "term": "push"}),
        trained(results, "bad", 1, 0.5, fingerprint="of before"),
        trained(results, "bad", 2, 0.5),
    ]  # fmt: skip
    for path in (results / "runs/d/full/bad/seed2").rglob("*"):
        path.unlink() if path.is_file() else None
    (results / "runs/d/full/bad/seed2/train.log").write_text(f"error: {EVIL}\n")
    for entry in (*good, *other, *bad):
        entry["sources"].insert(0, prepared)
    rows = [
        row(LABEL, good, recipe="good", reported="them"),
        row("Second", other, recipe="other"),
        row("Bad", bad, recipe="bad"),
        {"label": "Theirs", "reported": "them", "runs": []},
        {"label": "Others'", "reported": "others", "runs": []},
    ]
    said = [reported("them", "80.5", note=f"page 3 {EVIL}"), reported("others", "90.25", std="")]
    more = {"datasets": {"d": f"Data {EVIL}"}, "reported": said, "note": f"A note {EVIL}"}
    first = plan(rows, csv=f"{results}/t.csv", paper_columns=True, **more)
    bands = {f"Data {EVIL}": {"ACC": 2.0}}
    compared = [row("Near", good, recipe="good", reported="them", bands=bands,
                    reported_dataset={f"Data {EVIL}": "CIFAR10"})]  # fmt: skip
    second = plan(compared, csv=f"{results}/mixem/u.csv", verdicts=True, **more) | {"name": "u", "title": EVIL}
    (results / ".plan").mkdir()
    paths = []
    for each in (first, second):
        text = json.dumps(each)
        paths.append(results / ".plan" / f"{plan_name(each['name'], text)}.json")
        paths[-1].write_text(text)
    (results / "t.csv").write_text("method\n")
    return results, paths


def plans(paths):
    return [json.loads(path.read_text()) for path in paths]


def tables(paths):
    """The tables as the other layouts get them."""
    return [build(each) for each in plans(paths)]


class Page(html.parser.HTMLParser):
    """A page as a tree is not needed: its elements, its links, the text of each cell; refuses tags out of order."""

    def __init__(self, text):
        super().__init__()
        self.open, self.elements, self.texts = [], [], {}
        self.feed(text)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag, attrs):
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), (tag, names)
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append((tag, len(self.elements) - 1))

    def handle_startendtag(self, tag, attrs):
        assert tag == "path", f"<{tag}/> is no HTML"  # of SVG
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        opened, _ = self.open.pop()
        assert opened == tag, f"</{tag}> ends <{opened}> in line {self.getpos()[0]}"

    def handle_data(self, data):
        within = self.open[-1:] if self.open and self.open[-1][0] in ("script", "style") else self.open
        for _, number in within:
            self.texts[number] = f"{self.texts.get(number, '')} {data}"

    def all(self, tag, **wanted):
        """(attributes, text) of the elements of a tag with these attributes."""
        return [
            (attrs, " ".join(self.texts.get(number, "").split()))
            for number, (name, attrs) in enumerate(self.elements)
            if name == tag and all(attrs.get(key.rstrip("_")) == value for key, value in wanted.items())
        ]
