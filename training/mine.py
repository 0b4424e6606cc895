"""Stage `mine`: features of a base encoder -> the nearest neighbours of every training image, once and for all.

python -m training.mine --data results/data/digits --features some/folder/features.npz --array z --count 20 \\
    --splits train --out some/folder/neighbours/z20-train.npz

Van Gansbeke et al., SCAN (arXiv 2005.12320), step 2: cosine similarity, exact, no label. The list of a row begins with
the row itself, also where other images equal it.
"""

from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from methods.blocks.products import factor, product
from pipeline.options import Parser
from pipeline.record import Record, StageError, hashes, read_records, run_stage, whole, write_json
from preparation.arrays import read_arrays
from preparation.prepared import Prepared, check_made_from, open_prepared

BLOCK = 1 << 26  # similarities held at a time


def main() -> None:
    parser = Parser(description=__doc__)
    parser.add_argument("--data", required=True, help="prepared folder")
    parser.add_argument("--features", required=True, help="features.npz; features.json lies beside it")
    parser.add_argument("--array", required=True, choices=("h", "z"), help="backbone features or the head's embedding")
    parser.add_argument("--count", required=True, type=int, help="neighbours of a row, itself not counted")
    parser.add_argument("--splits", required=True, nargs="+", help="splits whose rows are each other's neighbours")
    parser.add_argument("--out", required=True, help="the .npz to write; its record goes beside it as .json")
    arguments = parser.parse_args()
    data = open_prepared(arguments.data)
    records = read_records(Path(arguments.features).with_name("features.json"), "embed")
    check_made_from(data, records, arguments.features)
    settings = {"array": arguments.array, "count": arguments.count, "splits": arguments.splits}
    record = Record("mine", ("training.mine",), settings, {"features": records["embed"]["fingerprint"]})
    rows = data.rows(arguments.splits)
    z = torch.from_numpy(read_arrays(arguments.features, records["embed"], arguments.array)[arguments.array][rows])
    near = nearest(z, arguments.count)
    with whole(arguments.out) as file:
        np.savez(file, neighbours=near.to(torch.int32).numpy(), rows=rows)
    own = record.finish(files=hashes(Path(arguments.out)), rows=len(rows), count=arguments.count)
    write_json(Path(arguments.out).with_suffix(".json"), {"records": {**records, "mine": own}})
    print(f"{arguments.out}: {arguments.count} neighbours of {len(rows)} rows")


def nearest(z: Tensor, count: int) -> Tensor:
    """z [N, d] -> [N, count + 1]: each row itself, then the rows of highest cosine similarity, best first."""
    if count >= len(z):
        raise StageError(f"{count} neighbours asked of {len(z)} rows; ask for at most {len(z) - 1}")
    if not torch.isfinite(z).all():
        raise StageError("the features are not finite: the base run diverged; mine those of another")
    z = F.normalize(z.float(), dim=1)
    parts = []
    for rows in torch.arange(len(z)).split(max(1, BLOCK // len(z))):
        similarity = product(factor(z[rows]), z)
        similarity[torch.arange(len(rows)), rows] = torch.inf
        parts.append(similarity.topk(count + 1, dim=1).indices)
    return torch.cat(parts)


def read_neighbours(path: str | Path, rows: np.ndarray, data: Prepared) -> tuple[Tensor, str]:
    """(neighbours [N, k + 1], fingerprint) of a file of this stage, if it was made of these `rows` of this data."""
    records = read_records(Path(path).with_suffix(".json"), "mine")
    check_made_from(data, records, path)
    record = records["mine"]
    near, known = read_arrays(path, record, "neighbours", "rows").values()
    if not np.array_equal(known, rows):
        raise StageError(
            f"{path}: neighbours of {len(known)} rows, this run uses {len(rows)} or others; mine those of its splits"
        )
    return torch.from_numpy(near).long(), record["fingerprint"]


if __name__ == "__main__":
    run_stage(main)
