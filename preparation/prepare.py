"""Stage `prepare`: official files -> prepared folder.

python -m preparation.prepare --dataset digits --out results/data/digits
"""

import os
from pathlib import Path

from pipeline.catalogue import entry_or_json
from pipeline.data_files import MISSING, DataFiles
from pipeline.options import Parser
from pipeline.record import Record, StageError, run_stage
from preparation.prepared import write_prepared
from preparation.readers import read


def main() -> None:
    parser = Parser(description=__doc__)
    parser.add_argument("--dataset", required=True, help="name in config/datasets, or its configuration as JSON")
    parser.add_argument("--out", required=True, help="folder to write")
    parser.add_argument("--data-root", default=os.environ.get("BENCH_DATA_ROOT"), help="folder of the official files")
    parser.add_argument("--sources", help="hash that the official files must have; by default, of those there")
    parser.add_argument("--sources-cache", help="file of hashes that are known already")
    download = os.environ.get("BENCH_DOWNLOAD") == "1"
    parser.add_argument("--download", action="store_true", default=download, help="let readers fetch missing files")
    arguments = parser.parse_args()
    name, spec = entry_or_json("data set", arguments.dataset)
    found = DataFiles(arguments.data_root, arguments.sources_cache).hash(spec)
    expected = arguments.sources or found
    if expected not in (found, MISSING):
        raise StageError(
            f"{name}: the files behind it changed since snakemake started ({expected} expected, {found} found): run "
            "the same command again"
        )
    inputs = {"sources": expected} if expected else {}
    record = Record("prepare", ("preparation.prepare",), settings={"name": name, **spec}, inputs=inputs)
    raw = read(spec, Path(arguments.data_root) if arguments.data_root else None, arguments.download)
    if found == MISSING or spec["source"] == "torchvision":  # downloaded, or unpacked beside its archives, just now
        found = DataFiles(arguments.data_root).hash(spec)
    card = write_prepared(
        arguments.out, name, spec, raw.images, raw.labels, raw.splits, raw.source, record, raw.notes, raw.root,
        raw.class_names, found, raw.objects,
    )  # fmt: skip
    print(f"{name}: {len(raw.labels)} images {card['shape']}, splits {raw.splits}, from {raw.source}")


if __name__ == "__main__":
    run_stage(main)
