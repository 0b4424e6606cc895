"""Mutants of what a run shows."""

from tests.mutants.mutant import mutants

SHOWN = mutants(
    "pipeline/live.py",
    "tests/pipeline/test_live.py",
    dry_runs_are_shown=("settings.dryrun or ", ""),
    snakemakes_handler_stays=("            logger.removeHandler(own)\n", "            pass\n"),
    warnings_are_daily=("return record.levelno != logging.INFO or not", "return not"),
    words_of_failed_jobs_are_lost=("return not (self.stopped or self._failed(record.__dict__))", "return False"),
    exceptions_of_hooks_are_hidden=(" and self.run is not None and self.run.running:", ":"),
    cluster_errors_are_cut=('or facts.get("rule_msg") or facts.get("aux")', ""),
    faults_end_the_run=(
        "                self._lift()\n        except Exception as problem:",
        "                self._lift()\n        except OSError as problem:",
    ),
    touched_is_made=("if self.workflow.touch:", "if False:"),
)
SHOWN += mutants(
    "pipeline/watch.py",
    "tests/pipeline/test_watch.py",
    stopped_is_failed=(" and not self.stopped:", ":"),
    kept_jobs_run=("for job in everything if dag.needrun(job)}", "for job in everything}"),
    second_tries_stay_failed=("self.failed.remove(number)", "pass"),
)
SHOWN += mutants(
    "pipeline/remaining.py",
    "tests/pipeline/test_remaining.py",
    pace_is_that_of_before=("Samples(records, pace(run, records, now))", "records"),
    epochs_do_not_count=("return mean if job.epochs is None else START + mean * job.epochs", "return mean"),
    what_never_comes_counts=("and number not in never}", "}"),
    resources_are_endless=("all(value <= free[name] for name, value in uses)", "True"),
)
SHOWN += mutants(
    "pipeline/log_files.py",
    "tests/pipeline/test_log_files.py",
    old_logs_are_read=("if told >= since else []", ""),
    time_stands_still=("left - (now - told)", "left"),
)
SHOWN += mutants(
    "pipeline/lines.py",
    "tests/pipeline/test_lines.py",
    lines_may_break=("        if len(line) <= width:\n", "        if True:\n"),
)
SHOWN += mutants(
    "pipeline/summary.py",
    "tests/pipeline/test_summary.py",
    failed_table_is_shown_as_made=("_paths(job, job.outputs in undone)", "_paths(job, False)"),
    rows_of_the_papers_are_ours=("ours = [row for row in rows if any(row[name] for name in values)]", "ours = rows"),
)

MUTANTS = SHOWN
