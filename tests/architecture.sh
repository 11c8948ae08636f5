#!/bin/sh
# Rules that a compiler does not know. Nothing here lists files: a new one is found and judged.
sources=$(find include examples kernels models integrators solver tests -name '*.[ch]' -o -name '*.cu' | sort)
bad=0
failed=0
say() {
    echo "$*"
    failed=1
}
close() {
    if [ "$failed" -eq 0 ]; then
        echo "[       OK ] $1"
    else
        echo "[  FAILED  ] $1"
        bad=1
    fi
    failed=0
}

# A file may include what lies in its own folder or in one that stands before it here. Oracles judge
# the program and include nothing of it; mpi.h is for kernels/array/dist.c alone.
order='include kernels/base kernels models integrators solver/data solver/settings solver/measure solver/files solver/run
    solver/study solver tests'
wrong=$(grep -HoE '^#include "[^"]+"' $sources | awk -v order="$order" '
    function place(path) { # of the folder, or else of the folder around it
        while (sub(/\/[^\/]*$/, "", path) && !(path in at))
            ;
        return path in at ? at[path] : 0
    }
    BEGIN { count = split(order, folder, " "); for (i = 1; i <= count; i++) at[folder[i]] = i }
    {
        split($0, part, ":#include \"")
        sub(/"$/, "", part[2])
        if (part[2] !~ /\// || !place(part[1]) || place(part[2]) > place(part[1]))
            print part[1] " includes " part[2]
    }' | grep -vE ' includes (cublas_v2|cuda_runtime)\.h$')
[ -z "$wrong" ] || say "$wrong"
wrong=$(grep -H '^#include "' tests/oracles/* | grep -v '#include "tests/oracles/')
[ -z "$wrong" ] || say "$wrong"
wrong=$(grep -lE '#include *[<"]mpi\.h' $sources | grep -v '^kernels/array/dist\.c$')
[ -z "$wrong" ] || say "only kernels/array/dist.c includes mpi.h, but also:" $wrong
close includes_point_one_way

# solver/ knows networks by struct model alone, gates and other settings by what models/networks/settings.h
# says they mean.
names=$(sed -n 's/^    \.name = "\(.*\)",$/\1/p' models/networks/*.c | paste -sd '|')
[ -n "$names" ] || say "no networks in models/"
wrong=$(grep -rnE "\"($names)\"|model_($names)|GATE_(SIGMOID|SOFTMAX|CONSTANT)" solver integrators)
[ -z "$wrong" ] || say "$wrong"
close solver_names_no_network

# A row, be it of a network, a loss, an optimizer or an instrument, is nothing before a list or another
# row has its address: one that was forgotten in its list is named here.
text=$(cat $(echo "$sources" | grep -E '^(kernels|models|integrators|solver)/'))
rows=$(echo "$text" | sed -nE 's/^(static )?const struct [a-z_0-9]+ ([a-z_0-9]+) = \{.*/\2/p')
[ -n "$rows" ] || say "no rows"
for row in $rows; do
    case $text in
    *"&$row"[!a-z_0-9]*) ;;
    *) say "$(grep -lE "^(static )?const struct [a-z_0-9]+ $row = " $sources): no list has $row" ;;
    esac
done
close rows_are_listed

# An exported name begins with that of its file, whole or up to an underscore (param_fail in
# param_keys.c), or of a struct in the headers of its folder: the one it works on (net_commit) or is
# (backend_cpu); rows of what a net knows as a struct stand elsewhere too (optimizer_lion).
stems() { # a_b_|a_
    case $1 in *_*) echo "$1_|$(stems "${1%_*}")" ;; *) echo "$1_" ;; esac
}
structs() { # FOLDER: a_|b_
    find "$1" models/engine -name '*.h' -exec sed -nE 's/^struct ([a-z_0-9]+) \{$/\1_/p' {} + | paste -sd '|'
}
for folder in kernels models integrators solver; do
    eval "structs_$folder=\$(structs $folder)"
done
objects=0
for file in $(echo "$sources" | grep -E '^(kernels|models|integrators|solver)/.*\.(c|cu)$'); do
    module=$(basename "${file%.*}")
    object=$BUILD/${file%.*}.o
    case $file in
    solver/main_*) continue ;;
    *.cu) [ -e "$object" ] || continue ;; # built with CUDA=1
    esac
    objects=$((objects + 1))
    eval "structs=\$structs_${file%%/*}"
    wrong=$(nm -g --defined-only "$object" | awk 'NF == 3 && $2 ~ /[TDBRC]/ {print $3}' |
        grep -vE "^($(stems "$module")|$structs)" | grep -vE '^__odr_asan|^\.gomp_critical')
    [ -z "$wrong" ] || say "$object exports" $wrong
done
[ "$objects" -gt 0 ] || say "no objects in $BUILD"
close symbols_carry_the_name_of_their_file

{
    echo "$sources"
    find python studies tests -name '*.py'
} | xargs awk 'length($0) > 100 {print FILENAME ":" FNR ": longer than 100"; bad = 1}
    FNR == 451 {print FILENAME " is longer than 450 lines"; bad = 1} END {exit bad}' || failed=1
[ "$(wc -l <Makefile)" -le 120 ] || say "Makefile is longer than 120 lines"
close files_and_lines_are_short

# Versions of clang-format differ in some lines: 14 is Debian 12's.
if clang-format --version 2>/dev/null | grep -q 'version 14\.'; then
    wrong=$(clang-format -style=file --dry-run -Werror $sources 2>&1) ||
        say "$(echo "$wrong" | sed -n 's/:[0-9]*:[0-9]*: error:.*//p' | sort -u) run make format"
    close sources_are_formatted
else
    echo "[  SKIPPED ] sources_are_formatted: no clang-format 14 here"
fi
exit $bad
