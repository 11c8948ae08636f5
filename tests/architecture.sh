#!/bin/sh
# Rules that a compiler does not know: includes point one way (solver -> integrators -> models ->
# kernels; solver/base.h and Random123 are for all, mpi.h is for kernels/dist.c alone), exported
# symbols carry the name of their file, no file is longer than 600 lines, no line longer than 100,
# and everything is formatted.
bad=0
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
failed=0
for pair in "kernels models|integrators|solver|tests" "models integrators|solver|tests" \
    "integrators solver|tests" "solver tests"; do
    folder=${pair%% *}
    for file in $(grep -rlE --include='*.[ch]' --include='*.cu' "#include \"(${pair#* })/" "$folder"); do
        wrong=$(grep -E "#include \"(${pair#* })/" "$file" | grep -v '"solver/base.h"')
        [ -z "$wrong" ] || say "$file: $wrong"
    done
done
wrong=$(grep -lE '#include *[<"]mpi\.h' */*.[ch] */*.cu | grep -v '^kernels/dist\.c$')
[ -z "$wrong" ] || say "only kernels/dist.c includes mpi.h, but also:" $wrong
close includes_point_one_way

# A module may export the names of the thing it defines beside its own (err_, log_ in base).
allowed() {
    case $1 in
    base) echo 'base_|err_|log_' ;;
    param) echo 'params_' ;;
    factor) echo 'factor_|params_check_names' ;;
    backend) echo 'backend_|array_|rows_' ;;
    cpu | shadow | cuda) echo 'backend_' ;;
    map_finite | map_history | map_limit | map_adam) echo 'map_' ;;
    map_field) echo 'map_field|field_' ;;
    look | rewind) echo 'net_' ;;
    model) echo 'model_|net_|network_' ;;
    stage) echo 'net_' ;;
    integrator) echo 'integrator_|training_' ;;
    gd | optimizer | flow) echo 'integrator_' ;;
    regime1) echo 'model_regime1|model_dense' ;;
    regime2) echo 'model_regime2' ;;
    regime3) echo 'model_regime3' ;;
    residual) echo 'model_residual|residual_' ;;
    observe) echo 'observe_|observer_' ;;
    *) echo "$1_" ;;
    esac
}
for object in "$BUILD"/kernels/*.o "$BUILD"/models/*.o "$BUILD"/integrators/*.o "$BUILD"/solver/*.o; do
    module=$(basename "$object" .o)
    case $module in main | main_*) continue ;; esac
    wrong=$(nm -g --defined-only "$object" | awk 'NF == 3 && $2 ~ /[TDBRC]/ {print $3}' |
        grep -vE "^($(allowed "$module"))" | grep -vE '^__odr_asan|^\.gomp_critical')
    [ -z "$wrong" ] || say "$object exports" $wrong
done
close symbols_carry_the_name_of_their_file

for file in kernels/*.[ch] kernels/*.cu models/*.[ch] integrators/*.[ch] solver/*.[ch] tests/*.[ch] tests/*/*.h; do
    [ "$(wc -l <"$file")" -le 600 ] || say "$file is longer than 600 lines"
    awk -v f="$file" 'length($0) > 100 {print f ":" NR ": longer than 100"; bad = 1} END {exit bad}' \
        "$file" || failed=1
done
close files_and_lines_are_short

if command -v clang-format >/dev/null; then
    for file in kernels/*.[ch] kernels/*.cu models/*.[ch] integrators/*.[ch] solver/*.[ch] tests/*.[ch] tests/*/*.h; do
        clang-format -style=file --dry-run -Werror "$file" 2>/dev/null || say "$file: run make format"
    done
    close sources_are_formatted
else
    echo "[  SKIPPED ] sources_are_formatted: no clang-format here"
fi
exit $bad
