#!/bin/sh
# What Snakemake asks of a cluster, said to LSF, PBS or SGE, whichever is there:
#   scheduler.sh submit THREADS MEM_MB MINUTES GPUS JOBSCRIPT    prints the number of the job
#   scheduler.sh status JOB                                      prints running, success or failed
#   scheduler.sh JOB...                                          cancels them
# BENCH_SUBMIT holds more words for the submit command, for example "-q gpu -P thesis".
set -eu

if command -v bsub >/dev/null; then scheduler=lsf
elif command -v qsub >/dev/null; then scheduler=${SGE_ROOT:+sge}; scheduler=${scheduler:-pbs}
else echo "scheduler.sh: neither bsub nor qsub on PATH; load the module of your cluster's scheduler" >&2; exit 1
fi

submit() {
  threads=$1 memory=$2 minutes=$3 gpus=$4 script=$5
  name=$(basename "$script" .sh) logs=.snakemake/cluster
  name=$(echo "${name#snakejob.}" | cut -c 1-15) # longer names are refused by some
  mkdir -p "$logs"
  # shellcheck disable=SC2086 # BENCH_SUBMIT is words
  case $scheduler in
  lsf)
    [ "$gpus" = 0 ] || set -- "$@" -gpu "num=$gpus"
    shift 5
    said=$(bsub ${BENCH_SUBMIT:-} -J "$name" -n "$threads" -R "span[hosts=1] rusage[mem=${memory}MB]" -M "${memory}MB" \
      -W "$minutes" -o "$logs/$name.%J.log" "$@" "$script")
    echo "$said" | sed -n 's/^Job <\([0-9]*\)>.*/\1/p'
    ;;
  pbs)
    [ "$gpus" = 0 ] || gpu=:ngpus=$gpus
    qsub ${BENCH_SUBMIT:-} -V -N "$name" -l "select=1:ncpus=$threads:mem=${memory}mb${gpu:-}" \
      -l "walltime=$minutes:00" -j oe -o "$logs/" "$script"
    ;;
  sge)
    [ "$gpus" = 0 ] || set -- "$@" -l "gpu=$gpus"
    [ "$threads" = 1 ] || set -- "$@" -pe smp "$threads"
    shift 5
    qsub ${BENCH_SUBMIT:-} -terse -V -cwd -S /bin/sh -N "$name" -l "mem_free=${memory}M,h_rt=0:$minutes:0" \
      -j y -o "$logs/" "$@" "$script"
    ;;
  esac
}

# A job that the scheduler cannot be asked about just now counts as running; one that it has forgotten has failed.
status() {
  case $scheduler in
  lsf)
    case $(bjobs -noheader -o stat "$1" 2>&1 || true) in
    DONE*) echo success ;;
    EXIT* | ZOMBI* | *"not found"*) echo failed ;;
    *) echo running ;;
    esac
    ;;
  pbs)
    case $(qstat -x -f "$1" 2>&1 || true) in
    *"job_state = F"*"Exit_status = 0"* | *"Exit_status = 0"*"job_state = F"*) echo success ;;
    *"job_state = F"* | *"Unknown Job Id"*) echo failed ;;
    *) echo running ;;
    esac
    ;;
  sge)
    # The accounting file is written a moment after the job has left the queue.
    if said=$(qstat -j "$1" 2>&1); then
      case $said in *"error reason"*) echo failed ;; *) echo running ;; esac
    else
      qacct -j "$1" 2>/dev/null | awk '
        $1 == "failed" || $1 == "exit_status" { seen = 1; bad = bad || $2 != 0 }
        END { print !seen ? "running" : bad ? "failed" : "success" }'
    fi
    ;;
  esac
}

case $1 in
submit | status) "$@" ;;
*) if [ $scheduler = lsf ]; then bkill "$@"; else qdel "$@"; fi ;;
esac
