#!/bin/sh
# Slurm: one limit of a million sites over 32 ranks on two nodes, one core each.
#   sbatch docs/slurm.sh
#SBATCH --job-name=dmft
#SBATCH --nodes=2
#SBATCH --ntasks=32
#SBATCH --cpus-per-task=1
#SBATCH --mem-per-cpu=4G
#SBATCH --time=02:00:00
#SBATCH --exclusive
# On scancel or at the end of the time ranks get a signal, and KillWait seconds to save.
export OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK
srun ./dmft-solve -o million.h5 data/dense.ini --solver.sites=1048576 --solver.replicates=1
