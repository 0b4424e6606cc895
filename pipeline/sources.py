"""Everything that one row of a table is made from: outputs, their records, and what those records should hold.

A table that finds a stale record looks for the first one upstream, so that one command can remake it and what follows.
"""

from pipeline.runs import Row, Run
from pipeline.stages import Stage, Stages

Source = dict[str, str]


def sources(stages: Stages, results: str, run: Run, row: Row) -> list[Source]:
    """The row's sources, upstream first.

    Of each job an output, the file of its record, the stage as the record names it, and the fingerprint it should hold.
    """
    folder = f"{results}/{run.path}"
    found = [*_model(stages, results, run), _features(stages, folder, run)]
    if "probe" in row:
        name = row["probe"]
        record = f"{folder}/metrics/{name}.json"
        return [*found, _source(f"{folder}/metrics.json", record, f"probe/{name}", stages.probe(run, name))]
    name = row["assigner"]
    clusters, record = f"{folder}/clusters/{name}", f"{folder}/metrics/clustering/{name}.json"
    return [
        *found,
        _source(f"{clusters}.npz", f"{clusters}.json", f"assign/{name}", stages.assign(run, name)),
        _source(f"{folder}/metrics.json", record, f"score/{name}", stages.score(run, name)),
    ]


def _model(stages: Stages, results: str, run: Run) -> list[Source]:
    """Data, base, mined neighbours, and the run's own training."""
    data, folder = f"{results}/data/{run.dataset}/card.json", f"{results}/{run.path}"
    found = [_source(data, data, "prepare", stages.prepare(run.dataset))]
    if (base := stages.runs.base(run)) is not None:
        found += _model(stages, results, base)
        if mined := stages.runs.neighbours(run).values():
            found.append(_features(stages, f"{results}/{base.path}", base))
        for neighbours in mined:
            path = f"{results}/{base.path}/{neighbours.path}"
            found.append(_source(f"{path}.npz", f"{path}.json", "mine", stages.mine(base, neighbours)))
    return [*found, _source(f"{folder}/model.pt", f"{folder}/train.json", "train", stages.train(run))]


def _features(stages: Stages, folder: str, run: Run) -> Source:
    return _source(f"{folder}/features.npz", f"{folder}/features.json", "embed", stages.embed(run))


def _source(output: str, record: str, name: str, stage: Stage) -> Source:
    return {"output": output, "record": record, "stage": name, "fingerprint": stage.fingerprint}
