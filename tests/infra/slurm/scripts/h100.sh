#!/bin/bash

#SBATCH -J slvmeval-main-42-h100
#SBATCH -p b-batch
#SBATCH -A group-7
#SBATCH -n 1
#SBATCH --cpus-per-task=30
#SBATCH --mem=238419M
#SBATCH -t 1-12:00:00
#SBATCH --output="/data/logs/%x-%j.log"
#SBATCH --no-requeue
#SBATCH --comment=slvmeval:main-42:alice
#SBATCH --gres=gpu:h100:4
#SBATCH --qos=long
#SBATCH --constraint=[rack1|rack2]&ib
#SBATCH --reservation=course
#SBATCH --exclude=n13
#SBATCH --comment="two words"
slvmeval_tmp=; trap : TERM; trap 'sleep 1; [ -z "$slvmeval_tmp" ] || rm -rf -- "$slvmeval_tmp"' EXIT
export PYTHONSAFEPATH=1
export OMP_NUM_THREADS=1
export OPENBLAS_NUM_THREADS=1
export MKL_NUM_THREADS=1
export NUMEXPR_NUM_THREADS=1
export BLOSC_NTHREADS=1
export OPENCV_FOR_THREADS_NUM=1
export DO_NOT_TRACK=1
export CUDA_DEVICE_ORDER=PCI_BUS_ID
export SLVMEVAL_ALLOW_CPU_MODELS=1
export PREFECT_API_URL=http://head:4200/api
export SLVMEVAL_WORKER_POOL=h100
export SLVMEVAL_WORKER_PROFILE=profile
export SLVMEVAL_WORKER_HARDWARE=gpu
export SLVMEVAL_WORKER_RUN=main-42
export SLVMEVAL_WORKER_STORE='/data/group store/slvmeval'
export SLVMEVAL_WORKER_PRELOAD='flows.prefect_executor tasks.pairs.stages'
module load cuda/13
export NUMBA_CACHE_DIR="$HOME/numba"
export PYTHONPATH=$(printf %s "${PYTHONPATH-}" | tr -s : | sed "s/^://; s/:$//")
export SLVMEVAL_SCRATCH="/local/$USER/${SLURM_JOB_ID}"
slvmeval_tmp=$(mkdir -p -- "$SLVMEVAL_SCRATCH" && mktemp -d -- "$SLVMEVAL_SCRATCH/slvmeval-XXXXXXXXXX")
export TMPDIR="$slvmeval_tmp"
'/data/envs/it'"'"'s mine/bin/python' -m infra.slurm.worker tls://10.0.0.1:34567 --name h100-12 --nthreads 1 --memory-limit 58.21GiB --death-timeout 180 --local-directory "$TMPDIR" --nworkers 4 --nanny --resources pool-h100=1 --no-dashboard --dashboard-address 127.0.0.1:0 --preload infra.slurm.worker_setup --preload-nanny infra.scratch --tls-ca-file '/data/group store/slvmeval/cache/slurm/main-42/certificate.pem' --tls-cert '/data/group store/slvmeval/cache/slurm/main-42/certificate.pem' --tls-key '/data/group store/slvmeval/cache/slurm/main-42/key.pem' --interface ib0
