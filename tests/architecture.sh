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
names=$(sed -n 's/^MODEL(\([a-z_0-9]*\),.*/\1/p' models/networks/*.c | paste -sd '|')
[ -n "$names" ] || say "no networks in models/"
wrong=$(grep -rnE "\"($names)\"|model_($names)|GATE_(SIGMOID|SOFTMAX|CONSTANT)" solver integrators)
[ -z "$wrong" ] || say "$wrong"
close solver_names_no_network

# A row, be it of a network, a loss or an optimizer, is nothing before a list or another row has its
# address: one that was forgotten in its list is named here.
program=$(echo "$sources" | grep -E '^(kernels|models|integrators|solver)/')
rows=$(sed -nE 's/^(static )?const struct [a-z_0-9]+ ([a-z_0-9]+) = \{.*/\2/p
    s/^(static )?CHOICE\(([a-z_]+), ([a-z_0-9]+),.*/\2_\3/p
    s/^(static )?MODEL\(([a-z_0-9]+),.*/model_\2/p
    s/^(static )?OPERATION\(([a-z_0-9]+),.*/operation_\2/p
    /^(static )?OPERATION\($/ {n; s/^ +([a-z_0-9]+),.*/operation_\1/p}' $program | sort -u)
[ -n "$rows" ] || say "no rows"
listed=$(grep -ohE '&[a-z_0-9]+|OPTIMIZER\([a-z_0-9]+\)' $program | tr -d '&)' | sort -u |
    sed 's/^OPTIMIZER(/optimizer_/' | paste -sd ' ')
for row in $rows; do
    case " $listed " in
    *" $row "*) ;;
    *) say "$(grep -lE "^((static )?const struct [a-z_0-9]+ $row = |.*(\(|   )${row%%_*}, ${row#*_},|.*(\(|   )${row#*_},)" \
        $program): no list has $row" ;;
    esac
done
close rows_are_listed

# An exported name begins with that of its file, whole or up to an underscore (param_fail in
# param_keys.c), or of a struct in the headers of its folder: the one it works on (net_commit) or is
# (backend_cpu); rows of what a net knows as a struct stand elsewhere too (optimizer_lion).
structs=$(for folder in kernels models integrators solver; do
    find $folder models/engine -name '*.h' -exec sed -nE "s/^struct ([a-z_0-9]+) \\{\$/$folder \\1/p" {} +
done)
objects=$(echo "$program" | grep -v '^solver/main_' | sed -nE "s|(.*)\\.(c\|cu)\$|$BUILD/\\1.o|p" | xargs ls 2>/dev/null) # .cu: with CUDA=1
[ -n "$objects" ] || say "no objects in $BUILD"
wrong=$(nm -A -g --defined-only $objects | structs=$structs build=$BUILD/ awk '
    BEGIN {
        count = split(ENVIRON["structs"], word)
        for (i = 1; i < count; i += 2) known[word[i] " " word[i + 1]]
    }
    function belongs(name, file, folder) { # some beginning of it is that of its file, or a struct
        for (sub(/.*\//, "", file); sub(/_[^_]*$/, "", name);)
            if (name == file || index(file, name "_") == 1 || (folder " " name) in known)
                return 1
        return 0
    }
    NF == 3 && $2 ~ /[TDBRC]/ {
        path = substr($1, length(ENVIRON["build"]) + 1)
        sub(/\.o:.*/, "", path)
        split(path, part, "/")
        if (!belongs($3, path, part[1]) && $3 !~ /^__odr_asan|^\.gomp_critical/)
            print path " exports " $3
    }')
[ -z "$wrong" ] || say "$wrong"
close symbols_carry_the_name_of_their_file

# A function that others call says in more than one word what it does; one word is for those that stand
# in a table (a row, or a struct of functions).
one_word=$(echo "$program" | grep '\.c$' | xargs awk '
    function judge() {
        for (word in name) {
            called = split(text, part, "[^a-zA-Z0-9_.>]" word "\\(") - 2
            if (called > 0 && text !~ "[={,(]\n? *&?" word " *[,;})]") print file ": " word
        }
        text = ""
        split("", name)
    }
    FNR == 1 { judge(); file = FILENAME }
    {
        gsub(/"([^"\\]|\\.)*"|\/\*.*\*\/|^ ?\*.*|\/\*.*/, "")
        text = text "\n" $0
        if (/^static [^=;]*\(/ && !/;$/ && match($0, /[ *][a-z0-9]+\(/) && !index(substr($0, 1, RSTART), "("))
            name[substr($0, RSTART + 1, RLENGTH - 2)]
    }
    END { judge() }')
[ -z "$one_word" ] || say "functions of one word outside of a table:" "$one_word"
close functions_have_more_than_one_word

# What is FREED has a value where it is declared, each of what one line declares, and stands before
# whatever jumps to `done`: else an end before it frees what happens to be in the memory.
wrong=$(echo "$program" | xargs awk '/^[^ ]/ {jumps = 0} /(^|[^A-Z_])DO\(|goto / {jumps = 1}
    /^ .*FREED\(/ {
        line = $0
        sub(/;.*/, "", line)
        while (gsub(/\([^()]*\)|\{[^{}]*\}/, "", line)) ;
        if (jumps || gsub(/=/, "", line) != gsub(/,/, "", line) + 1) print FILENAME ":" FNR ": " $0
    }
    /^ .*SCRATCH\(/ && jumps {print FILENAME ":" FNR ": " $0}')
[ -z "$wrong" ] || say "freed without a value, or behind a jump:" "$wrong"
close what_is_freed_has_a_value

# A comment is a sentence with a subject.
wrong=$(grep -nE '/\* (Of|The same|Likewise) ' $program)
[ -z "$wrong" ] || say "comments without a subject:" "$wrong"
close comments_have_a_subject

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
