"""The front door: one command for what people ask of the benchmark.

./run bench table table2 --seeds 0-4          tables of the default suite
./run bench table --suite smoke --dry         what would run, and why
./run bench figure digits_embeddings
./run bench show mixem digits                 what a recipe is made of
./run bench WORD --help

It says which `snakemake ...` it runs; that command does the same by hand.
"""

import importlib
import importlib.util
import sys

from pipeline import asked, catalogue, make, suites
from pipeline.naming import ConfigError, suggestion
from pipeline.record import run_stage

# word -> (module whose `main` takes the words after it, what it does)
COMMANDS = {
    "table": ("pipeline.make", "make tables of a suite: all, or those that are named"),
    "figure": ("pipeline.make", "make figures: those of the suite, or those that are named"),
    "show": ("pipeline.show", "what a recipe is made of, and where each value stands"),
    "publish": ("report.publish", "write the results of a finished suite into reference/"),
    "verify": ("report.verify", "compare a finished suite with the published results, cell by cell"),
    "papers": ("report.papers", "how finished suites stand to the papers: verdicts of tables and claims"),
    "predict": ("pipeline.predict", "clusters and features of new images or vectors, by a finished run"),
}


def main(words: list[str] | None = None) -> None:
    """`words`: the command line without the program; by default sys.argv."""
    words = sys.argv[1:] if words is None else words
    known = commands()
    if not words or words[0] in ("-h", "--help", "help"):
        print(__doc__.strip() + "\n\nwords:")
        print("\n".join(f"  {word:<10} {text}" for word, (_, text) in known.items()))
        return
    word, rest = words[0], words[1:]
    if word in known:
        module = known[word][0]
        if module == make.__name__:
            make.main(rest, word)
        else:
            importlib.import_module(module).main(rest)
        return
    if word.startswith("-") or asked.kinds_of(word):
        make.main(words, "")
        return
    if word in suites.names():
        raise ConfigError(f"{word!r} is a suite; its tables: ./run bench table --suite {word}")
    names = [*known, *catalogue.names("table"), *catalogue.names("figure"), *suites.names()]
    raise ConfigError(f"unknown word or table {word!r}; {suggestion(asked.name_of(word), names)}")


def commands() -> dict[str, tuple[str, str]]:
    """The commands whose modules are there."""
    return {word: entry for word, entry in COMMANDS.items() if importlib.util.find_spec(entry[0])}


if __name__ == "__main__":
    run_stage(main)
