#!/bin/sh
# Runs the given test programs ("PROGRAM" or "PROGRAM BACKEND"), JOBS at a time (default: as many as
# there are cores), and closes with a line "N passed, N failed".
# A program that ends without counting its tests (a crash) counts as one failure.
#
# Each program has one thread, and tests of threads ask for theirs: two programs on two cores are done
# sooner than one on both. What a program frees it keeps for its next allocation, so that the system
# need not clear the same pages again; test_bytes and test_bytes_left, which count them, have them as
# users do. A program starts a second time where GOMP_SPINCOUNT and OPENBLAS_NUM_THREADS are not set,
# or OPENBLAS_CORETYPE on a processor that OpenBLAS does not know (solver/command.c). Tests start
# programs some thousand times, so all are set here, to what a program takes by itself, but that threads
# which wait leave their core to other programs at once (test_models: 12.7 CPU s for 14.5); and
# those in Python find in python/dmft/__pycache__ what the first of them has compiled.
one() { # PROGRAM: its lines, and its counts for all()
    log=$RUN/$$
    case $1 in
    */test_bytes*) unset MALLOC_TOP_PAD_ MALLOC_TRIM_THRESHOLD_ MALLOC_MMAP_THRESHOLD_ ;;
    esac
    start=$(date +%s)
    $1 >"$log" 2>&1
    code=$?
    ok=$(grep -c '^\[       OK \]' "$log")
    bad=$(grep '^\[  FAILED  \] [a-z0-9_]*$' "$log" | sort -u | wc -l)
    [ "$code" -ne 0 ] && [ "$bad" -eq 0 ] && bad=1
    [ "$code" -eq 0 ] && [ "$ok" -eq 0 ] && ! grep -q '^\[  SKIPPED \]' "$log" && bad=1
    echo "$ok $bad" >>"$RUN/counts"
    {
        echo "$(basename "$1"): $ok passed, $bad failed, $(($(date +%s) - start)) s"
        grep '^\[  SKIPPED \]' "$log"
        [ "$bad" -gt 0 ] && cat "$log"
    } >"$log.lines"
    cat "$log.lines" # all at once, beside those of other programs
}

# What tests leave is in $RUN, which goes at the end; that of a call that was killed goes at the next.
all() {
    last=${BUILD:-build}/tests_folder
    [ -f "$last" ] && rm -rf "$(cat "$last")"
    RUN=$(mktemp -d) && echo "$RUN" >"$last"
    TMPDIR=$RUN
    trap 'rm -rf "$RUN"' EXIT
    trap 'exit 130' INT TERM
    OMP_NUM_THREADS=1 MALLOC_TOP_PAD_=67108864 MALLOC_TRIM_THRESHOLD_=1073741824
    MALLOC_MMAP_THRESHOLD_=33554432 GOMP_SPINCOUNT=0 OPENBLAS_NUM_THREADS=1
    export RUN TMPDIR OMP_NUM_THREADS MALLOC_TOP_PAD_ MALLOC_TRIM_THRESHOLD_ MALLOC_MMAP_THRESHOLD_
    PYTHONDONTWRITEBYTECODE=
    export GOMP_SPINCOUNT OPENBLAS_NUM_THREADS PYTHONDONTWRITEBYTECODE
    # What libhdf5 keeps of a damaged file, or of one that does not close, is no leak of ours.
    printf 'leak:libhdf5\nleak:H5FL\n' >"$RUN/leaks"
    export LSAN_OPTIONS="suppressions=$RUN/leaks:print_suppressions=0"
    core=$(OPENBLAS_VERBOSE=2 "${DMFT_SOLVE:-:}" --units </dev/null 2>&1 |
        sed -n 's/^Core: //p' | tail -n 1)
    [ -z "$core" ] || export OPENBLAS_CORETYPE="$core"
    for program in "$@"; do
        printf '%s\0' "$program"
    done | xargs -0 -r -n 1 -P "${JOBS:-$(getconf _NPROCESSORS_ONLN)}" "$0" --one
    awk -v programs=$# '{passed += $1; failed += $2}
        END {failed += programs - NR # of which nothing is known
             print passed + 0 " passed, " failed + 0 " failed"
             exit failed > 0 || passed == 0}' "$RUN/counts"
}

if [ "$1" = --one ]; then
    one "$2"
else
    all "$@"
fi
