# shellcheck source=tests/mpi/launch/run_job.sh
source "$(dirname "${BASH_SOURCE[0]}")/run_job.sh"

# on NODES COMMAND...: runs COMMAND on a rank for each letter of NODES, which is the name of the rank's node: aab is two ranks
# on node a and one on node b. A @ in COMMAND stands for that letter.
on() {
  local nodes=$1 apps=() node
  shift
  for ((rank = 0; rank < ${#nodes}; ++rank)); do
    node=${nodes:rank:1}
    apps+=(${apps[0]:+:} -n 1 env "COCONET_HOST_ID=$node" "${@//@/$node}")
  done
  run_job 300 "${apps[@]}"
}
