// What `coconet COMMAND --help` says below the options.
#pragma once

namespace coconet::cli {

inline constexpr const char* overview_examples = R"(Examples:
  coconet doctor                                       what this machine offers
  coconet programs                                     what ships
  coconet explain adam --schedule fused                what a schedule does to a program
  coconet compile adam --schedule fused --arch sm_90   fill the cache, also for other machines
  coconet sim adam --cluster dgx2                      predict times on a cluster that is not here
  mpirun -n 2 coconet tune adam --out best.json        measure all schedules, keep the quickest
  coconet cache stats                                  how many kernels are kept, and where
  mpirun -n 2 coconet run adam --schedule fused --check
`coconet COMMAND --help` tells more. Exit codes: 0 success, 1 failure, 2 wrong command line.)";

inline constexpr const char* run_examples = R"(Examples:
  mpirun -n 2 coconet run adam --schedule fused --set n=2^24
  mpirun -n 4 coconet run adamw --schedule sliced --dtype bf16 --hyper beta2=0.95 --check
  coconet run adam --schedule fused --world local:3 --check --json result.json
  mpirun -n 2 coconet run lamb --scattered --list n=768,1,4099,2^20 --schedule fused --check
  mpirun -n 8 coconet run program.json --schedule schedule.json --scalar lr=1e-3
  mpirun -n 2 coconet run mlp_block --schedule overlapped --trace trace.json
  mpirun -n 2 coconet run step.json --input g=g%r.npy --input w=w.npy --output w=new.npy
  mpirun -n 2 coconet run adam --schedule fused --state-dict states   exp_avg.npy ... for Python
  mpirun -n 4 coconet run adam --iters 1000 --save saved --save-every 100 --keep 3 --resume saved \
    --may-be-first-start

The data are made up, the same on every run. --check compares every state and output on every
rank with a naive interpretation of the program, and the ranks with each other; a difference is
exit code 1.)";

inline constexpr const char* compile_examples = R"(Examples:
  coconet compile adam --schedule fused                              for this machine
  coconet compile adam --schedule fused --arch sm_90 --ranks 8       for a cluster, with no GPU here
  coconet compile step.json --schedule s.json --arch sm_80 --arch sm_100
A kernel serves all sizes, but one number of ranks only.)";

inline constexpr const char* explain_examples = R"(Examples:
  coconet explain adam --schedule fused                the program after each step of the schedule
  coconet explain adam --schedule sliced --show plan   the kernels, collectives and buffers
  coconet explain adam --schedule fused --show source  the generated kernels
  coconet explain adam --schedule fused --show kernels --arch sm_90    their registers and memory
  coconet explain adam --schedule fused --show svg > adam.svg
Lines that begin with + or - were added or removed by the step.)";

inline constexpr const char* sim_examples = R"(Examples:
  coconet sim adam --cluster dgx2 --sizes 2^10..2^30          every shipped schedule, and the best
  coconet sim adam --cluster dgx2-x16 --nodes 16              on 16 such nodes
  coconet sim lamb --cluster dgx-h100 --schedule fused        each step, and what binds it
  coconet sim mlp_block --cluster cluster.json --sizes S=128..1024 --set B=16
NAME-xN takes N nodes of a cluster that ships: host-2rank, dgx1v, dgx2, dgx-a100, dgx-h100.
docs/model.md says what is predicted, and how.)";

inline constexpr const char* tune_examples = R"(Examples:
  mpirun -n 2 coconet tune adam --sizes 2^10..2^24 --out best.json
  mpirun -n 2 coconet tune mlp_block --set B=8 --set S=512 --out best.json
  mpirun -n 2 coconet tune step.json --sizes n=2^20
Every size is measured. --out gets the schedule of the last one. A state whose "may_slice" is true
in the program may be kept sliced over the ranks; of a program that ships these are all tensors but
the parameters. Ctrl-C keeps the best so far, or what is measured of the machine.)";

inline constexpr const char* calibrate_examples = R"(Examples:
  mpirun -n 2 coconet calibrate
  mpirun -n 2 coconet calibrate --out this.json; coconet sim adam --cluster this.json
Times small programs for some seconds and keeps what it found in COCONET_TUNE_FILE, where
`coconet tune` takes it from. Nothing else should run meanwhile. Ctrl-C keeps what is measured so
far, and the next time goes on from there.)";

inline constexpr const char* legal_examples = R"(Examples:
  coconet legal adam                                   what a schedule may begin with
  coconet legal adam --schedule sliced                 what may follow its steps
A step a line, with its arguments: what `coconet tune` would try next. Other reorders and kernels
may be legal, too.)";

inline constexpr const char* cache_examples = R"(Examples:
  coconet cache list                                   what is there, used last first
  coconet cache stats                                  how much, and the limits
  coconet cache explain adam --schedule fused          which kernels are there, why others are not
  coconet cache verify                                 reads and checks every entry; removes nothing
  coconet cache prune --max-size 100M                  down to 100 MiB, least recently used first
  COCONET_CACHE_DIR=/tmp/kernels coconet cache clear   removes all kernels
The directories are COCONET_CACHE_DIR, which is written, and those of COCONET_CACHE_PATH, which
are only read.
`coconet cache COMMAND --help` tells more.)";

inline constexpr const char* cache_list_examples = R"(Examples:
  coconet cache list
  coconet cache list --json | jq '.directories[].entries[] | select(.arch == "sm_90")'
An entry counts as used when a process found it, at most once a day.)";

inline constexpr const char* cache_verify_examples = R"(Example:
  coconet cache verify || coconet cache clear
Every entry of every directory is read: its lengths, its checksum, whether its name is the digest
of its key, and whether it is a regular file that nobody else may have written. Nothing is
removed. A bad entry is exit code 1.)";

inline constexpr const char* cache_explain_examples = R"(Examples:
  coconet cache explain adam --schedule fused
  coconet cache explain adam --schedule fused --arch sm_90 --ranks 8
  COCONET_CACHE_PATH=/site/kernels coconet cache explain adam --schedule fused --arch sm_90
For each kernel: the file that it is in; or the entry that is most like it, the first field of
the key that differs, and how. The fields are kind, format, target, entry, arch, compiler,
options, abi, prelude and source.)";

inline constexpr const char* cache_prune_examples = R"(Examples:
  coconet cache prune           to the limits of COCONET_CACHE_MAX_SIZE and COCONET_CACHE_MAX_FILES
  coconet cache prune --max-size 100M
  coconet cache prune --max-files 1000
What was used the longest ago goes first, until a fifth of each limit that was exceeded is free;
temporary files go that are older than an hour. Processes that use the cache may go on.)";

inline constexpr const char* cache_stats_examples = R"(Example:
  coconet cache stats)";

inline constexpr const char* cache_clear_examples = R"(Example:
  coconet cache clear
All entries go, of every format, and all temporary files: a process that is just storing a kernel
goes on without the cache. Other files stay, and symbolic links are not followed.)";

}  // namespace coconet::cli
