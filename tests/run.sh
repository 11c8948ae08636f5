#!/bin/sh
# Runs the given test programs ("PROGRAM" or "PROGRAM BACKEND") one after the other and closes with a
# line "N passed, N failed".
# A program that ends without counting its tests (a crash) counts as one failure.
passed=0
failed=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT
for program in "$@"; do
    start=$(date +%s)
    $program >"$log" 2>&1
    code=$?
    ok=$(grep -c '^\[       OK \]' "$log")
    bad=$(grep '^\[  FAILED  \] [a-z0-9_]*$' "$log" | sort -u | wc -l)
    [ "$code" -ne 0 ] && [ "$bad" -eq 0 ] && bad=1
    [ "$code" -eq 0 ] && [ "$ok" -eq 0 ] && ! grep -q '^\[  SKIPPED \]' "$log" && bad=1
    echo "$(basename "$program"): $ok passed, $bad failed, $(($(date +%s) - start)) s"
    grep '^\[  SKIPPED \]' "$log"
    [ "$bad" -gt 0 ] && cat "$log"
    passed=$((passed + ok))
    failed=$((failed + bad))
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
