"""A tracking store that is down, busy or broken: it is a mirror, and no table may suffer."""

import sqlite3

from tests.campaign.case import Case, Outcome, Setting, require
from tests.campaign.site import Site, line

WARNING = "were not mirrored into MLflow at"


def _warned(site: Site, setting: Setting, env: dict[str, str] | None = None) -> Outcome:
    """The table is made although the store fails, with one warning."""
    expected = Site(setting.finished).table()
    site.without_table()
    said = site.made(env=env)
    site.require_table(expected)
    require(said.count(WARNING) == 1, f"{said.count(WARNING)} warnings instead of one")
    outcome = Outcome("exit status 0, the same table, one warning")
    outcome.tell(line(said, WARNING))
    return outcome


def down(setting: Setting) -> Outcome:
    """Nobody listens."""
    return _warned(Site.copy(setting.finished, setting.folder), setting, {"MLFLOW_TRACKING_URI": "http://127.0.0.1:9"})


def locked(setting: Setting) -> Outcome:
    """Another process writes to the store for longer than anyone waits."""
    site = Site.copy(setting.finished, setting.folder)
    site.without_table()
    site.made()  # makes the store
    store = sqlite3.connect(site.results / "mlflow.db", isolation_level=None)
    try:
        store.execute("begin exclusive")
        outcome = _warned(site, setting)
    finally:
        store.close()
    site.without_table()
    said = site.made()
    outcome.seen += "; once it is free it is mirrored"
    outcome.tell(line(said, "MLflow: "))
    return outcome


def corrupt(setting: Setting, damage: str) -> Outcome:
    """The store's file is no database (any more)."""
    site = Site.copy(setting.finished, setting.folder)
    path = site.results / "mlflow.db"
    if damage == "text":
        path.write_text("no database")
    else:
        site.without_table()
        site.made()
        content = path.read_bytes()
        path.write_bytes(content[: len(content) // 2])
    return _warned(site, setting)


CASES = [
    Case("tracker-down", "MLFLOW_TRACKING_URI=http://127.0.0.1:9", down),
    Case("tracker-locked", "mlflow.db in an exclusive transaction of another process", locked),
    Case("tracker-text", "mlflow.db is no database", lambda setting: corrupt(setting, "text")),
    Case("tracker-cut", "mlflow.db is cut off in the middle", lambda setting: corrupt(setting, "cut")),
]
