"""Mutants of what makes data part of identity, of what is verified, and of runs beside each other."""

from tests.mutants.mutant import mutants

READ = "tests/training/test_integrity.py"
STATE = "tests/training/test_resume.py::test_two_unreadable_generations_start_anew"
FILES = mutants(
    "pipeline/data_files.py",
    "tests/pipeline/test_data_files.py",
    splits_in_the_order_of_the_file=("sorted(_places(spec, self.root))", "_places(spec, self.root)"),
    content_of_files_ignored=('f"{path.name}\\0{sha256(path)}\\0"', 'f"{path.name}\\0"'),
    names_of_files_ignored=('f"{path.name}\\0{sha256(path)}\\0"', 'f"{sha256(path)}\\0"'),
    folders_of_files_ignored=('f"{folder.relative_to(self.root)}\\0{self._group(', 'f"{self._group('),
    time_of_change_ignored=("{stat.st_mtime_ns}\\0{stat.st_ctime_ns}", "{stat.st_mtime_ns}"),
    nothing_is_cached=("before is None or before[0] != now", "True"),
    missing_files_make_stale=("if found in (MISSING, record.get", "if found in (record.get"),
    downloaded_files_make_stale=('found in (MISSING, record.get("sources"))', "found == MISSING"),
    class_lists_ignored=('[root / spec["class_list"]] if', "[] if"),
)
FILES += mutants(
    "pipeline/stages.py",
    "tests/pipeline/test_data_files.py",
    data_files_are_no_input=('{"sources": files} if files else {}', "{}"),
    named_files_are_no_input=("inputs |= self.sources.of_recipe(recipe)", "pass"),
)
VERIFIED = mutants(
    "pipeline/record.py",
    READ,
    damage_passes=("    if found != expected:\n        raise Damaged(", "    if False:\n        raise Damaged("),
)
VERIFIED += mutants(
    "training/train.py",
    READ,
    models_without_hash=('files=hashes(out / "model.pt", ', "files=hashes("),
    resume_of_other_data=("-{content(inputs.data.card)}", ""),
)
VERIFIED += mutants(
    "training/inputs.py",
    READ,
    base_of_other_data=("        check_made_from(data, records, path)\n", "        pass\n"),
)
VERIFIED += mutants(
    "training/checkpoint.py", STATE, flipped_state_is_taken_up=("_digest(path, content) != digest", "False")
)
VERIFIED += mutants(
    "training/checkpoint.py",
    "tests/training/test_resume.py::test_a_state_in_the_folder_of_another_run_is_not_taken_up",
    state_of_another_run_is_taken_up=("hashlib.sha256(path.parent.name.encode())", "hashlib.sha256()"),
)
VERIFIED += mutants(
    "pipeline/record.py",
    "tests/pipeline/test_record.py",
    changed_json_is_read=("    if not held:\n", "    if False:\n"),
    records_of_any_stage=("        if stage not in records:\n", "        if False:\n"),
)
VERIFIED += mutants(
    "pipeline/tables.py",
    "tests/pipeline/test_plan.py",
    plans_of_any_name=("if len(given) == 16 and", "if False and"),
)
VERIFIED += mutants(
    "evaluation/evaluate.py",
    f"{READ} tests/evaluation/test_evaluate.py",
    edited_results_are_kept=('made["fingerprint"], made["result"]', 'made["fingerprint"], fingerprint(result=result)'),
    damage_is_a_result=("    except Damaged:\n        raise\n", ""),
)
VERIFIED += mutants(
    "evaluation/assign.py", READ, damage_is_not_possible=("        except Damaged:\n            raise\n", "")
)
VERIFIED += mutants(
    "preparation/prepared.py",
    READ,
    other_content_is_the_same=(
        '("content", content(data.card))',
        '("fingerprint", data.card["record"]["fingerprint"])',
    ),
    splits_are_no_content=("splits=ranges, sources=sources)", "sources=sources)"),
    sources_are_no_content=("splits=ranges, sources=sources)", "splits=ranges)"),
)
LOCKS = mutants(
    "pipeline/locks.py",
    "tests/pipeline/test_locks.py",
    living_runs_are_unlocked=("    if _taken(file, LOCK_EX):\n", "    if True:\n"),
    dead_runs_stay_locked=("if owner != platform.node() or elsewhere:", "if True:"),
    every_host_is_this_one=("if owner != platform.node() or elsewhere:", "if elsewhere:"),
    jobs_of_a_cluster_die_too=("if owner != platform.node() or elsewhere:", "if owner != platform.node():"),
    another_hosts_run_is_marked=("if file.readline().strip() == platform.node() and not", "if not"),
    damaged_notes_stay=("            path.unlink()\n", "            pass\n"),
    two_checkouts_at_once=("        if not alone:\n", "        if False:\n"),
    one_run_of_a_checkout=("    _taken(file, LOCK_SH)\n    _held[", "    _held["),
)
FILES += mutants(
    "preparation/image_files.py",
    "tests/training/test_files.py",
    edited_files_are_read=("    if found != expected:\n        happened", "    if False:\n        happened"),
    files_are_hashed_without_the_cache=("DataFiles(data.data_root, cache)", "DataFiles(data.data_root, None)"),
)
FILES += mutants(
    "training/feed.py",
    "tests/training/test_files.py",
    nobody_looks_for_edited_files=("        check_unchanged(data)\n", ""),
)
MUTANTS = [*FILES, *VERIFIED, *LOCKS]
