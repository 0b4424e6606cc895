"""Everything that one row of a table is made from: outputs, their records, what those records should hold, and logs.

A table that finds a stale record looks for the first one upstream, so that one command can remake it and what follows;
for a result that is not there it looks for the log of the job that failed.
"""

from pathlib import Path

from pipeline.runs import Row, Run
from pipeline.stages import Stage, Stages

Source = dict[str, str]


def sources(stages: Stages, results: str, run: Run, row: Row) -> list[Source]:
    """The row's sources, upstream first.

    Of each job an output, the file of its record, the stage as the record names it, the fingerprint it should hold, and
    its log (rules/*.smk).
    """
    folder, logs = f"{results}/{run.path}", _logs(results, run)
    found = [*_model(stages, results, run), _features(stages, results, run)]
    index, log = f"{folder}/metrics.json", f"{logs}_evaluate.log"
    if "probe" in row:
        name = row["probe"]
        record = f"{folder}/metrics/{name}.json"
        return [*found, _source(index, record, f"probe/{name}", stages.probe(run, name), log)]
    name = row["assigner"]
    clusters, record = f"{folder}/clusters/{name}", f"{folder}/metrics/clustering/{name}.json"
    assigned, assign_log = stages.assign(run, name), f"{logs}_assign_{name}.log"
    return [
        *found,
        _source(f"{clusters}.npz", f"{clusters}.json", f"assign/{name}", assigned, assign_log),
        _source(index, record, f"score/{name}", stages.score(run, name), log),
    ]


def _model(stages: Stages, results: str, run: Run) -> list[Source]:
    """Data, base, mined neighbours, and the run's own training."""
    data, folder = f"{results}/data/{run.dataset}/card.json", f"{results}/{run.path}"
    found = [_source(data, data, "prepare", stages.prepare(run.dataset), f"{results}/logs/{run.dataset}_prepare.log")]
    if (base := stages.runs.base(run)) is not None:
        found += _model(stages, results, base)
        if mined := stages.runs.neighbours(run).values():
            found.append(_features(stages, results, base))
        for neighbours in mined:
            path = f"{results}/{base.path}/{neighbours.path}"
            log = f"{_logs(results, base)}_mine_{Path(neighbours.path).name}.log"
            found.append(_source(f"{path}.npz", f"{path}.json", "mine", stages.mine(base, neighbours), log))
    trained, log = stages.train(run), f"{_logs(results, run)}_train.log"
    return [*found, _source(f"{folder}/model.pt", f"{folder}/train.json", "train", trained, log)]


def _features(stages: Stages, results: str, run: Run) -> Source:
    folder, log = f"{results}/{run.path}", f"{_logs(results, run)}_embed.log"
    return _source(f"{folder}/features.npz", f"{folder}/features.json", "embed", stages.embed(run), log)


def _logs(results: str, run: Run) -> str:
    """What the paths of a run's logs begin with."""
    return f"{results}/logs/{run.dataset}_{run.protocol}_{run.recipe}_seed{run.seed}"


def _source(output: str, record: str, name: str, stage: Stage, log: str) -> Source:
    return {"output": output, "record": record, "stage": name, "fingerprint": stage.fingerprint, "log": log}
