#!/bin/sh
# The Python of an Apptainer image, for `python` of a pool in a profile: a job's worker then runs in the image.
#
#     python = "/data/my-project/slvmeval/slurm/container_python.sh"
#     setup = ["export SLVMEVAL_IMAGE=/data/my-project/slvmeval.sif", "export APPTAINER_BIND=/data"]
#
# SLVMEVAL_IMAGE is the image, built with infra/container/slvmeval.def. APPTAINER_BIND is Apptainer's own variable:
# the node's folders that are visible inside at the same path, separated by commas; include the store, the
# sources, the model folders and `scratch`. The home folder, the working directory and /tmp are always visible.
# SLVMEVAL_APPTAINER sets the command if it is not `apptainer`, such as singularity.
set -eu

if [ -z "${SLVMEVAL_IMAGE:-}" ]; then
  echo "container_python.sh: set SLVMEVAL_IMAGE to the image, in \`setup\` of the pool" >&2
  exit 2
fi
if [ ! -r "$SLVMEVAL_IMAGE" ]; then
  echo "container_python.sh: $(hostname) does not see the image $SLVMEVAL_IMAGE" >&2
  exit 1
fi
apptainer=${SLVMEVAL_APPTAINER:-apptainer}
if ! command -v "$apptainer" >/dev/null; then
  echo "container_python.sh: $(hostname) has no command $apptainer: load its module in \`setup\` of the pool" >&2
  exit 1
fi

# the packages are those of the image
unset PYTHONPATH PYTHONHOME
# a job's own temporary folder, if SLURM provides one, must be visible too
if [ -d "${TMPDIR:-}" ]; then
  set -- --bind "$TMPDIR" "$SLVMEVAL_IMAGE" /opt/slvmeval/bin/python "$@"
else
  set -- "$SLVMEVAL_IMAGE" /opt/slvmeval/bin/python "$@"
fi
# NVIDIA's driver and tools come from the node; a node without GPUs has neither
if [ -e "${SLVMEVAL_GPU_DEVICE:-/dev/nvidiactl}" ]; then
  set -- --nv "$@"
fi
exec "$apptainer" exec "$@"
