// Counting calls of MPI, making them fail, and stopping in front of them.
#include "mpi/own_calls.h"

#include <mpi.h>

#include <csignal>

namespace coconet::test {

int all_reduces = 0;
bool broken_all_reduce = false;
bool stops_inside = false;
void (*before_call)(const char* name, int calls) = nullptr;

}  // namespace coconet::test

/// One that takes `parameters`, which are called `arguments`, counts itself, and is MPI's then.
#define OWN_CALL(name, parameters, arguments)                                   \
  extern "C" int name parameters {                                              \
    static int calls = 0;                                                       \
    if (coconet::test::before_call) coconet::test::before_call(#name, calls++); \
    return P##name arguments;                                                   \
  }

OWN_CALL(MPI_Init_thread, (int* count, char*** texts, int level, int* got),
         (count, texts, level, got))
OWN_CALL(MPI_Comm_rank, (MPI_Comm comm, int* rank), (comm, rank))
OWN_CALL(MPI_Comm_size, (MPI_Comm comm, int* size), (comm, size))
OWN_CALL(MPI_Comm_split, (MPI_Comm comm, int color, int key, MPI_Comm* made),
         (comm, color, key, made))
OWN_CALL(MPI_Comm_set_errhandler, (MPI_Comm comm, MPI_Errhandler handler), (comm, handler))
OWN_CALL(MPI_Comm_set_attr, (MPI_Comm comm, int key, void* value), (comm, key, value))
OWN_CALL(MPI_Comm_get_attr, (MPI_Comm comm, int key, void* value, int* found),
         (comm, key, value, found))
OWN_CALL(MPI_Comm_test_inter, (MPI_Comm comm, int* is), (comm, is))
OWN_CALL(MPI_Comm_free, (MPI_Comm * comm), (comm))
OWN_CALL(MPI_Ibarrier, (MPI_Comm comm, MPI_Request* request), (comm, request))
OWN_CALL(MPI_Test, (MPI_Request * request, int* done, MPI_Status* status), (request, done, status))
OWN_CALL(MPI_Iprobe, (int source, int tag, MPI_Comm comm, int* found, MPI_Status* status),
         (source, tag, comm, found, status))
OWN_CALL(MPI_Improbe,
         (int source, int tag, MPI_Comm comm, int* found, MPI_Message* message, MPI_Status* status),
         (source, tag, comm, found, message, status))
OWN_CALL(MPI_Mrecv,
         (void* to, int count, MPI_Datatype type, MPI_Message* message, MPI_Status* status),
         (to, count, type, message, status))
OWN_CALL(MPI_Isend,
         (const void* from, int count, MPI_Datatype type, int rank, int tag, MPI_Comm comm,
          MPI_Request* request),
         (from, count, type, rank, tag, comm, request))
OWN_CALL(MPI_Irecv,
         (void* to, int count, MPI_Datatype type, int rank, int tag, MPI_Comm comm,
          MPI_Request* request),
         (to, count, type, rank, tag, comm, request))
OWN_CALL(MPI_Iallgather,
         (const void* in, int count, MPI_Datatype type, void* out, int counts, MPI_Datatype types,
          MPI_Comm comm, MPI_Request* request),
         (in, count, type, out, counts, types, comm, request))
OWN_CALL(MPI_Iallgatherv,
         (const void* in, int count, MPI_Datatype type, void* out, const int* counts,
          const int* places, MPI_Datatype types, MPI_Comm comm, MPI_Request* request),
         (in, count, type, out, counts, places, types, comm, request))
OWN_CALL(MPI_Reduce,
         (const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, int root,
          MPI_Comm comm),
         (in, out, count, type, op, root, comm))
OWN_CALL(MPI_Reduce_scatter,
         (const void* in, void* out, const int* counts, MPI_Datatype type, MPI_Op op,
          MPI_Comm comm),
         (in, out, counts, type, op, comm))
OWN_CALL(MPI_Allgatherv,
         (const void* in, int count, MPI_Datatype type, void* out, const int* counts,
          const int* places, MPI_Datatype types, MPI_Comm comm),
         (in, count, type, out, counts, places, types, comm))
OWN_CALL(MPI_Gatherv,
         (const void* in, int count, MPI_Datatype type, void* out, const int* counts,
          const int* places, MPI_Datatype types, int root, MPI_Comm comm),
         (in, count, type, out, counts, places, types, root, comm))
OWN_CALL(MPI_Alltoallv,
         (const void* in, const int* sent, const int* from, MPI_Datatype type, void* out,
          const int* received, const int* to, MPI_Datatype types, MPI_Comm comm),
         (in, sent, from, type, out, received, to, types, comm))
OWN_CALL(MPI_Bcast, (void* data, int count, MPI_Datatype type, int root, MPI_Comm comm),
         (data, count, type, root, comm))
OWN_CALL(MPI_Sendrecv,
         (const void* in, int sent, MPI_Datatype type, int to, int tag, void* out, int received,
          MPI_Datatype types, int from, int tags, MPI_Comm comm, MPI_Status* status),
         (in, sent, type, to, tag, out, received, types, from, tags, comm, status))
OWN_CALL(MPI_Finalize, (), ())

extern "C" int MPI_Allreduce(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op,
                             MPI_Comm comm) {
  if (coconet::test::before_call)
    coconet::test::before_call("MPI_Allreduce", coconet::test::all_reduces);
  ++coconet::test::all_reduces;
  if (coconet::test::broken_all_reduce) return MPI_ERR_COUNT;
  if (coconet::test::stops_inside) std::raise(SIGSTOP);
  return PMPI_Allreduce(in, out, count, type, op, comm);
}
