// NCCL's functions, which the files here define. The stub hides all its symbols but these.
#pragma once

#pragma GCC visibility push(default)
#include <nccl.h>
#pragma GCC visibility pop
