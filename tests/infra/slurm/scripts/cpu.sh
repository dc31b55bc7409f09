#!/bin/bash

#SBATCH -J slvmeval-main-42-cpu
#SBATCH -p cpu
#SBATCH -n 1
#SBATCH --cpus-per-task=4
#SBATCH --mem=8192M
#SBATCH -t 01:00:00
#SBATCH --output="/data/group store/slvmeval/cache/slurm-logs/%x-%j.log"
#SBATCH --no-requeue
#SBATCH --comment=slvmeval:main-42:alice
slvmeval_tmp=; trap : TERM; trap 'sleep 1; [ -z "$slvmeval_tmp" ] || rm -rf -- "$slvmeval_tmp"' EXIT
export PYTHONSAFEPATH=1
export OMP_NUM_THREADS=1
export OPENBLAS_NUM_THREADS=1
export MKL_NUM_THREADS=1
export NUMEXPR_NUM_THREADS=1
export BLOSC_NTHREADS=1
export OPENCV_FOR_THREADS_NUM=1
export DO_NOT_TRACK=1
export CUDA_VISIBLE_DEVICES=''
export SLVMEVAL_WORKER_POOL=cpu
export SLVMEVAL_WORKER_PROFILE=profile
export SLVMEVAL_WORKER_HARDWARE=cpu
export SLVMEVAL_WORKER_RUN=main-42
export SLVMEVAL_WORKER_STORE='/data/group store/slvmeval'
export PYTHONPATH=$(printf %s "${PYTHONPATH-}" | tr -s : | sed "s/^://; s/:$//")
export SLVMEVAL_SCRATCH="${TMPDIR:-/tmp}"
slvmeval_tmp=$(mkdir -p -- "$SLVMEVAL_SCRATCH" && mktemp -d -- "$SLVMEVAL_SCRATCH/slvmeval-XXXXXXXXXX")
export TMPDIR="$slvmeval_tmp"
/opt/env/bin/python -m infra.slurm.worker tls://10.0.0.1:34567 --name cpu-3 --nthreads 1 --memory-limit 2.00GiB --death-timeout 180 --local-directory "$TMPDIR" --nworkers 4 --nanny --resources pool-cpu=1 --no-dashboard --dashboard-address 127.0.0.1:0 --preload infra.slurm.worker_setup --preload-nanny infra.scratch --tls-ca-file '/data/group store/slvmeval/cache/slurm/main-42/certificate.pem' --tls-cert '/data/group store/slvmeval/cache/slurm/main-42/certificate.pem' --tls-key '/data/group store/slvmeval/cache/slurm/main-42/key.pem'
