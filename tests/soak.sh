#!/bin/sh
# make soak TIME=seconds SEED=number: everything that is random, a quarter of the time each, with a
# fresh seed unless one is given. What fails says how it is repeated.
time=$((${1:-300} / 4))
seed=${2:-$(date +%s)}
artifacts=build/soak
mkdir -p $artifacts
echo "soak: $time s each, seed $seed"
fail() {
    echo "soak: FAILED: $1"
    echo "soak: repeat with: $2"
    exit 1
}

for target in param command; do
    examples=$artifacts/$target # what it has found grows there
    mkdir -p "$examples"
    log=$artifacts/$target.log
    build/fuzz_$target -max_total_time=$time -max_len=4096 -seed="$seed" -verbosity=0 -print_final_stats=1 \
        -artifact_prefix=$artifacts/ "$examples" >"$log" 2>&1 ||
        { cat "$log"; fail fuzz_$target "build/fuzz_$target $(sed -n 's/.*Test unit written to //p' "$log")"; }
    echo "soak: fuzz_$target: $(sed -n 's/^stat::number_of_executed_units: *//p' "$log") inputs"
done

log=$artifacts/programs.log
$BUILD/test_script_fuzz soak "$seed" $time >"$log" 2>&1 ||
    { cat "$log"; fail "random programs" "$BUILD/test_script_fuzz soak $seed $time"; }
echo "soak: random programs: $(grep done "$log")"

# A run that keeps its state is killed after some milliseconds, again and again, and goes on: the
# file it leaves is that of a run that nobody has cut. Where a cut falls depends on the machine.
cut=$artifacts/cut.h5
whole=$artifacts/whole.h5
keys='data/regime2.ini --solver.sites=256 --solver.expert_sites=128 --training.steps=12 --solver.replicates=4
    --reference.widths=32 --reference.seeds=4 --output.checkpoint=1 --quiet'
$BUILD/dmft-solve $keys --force -o $whole || fail "the whole run" "$BUILD/dmft-solve $keys"
end=$(($(date +%s) + time))
cuts=0
runs=0
while [ "$(date +%s)" -lt $end ]; do
    rm -rf $cut $cut.partial $cut.state
    waits=
    again=$keys\ -o\ $cut
    while [ ! -e $cut ]; do
        runs=$((runs + 1))
        wait=$(awk -v s="$seed" -v k=$runs 'BEGIN {srand(s + k); printf "%.3f", 0.05 + 0.6 * rand()}')
        signal=$(awk -v s="$seed" -v k=$runs 'BEGIN {srand(s - k); print rand() < .5 ? "KILL" : "TERM"}')
        waits="$waits $wait:$signal"
        timeout -s "$signal" "$wait" $BUILD/dmft-solve $again 2>$artifacts/cut.log
        code=$?
        case $code in
        0) ;;
        124 | 130 | 137) cuts=$((cuts + 1)) ;;
        *) cat $artifacts/cut.log; fail "exit code $code after cuts at$waits s" "make soak SEED=$seed" ;;
        esac
        [ -e $cut.state ] && again="--quiet --continue $cut"
    done
    NEED='h5py, numpy, xarray' python/with -m dmft diff --exact $whole $cut >$artifacts/cut.log ||
        fail "another result after cuts at$waits s" "make soak SEED=$seed"
done
echo "soak: $cuts cuts"
