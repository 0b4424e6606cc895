"""What a run would be made of: every value of a recipe on a data set, the file it comes from and its comment there.

python -m pipeline.show mixem cifar10
python -m pipeline.show mixem cifar10 --diff simclr          # only what differs from another recipe
python -m pipeline.show mixem digits_200 --suite smoke       # with a suite's overrides
python -m pipeline.show --list                               # every name that config/ knows
"""

import contextlib
import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from pipeline import catalogue, recipes, suites, wings
from pipeline.layers import layers
from pipeline.options import Parser
from pipeline.record import run_stage

Keys = tuple[str, ...]


def main(words: Sequence[str] | None = None) -> None:
    """`words`: the command line without the program; by default sys.argv."""
    parser = Parser(prog="show", description=__doc__)
    parser.add_argument("recipe", nargs="?", help="a recipe or variant: mixem, mixem-paper")
    parser.add_argument("dataset", nargs="?", help="a data set of config/datasets")
    parser.add_argument("--suite", help="take the overrides of this suite; default: of none")
    parser.add_argument("--diff", metavar="RECIPE", help="show only what differs from this recipe on the data set")
    parser.add_argument("--list", action="store_true", help="name everything there is, one line each")
    arguments = parser.parse_args(words)
    if arguments.list:
        lines = listing()
    elif not (arguments.recipe and arguments.dataset):
        parser.error("give a recipe and a data set, or --list")
    else:
        overrides = suite_overrides(arguments.suite) if arguments.suite else None
        lines = shown(arguments.recipe, arguments.dataset, overrides)
        if arguments.diff:
            lines = difference(arguments.recipe, arguments.diff, arguments.dataset, overrides)
    with contextlib.suppress(BrokenPipeError):  # `| head` has seen enough
        print("\n".join(lines), flush=True)


def shown(name: str, dataset: str, overrides: Mapping[str, Any] | None = None) -> list[str]:
    """A line for each value of the resolved recipe: key, value, where it stands, its comment."""
    resolved = recipes.resolve(name, dataset, overrides)
    sources = origins(name, dataset, overrides)
    rows = []
    for keys, value in leaves({key: value for key, value in resolved.items() if key != "name"}):
        rows.append((".".join(keys), _text(value), _source(keys, resolved, sources, dataset, overrides)))
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    return [f"{key:<{widths[0]}}  {value:<{min(widths[1], 40)}}  {source}".rstrip() for key, value, source in rows]


def difference(first: str, second: str, dataset: str, overrides: Mapping[str, Any] | None = None) -> list[str]:
    """A line for each value that two recipes do not share on a data set: key, the first's, the second's."""
    one, two = (dict(leaves(recipes.resolve(name, dataset, overrides))) for name in (first, second))
    lines = []
    for keys in [*one, *(keys for keys in two if keys not in one)]:
        if keys != ("name",) and (keys not in one or keys not in two or one[keys] != two[keys]):
            values = [_text(side[keys]) if keys in side else "-" for side in (one, two)]
            lines.append(f"{'.'.join(keys)}: {values[0]} | {values[1]}")
    return [f"{first} | {second} on {dataset}", *(lines or ["no difference"])]


def listing() -> list[str]:
    """Every name that config/ and the wings know, one line each with its title or first comment."""
    lines = []
    for kind in ("data set", "family", "augmentation", "protocol", "table", "figure", "assigner", "probe", "metric"):
        lines.append(f"{kind}s:".replace("familys", "families"))
        for name in catalogue.names(kind):
            file = catalogue.places(catalogue.KINDS[kind][0])[name]
            keys = (name,) if catalogue.KINDS[kind][0].endswith(".yaml") else ()
            title = catalogue.entry(kind, name).get("title") or _comment(file, keys)
            lines.append(f"  {name:<28} {title}".rstrip())
    lines.append("recipes:")
    for name in recipes.names():
        stem, _, variant = name.partition("-")
        file = catalogue.places("recipes")[stem]
        lines.append(f"  {name:<28} {_comment(file, ('variants', variant) if variant else ())}".rstrip())
    lines.append("suites:")
    for file in catalogue.places("suites").values():
        lines.append(f"  {file.stem:<28} {_comment(file, ())}".rstrip())
    for wing, folder in wings.WINGS.items():
        lines.append(f"algorithms in {folder}: {', '.join(wings.wing_names(wing))}")
    return lines


def suite_overrides(name: str) -> dict[str, Any]:
    """The overrides of a suite of config/suites."""
    return suites.configuration(suites.suite_file(name))["overrides"]


def origins(
    name: str, dataset: str, overrides: Mapping[str, Any] | None = None
) -> dict[Keys, tuple[Path | None, Keys]]:
    """Key of the resolved recipe -> (file, keys that lead to the value there) of the layer that gave it last."""
    sources: dict[Keys, tuple[Path | None, Keys]] = {}
    for layer in layers(name, dataset, overrides):
        for keys, _ in leaves(layer.content):
            sources[keys] = layer.file, (*layer.keys, *keys)
    return sources


def _source(
    keys: Keys,
    resolved: Mapping[str, Any],
    sources: Mapping[Keys, tuple[Path | None, Keys]],
    dataset: str,
    overrides: Mapping[str, Any] | None,
) -> str:
    """File and comment of one value; a network is that of the first recipe in the line of bases."""
    if keys[0] == "network" and keys[1] not in recipes.TREATMENTS and (base := resolved.get("base")):
        other = base.get("dataset", dataset)
        below = recipes.resolve(base["recipe"], other, overrides)
        place = _source(keys, below, origins(base["recipe"], other, overrides), other, overrides)
        return place if place.startswith("as its base") else f"as its base {base['recipe']}: {place}"
    return _place(keys, sources)


def _place(keys: Keys, sources: Mapping[Keys, tuple[Path | None, Keys]]) -> str:
    if keys not in sources:
        return ""
    file, path = sources[keys]
    if file is None:
        return ".".join(path[:2])
    where, comment = catalogue.short(file), _comment(file, path)
    if keys[0] == "augmentation" and (preset := _preset(file, path)):
        where += f" -> config/augmentations/{preset}.yaml"
    return f"{where}  # {comment}" if comment else where


def _preset(file: Path, path: Keys) -> str:
    """The preset that the layer's augmentation names, unless the layer itself writes the value."""
    value: Any = catalogue.read_yaml(file)
    start = path.index("augmentation")
    for key in path[: start + 1]:
        value = value.get(key, {}) if isinstance(value, Mapping) else {}
    if isinstance(value, str):
        return value
    if not isinstance(value, Mapping) or path[start + 1 :] in dict(leaves(value)):
        return ""
    return str(value.get("preset", ""))


def leaves(content: Mapping[str, Any], before: Keys = ()) -> Iterator[tuple[Keys, Any]]:
    """(keys, value) of every value that is no mapping, or an empty one."""
    for key, value in content.items():
        if isinstance(value, Mapping) and value:
            yield from leaves(value, (*before, key))
        else:
            yield (*before, key), value


def _comment(file: Path, path: Keys) -> str:
    """The comment on the line of a key, or alone on the line above; without keys, the file's first sentence."""
    lines = file.read_text(encoding="utf-8").splitlines()
    if not path:
        head = list(itertools.takewhile(lambda line: line.startswith("#"), lines))
        return " ".join(line[1:].strip() for line in head).partition(". ")[0].rstrip(".")
    number = _lines_of(file, file.stat().st_mtime_ns).get(path)
    if number is None:
        return ""
    if " # " in lines[number]:
        return lines[number].partition(" # ")[2].strip()
    indents = [len(line) - len(line.lstrip()) for line in lines[max(number - 1, 0) : number + 1]]
    above = lines[number - 1].strip() if number > 1 and indents[0] == indents[-1] > 0 else ""
    return above[1:].strip() if above.startswith("#") else ""


@functools.lru_cache(maxsize=256)
def _lines_of(file: Path, _mtime: int) -> dict[Keys, int]:
    """Keys -> line of every key of a YAML file; what an anchor brings stands where the anchor is."""
    numbers: dict[Keys, int] = {}

    def visit(node: yaml.Node | None, before: Keys) -> None:
        if not isinstance(node, yaml.MappingNode):
            return
        for key, value in node.value:
            if key.tag == "tag:yaml.org,2002:merge":
                visit(value, before)
            else:
                numbers[(*before, key.value)] = key.start_mark.line
                visit(value, (*before, key.value))

    visit(yaml.compose(file.read_text(encoding="utf-8"), Loader=yaml.SafeLoader), ())
    return numbers


def _text(value: Any) -> str:
    return "none" if value is None or value == {} else str(value)


if __name__ == "__main__":
    run_stage(main)
