#!/bin/bash
# Slurm: one limit of a million sites over 32 ranks on two nodes, one core each.
#   sbatch docs/slurm.sh
#SBATCH --job-name=million
#SBATCH --nodes=2
#SBATCH --ntasks=32
#SBATCH --cpus-per-task=1
#SBATCH --mem-per-cpu=4G
#SBATCH --time=02:00:00
#SBATCH --exclusive
# Two minutes before the end of the time, or at `scancel --signal=INT`, ranks save their states. The job then
# queues again, as it does after a node has died, and goes on from there (without --requeue: by hand).
#SBATCH --signal=INT@120
#SBATCH --requeue
#SBATCH --open-mode=append

export OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK
out=million.h5
if [ -d $out.state ]; then
    set -- --continue $out
else
    set -- -o $out data/dense.ini --solver.sites=1048576 --solver.replicates=1
fi
srun --mpi=pmix --kill-on-bad-exit=1 ./dmft-solve "$@"
code=$?
[ $code -ne 130 ] || scontrol requeue "$SLURM_JOB_ID"
exit $code
