#!/usr/bin/env bash
# Sets up, builds and runs the benchmarks on MPI ranks: bench/run.sh [--quick] [--json FILE] [PART]...
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../cmake/setup.sh"

# Programs and the ranks that each runs on.
declare -A ranks_of=([adam]="2" [optimizers]="2" [collectives]="2 4" [scattered]="2" [algorithms]="2 4" [blocks]="2 4" [kernels]="2"
  [matmul]="2" [cores]="1" [functions]="1" [sweep]="2" [checkpoint]="1 2" [planning]="1" [training]="2")
parts=(adam optimizers collectives scattered algorithms blocks kernels matmul cores)

usage() {
  cat <<TEXT
usage: bench/run.sh [--quick] [--json FILE] [PART]...

Installs what is missing (with apt, as root or with sudo), builds into build/release, and times steps of this library
against MPI. The peers of adam, optimizers and collectives run under every MPI that is here, in turn with this library, each with
ranks of its own: Open MPI, MPICH with its headers (Debian's libmpich-dev), and Intel MPI where I_MPI_ROOT says (PyPI's impi-rt
and impi-devel in a virtual environment). The parts, all of them but functions, sweep, checkpoint, planning and training unless some are named:
  adam        one Adam step of f32 parameters on 2 ranks, under each of its schedules, and under the one that compile() chooses
              when it is told none ("automatic"; what was tuned here counts, unless COCONET_TUNE is off)
  optimizers  one step of every shipped optimizer in f32, and of Adam in mixed precision, fused, automatic and unfused, on 2 ranks;
              and of AdamW over 2^24 elements with options beside the same without: groups over buffers, and clipping by norm
              with loss scaling, which writes a rank's slice of the gradient once more and reads it again, 8 / ranks bytes an
              element; and with groups and clipping in 16 buffers of the application's own memory, automatic, beside fused
  collectives the library's collectives of f32, each behind a loop that writes its operand, on memory that other ranks reach and
              on the application's, on 2 and 4 ranks
  scattered   one Adam step over the 199 parameters of BERT-base as they lie, fused, on 2 ranks; and over 16 buffers with the
              collectives of the library
  algorithms  an AllReduce of f32 inside a kernel, with every algorithm and protocol, and the library's, on 2 and 4 ranks
  blocks      the ends of a transformer's layers on 2 ranks, and the hand-off between two stages of a pipeline on 2 and 4,
              in f32 and bf16, under each of their schedules
  matmul      products of the sizes that a transformer's layers have on a rank, on 2 ranks, in f32 and bf16
  kernels     single kernels with dropout, masks, reductions and vectors beside what they should cost as much as
  cores       steps that one rank spreads over all its cores, beside the same on one of them, which is the peer
  functions   no step of a model: every function of one thread over 2^22 elements in f32, f64 and bf16, and softmax, and gelu behind
              a bias, with g++ and with clang++, beside PyTorch's on one thread, the peer, where \$PYTHON (python3) has torch
  sweep       no step of a model: hundreds of small programs, one of each kind that the library generates kernels for (every
              pointwise op, dtype and way to broadcast; reductions in every direction; exchanges), with g++ and with clang++,
              beside a copy of as many bytes. Worst first: what is far from the copy keeps the processor busy, so that an
              element takes as long in the caches, or goes through mailboxes, which the last column says, or is a cliff.
              Some 20 minutes, half of them compilers'. COCONET_CXX chooses one of them, and SWEEP_ONLY the rows whose
              first four columns contain it, such as "select f32".
  checkpoint  no step: states of 96 MiB and 1 GiB saved and loaded on 1 and 2 ranks, beside a plain write and fsync, and a plain
              read, of as many bytes by as many ranks; in the current directory, or in CHECKPOINT_DIR
  planning    no step: a training step of 22 and 44 transformer layers, 10,000 and 20,000 values with their gradients and AdamW,
              built, rewritten by 25 steps of a schedule, lowered and written as kernels. The floor is a program of fewer
              values, as many times as it takes: 1 is linear
  training    the whole training step of samples/09_gpt with 4 layers of width 256 and 8 sequences of 128 tokens a rank, on 2
              ranks of a thread, beside PyTorch's, eager, with DistributedDataParallel over gloo, where \$PYTHON (python3) has
              torch: in turns, three times. A row: time of a step, what of it is outside matrix products, and the most memory
A row a contestant and number of elements, but for sweep and training:
  ms           this library
  peer_ms      MPI_Allreduce, then the update as a vectorized loop, two where it needs norms, with the gradient in place or
               not, and 16-bit ones widened or added by an operation of the program's own, whichever is faster; of blocks the
               same matmul library, MPI_Allreduce of the whole on every rank, in place or not (16-bit ones by an operation of
               the program's own), bias, dropout and residual as one vectorized loop, and in a pipeline MPI_Send of the
               whole by every rank to the next stage; of matmul oneDNN or OpenBLAS called directly, whichever is faster
  ratio_peer   peer_ms / ms: how many times faster than the peer
  peer         the MPI under which the peer was fastest, and whether it was in place
  floor_ms     for adam: ReduceScatter, Adam and AllGather as one hand-written loop over shared memory; for optimizers: a
               copy of as many bytes as a rank's kernel reads and writes, by memcpy or past the caches, whichever is faster,
               for its other rows the fastest schedule that ships, and for AdamW with options the same without, or fused; for
               scattered: the same step of one contiguous tensor; for blocks: the bare matmul, then a fused kernel of the
               rest; for functions: a copy of as
               many bytes; for kernels: the same without dropout, with a mask of f32, along long rows, or as sums of products
  ratio_floor  ms / floor_ms: 1 is as fast as the floor. A copy does not wait for the other rank, which is most of a step
               of few elements
All are medians of 15 interleaved samples after a warm-up, of the slowest rank.

  --quick      fewer sizes
  --json FILE  writes the rows to FILE, too: an array of one object a part and number of ranks
TEXT
}

quick=() json='' chosen=()
while (($# > 0)); do
  case $1 in
    -h | --help)
      usage
      exit 0
      ;;
    --quick)
      quick=(--quick)
      shift
      ;;
    --json)
      [[ -n ${2-} ]] || fail "--json takes a file."
      json=$2
      shift 2
      ;;
    *)
      [[ -n $1 && -n ${ranks_of[$1]-} ]] || fail "unknown argument '$1'; the parts are: ${parts[*]}. See bench/run.sh --help."
      chosen+=("$1")
      shift
      ;;
  esac
done
((${#chosen[@]} > 0)) || chosen=("${parts[@]}")

install_packages
build_preset release "${chosen[@]}"

work=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; rm -rf "$work"' EXIT

# Parts whose peers run under other MPIs, too.
has_other_peers() { [[ $1 =~ ^(adam|optimizers|collectives)$ ]]; }
# The other MPIs, by name: their launcher, and the peers as their compiler makes them.
declare -A launcher_of=() peers_of=()
# other_mpi NAME LAUNCHER COMPILER...
other_mpi() {
  local name=$1 launcher=$2 program=$work/${1// /_}
  shift 2
  command -v "$launcher" >/dev/null && command -v "$1" >/dev/null || return 0
  local flags
  read -ra flags <"$root/build/release/bench/flags"
  if "$@" -std=c++20 "${flags[@]}" -DMPICH_SKIP_MPICXX -DOMPI_SKIP_MPICXX -I"$root/include" -I"$root/src" \
    -I"$root/build/release/generated" "$root/bench/mpi_peers.cpp" -o "$program" "${libraries[@]}" 2>"$program.log"; then
    launcher_of[$name]=$launcher peers_of[$name]=$program
  else
    echo "No peers run under $name: $(grep -m 1 -i error "$program.log")"
  fi
}
find_other_mpis() {
  own=$(mpirun --version 2>&1)
  libraries=()
  [[ $own == *"Open MPI"* ]] || other_mpi "Open MPI" mpirun.openmpi mpicxx.openmpi
  [[ $own == *HYDRA* ]] || other_mpi MPICH mpirun.mpich mpicxx.mpich
  if [[ -n ${I_MPI_ROOT-} && $own != *Intel* ]]; then
    libraries=("-L$I_MPI_ROOT/lib" -lmpi "-Wl,-rpath,$I_MPI_ROOT/lib")
    other_mpi "Intel MPI" "$I_MPI_ROOT/bin/mpiexec.hydra" "${CXX:-g++}" "-I$I_MPI_ROOT/include"
  fi
}
for part in "${chosen[@]}"; do
  if has_other_peers "$part"; then
    find_other_mpis
    break
  fi
done
# Starts the peers on so many ranks; what the benchmark is to be told of them is then in `others`.
start_peers() {
  others=()
  local name
  for name in "${!peers_of[@]}"; do
    local file=$work/turn-${name// /_}
    rm -f "$file" && truncate -s 4096 "$file"
    # A rank has a core of its own, as with the other two, or gives way in its spins, as Open MPI's do when it is told.
    local bound=()
    [[ $name != MPICH ]] || ((ranks > $(nproc))) || bound=(-bind-to core)
    MPIR_CVAR_POLLS_BEFORE_YIELD=$((ranks > $(nproc) ? 1 : 1000)) I_MPI_THREAD_YIELD=$((ranks > $(nproc) ? 3 : 0)) \
      "${launcher_of[$name]}" "${bound[@]}" -n "$ranks" "${peers_of[$name]}" "$file" &
    others+=(--other-mpi "$name=$file")
  done
}

# Starts PyTorch's functions where there is PyTorch.
start_torch() {
  others=()
  local python=${PYTHON:-python3} file=$work/turn-torch
  if ! "$python" -c 'import torch' 2>/dev/null; then
    echo "$python has no torch: functions have no peer."
    return 0
  fi
  rm -f "$file" && truncate -s 4096 "$file"
  # Its tensors are on huge pages, as ours are.
  THP_MEM_ALLOC_ENABLE=1 "$python" "$root/bench/torch_functions.py" "$file" &
  others=(--other-mpi "PyTorch=$file")
}

# Takes turns with PyTorch, which is a job of its own.
train() {
  local python=${PYTHON:-python3} torch=true
  "$python" -c 'import torch' 2>/dev/null || torch=false
  $torch || echo "$python has no torch: training has no peer."
  for _ in 1 2 3; do
    mpirun -n "$ranks" "${oversubscribe[@]}" "$root/build/release/bin/training"
    ! $torch || OMP_NUM_THREADS=1 "$python" "$root/bench/torch_training.py" "$ranks" 15
  done
}

objects=()
for part in "${chosen[@]}"; do
  for ranks in ${ranks_of[$part]}; do
    # Where there are fewer cores the ranks must take turns, and MPI is to be told.
    oversubscribe=()
    (($(nproc) >= ranks)) || oversubscribe=(--oversubscribe)
    if [[ $part == training ]]; then
      train
      continue
    fi
    [[ $part != cores ]] || oversubscribe=(--bind-to none)
    compilers=("${COCONET_CXX-}")
    [[ ! $part =~ ^(functions|sweep)$ || -n ${COCONET_CXX-} ]] || compilers=(g++ clang++)
    for compiler in "${compilers[@]}"; do
      if [[ -n $compiler ]] && ! command -v "$compiler" >/dev/null; then
        echo "There is no $compiler here: $part runs without it."
        continue
      fi
      ((${#compilers[@]} == 1)) || echo "Kernels by ${compiler:-the default compiler}:"
      objects+=("$work/$part-$ranks-${compiler//\//_}.json")
      others=()
      ! has_other_peers "$part" || start_peers
      [[ $part != functions ]] || start_torch
      COCONET_CXX=$compiler mpirun -n "$ranks" "${oversubscribe[@]}" "$root/build/release/bin/$part" "${quick[@]}" \
        --json "${objects[-1]}" "${others[@]}"
      wait
    done
  done
done
if [[ -n $json ]]; then
  {
    echo "["
    for object in "${objects[@]}"; do
      cat "$object"
      [[ $object == "${objects[-1]}" ]] || echo ","
    done
    echo "]"
  } >"$json"
fi
