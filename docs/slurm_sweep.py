#!/usr/bin/env python3
# Slurm: a sweep whose points are jobs of their own, ten points in each, by submitit.
#   sbatch docs/slurm_sweep.py rates.ini rates.h5
# This job takes one core, starts the others and waits for them. Where it ends before them (its time, a node), they
# go to their ends, and the same command goes on from what is done.
#SBATCH --job-name=sweep
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=1
#SBATCH --mem=2G
#SBATCH --time=1-00:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
import sys

import submitit

import dmft

ini, output = sys.argv[1:]
executor = submitit.AutoExecutor(folder="log")
executor.update_parameters(timeout_min=120, cpus_per_task=4, mem_gb=8, slurm_partition="short")
print(dmft.sweep(ini, output=output, executor=executor, chunk=10).report)
