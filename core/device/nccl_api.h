/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions of NCCL that the core uses, declared here and loaded at run time. tests/core/device/test_nccl_header.c
 * compares the declarations with nccl.h.
 */
#ifndef RING_DEVICE_NCCL_API_H
#define RING_DEVICE_NCCL_API_H

#include <stdbool.h>
#include <stddef.h>

#define RING_NCCL_LIBRARIES "libnccl.so.2:libnccl.so"

/* Before this version a call of a communicator that does not block could block in the caller, and NCCL's thread could
 * free a communicator whose init had failed. */
#define RING_NCCL_LEAST 22300

/* The config of NCCL 2.14, with the field after it, which fills the padding. Later versions give the fields
 * that the version below does not have their defaults. */
typedef struct ring_nccl_config {
  size_t size;
  unsigned magic, version;
  int blocking, cga_cluster_size;
} ring_nccl_config;

#define RING_NCCL_CONFIG_MAGIC 0xcafebeefu
#define RING_NCCL_CONFIG_VERSION 21400u
#define RING_NCCL_UNDEFINED (-2147483647 - 1)

/* A test puts NCCL's own types here. */
#ifndef RING_NCCL_TYPES_ARE_GIVEN
typedef struct ncclComm *ring_nccl_comm;
typedef struct ring_nccl_unique_id {
  char internal[128];
} ring_nccl_unique_id;
typedef int ring_nccl_result, ring_nccl_dtype, ring_nccl_op, ring_nccl_residence;
typedef struct CUstream_st *ring_nccl_stream;
typedef ring_nccl_config ring_nccl_config_type;
#endif

enum {
  RING_NCCL_SUCCESS = 0,
  RING_NCCL_UNHANDLED_CUDA_ERROR = 1,
  RING_NCCL_SYSTEM_ERROR = 2,
  RING_NCCL_INTERNAL_ERROR = 3,
  RING_NCCL_INVALID_ARGUMENT = 4,
  RING_NCCL_INVALID_USAGE = 5,
  RING_NCCL_REMOTE_ERROR = 6,
  RING_NCCL_IN_PROGRESS = 7
};

enum {
  RING_NCCL_INT8 = 0,
  RING_NCCL_UINT8 = 1,
  RING_NCCL_INT32 = 2,
  RING_NCCL_UINT32 = 3,
  RING_NCCL_INT64 = 4,
  RING_NCCL_UINT64 = 5,
  RING_NCCL_FLOAT16 = 6,
  RING_NCCL_FLOAT32 = 7,
  RING_NCCL_FLOAT64 = 8,
  RING_NCCL_BFLOAT16 = 9
};

enum {
  RING_NCCL_SUM = 0,
  RING_NCCL_PROD = 1,
  RING_NCCL_MAX = 2,
  RING_NCCL_MIN = 3,
  RING_NCCL_AVG = 4
};

/* The place of the factor of a pre-multiplied sum: memory that is read at once. */
enum { RING_NCCL_SCALAR_OF_HOST = 1 };

/* X(field, function, result, arguments). */
#define RING_NCCL_FUNCTION_MAP(X)                                                                  \
  X(get_version, ncclGetVersion, ring_nccl_result, (int *))                                        \
  X(get_unique_id, ncclGetUniqueId, ring_nccl_result, (ring_nccl_unique_id *))                     \
  X(get_error_string, ncclGetErrorString, const char *, (ring_nccl_result))                        \
  X(get_last_error, ncclGetLastError, const char *, (ring_nccl_comm))                              \
  X(init, ncclCommInitRankConfig, ring_nccl_result,                                                \
    (ring_nccl_comm *, int, ring_nccl_unique_id, int, ring_nccl_config_type *))                    \
  X(finalize, ncclCommFinalize, ring_nccl_result, (ring_nccl_comm))                                \
  X(destroy, ncclCommDestroy, ring_nccl_result, (ring_nccl_comm))                                  \
  X(abort, ncclCommAbort, ring_nccl_result, (ring_nccl_comm))                                      \
  X(get_async_error, ncclCommGetAsyncError, ring_nccl_result,                                      \
    (ring_nccl_comm, ring_nccl_result *))                                                          \
  X(op_create, ncclRedOpCreatePreMulSum, ring_nccl_result,                                         \
    (ring_nccl_op *, void *, ring_nccl_dtype, ring_nccl_residence, ring_nccl_comm))                \
  X(op_destroy, ncclRedOpDestroy, ring_nccl_result, (ring_nccl_op, ring_nccl_comm))                \
  X(group_start, ncclGroupStart, ring_nccl_result, (void))                                         \
  X(group_end, ncclGroupEnd, ring_nccl_result, (void))                                             \
  X(allreduce, ncclAllReduce, ring_nccl_result,                                                    \
    (const void *, void *, size_t, ring_nccl_dtype, ring_nccl_op, ring_nccl_comm,                  \
     ring_nccl_stream))                                                                            \
  X(reduce, ncclReduce, ring_nccl_result,                                                          \
    (const void *, void *, size_t, ring_nccl_dtype, ring_nccl_op, int, ring_nccl_comm,             \
     ring_nccl_stream))                                                                            \
  X(broadcast, ncclBroadcast, ring_nccl_result,                                                    \
    (const void *, void *, size_t, ring_nccl_dtype, int, ring_nccl_comm, ring_nccl_stream))        \
  X(allgather, ncclAllGather, ring_nccl_result,                                                    \
    (const void *, void *, size_t, ring_nccl_dtype, ring_nccl_comm, ring_nccl_stream))             \
  X(reduce_scatter, ncclReduceScatter, ring_nccl_result,                                           \
    (const void *, void *, size_t, ring_nccl_dtype, ring_nccl_op, ring_nccl_comm,                  \
     ring_nccl_stream))                                                                            \
  X(send, ncclSend, ring_nccl_result,                                                              \
    (const void *, size_t, ring_nccl_dtype, int, ring_nccl_comm, ring_nccl_stream))                \
  X(recv, ncclRecv, ring_nccl_result,                                                              \
    (void *, size_t, ring_nccl_dtype, int, ring_nccl_comm, ring_nccl_stream))

typedef struct ring_nccl {
#define NCCL_FIELD(field, function, result, arguments) result(*field) arguments;
  RING_NCCL_FUNCTION_MAP(NCCL_FIELD)
#undef NCCL_FIELD
} ring_nccl;

/* Loads the first of the libraries, with colons between their names; NULL: RING_NCCL_LIBRARIES. Else, and where the
 * library is older than RING_NCCL_LEAST, returns false, and `problem` has the reason. */
bool ring_nccl_load(ring_nccl *nccl, const char *libraries, int *version, char *problem,
                    size_t size);

/* "2.28.3"; enough room is RING_NCCL_VERSION_TEXT bytes. */
#define RING_NCCL_VERSION_TEXT 24
void ring_nccl_version(int version, char *text);

#endif
