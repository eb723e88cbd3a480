/* SPDX-License-Identifier: Apache-2.0
 *
 * The core's declarations of NCCL are those of nccl.h: the compiler compares each function and each number.
 * CMake builds this where it finds the header.
 */
#include <nccl.h>

#include "check.h"

#define RING_NCCL_TYPES_ARE_GIVEN
typedef ncclComm_t ring_nccl_comm;
typedef ncclUniqueId ring_nccl_unique_id;
typedef ncclResult_t ring_nccl_result;
typedef ncclDataType_t ring_nccl_dtype;
typedef ncclRedOp_t ring_nccl_op;
typedef cudaStream_t ring_nccl_stream;
typedef ncclConfig_t ring_nccl_config_type;
#include "device/nccl_api.h"
#include "sparkring.h"

#define SAME_FUNCTION(field, function, result, arguments)                                          \
  _Static_assert(                                                                                  \
      __builtin_types_compatible_p(__typeof__(&(function)), __typeof__(((ring_nccl *)0)->field)),  \
      #function);
RING_NCCL_FUNCTION_MAP(SAME_FUNCTION)

#define SAME_NUMBER(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #theirs)
SAME_NUMBER(RING_NCCL_SUCCESS, ncclSuccess);
SAME_NUMBER(RING_NCCL_UNHANDLED_CUDA_ERROR, ncclUnhandledCudaError);
SAME_NUMBER(RING_NCCL_SYSTEM_ERROR, ncclSystemError);
SAME_NUMBER(RING_NCCL_INTERNAL_ERROR, ncclInternalError);
SAME_NUMBER(RING_NCCL_INVALID_ARGUMENT, ncclInvalidArgument);
SAME_NUMBER(RING_NCCL_INVALID_USAGE, ncclInvalidUsage);
SAME_NUMBER(RING_NCCL_REMOTE_ERROR, ncclRemoteError);
SAME_NUMBER(RING_NCCL_IN_PROGRESS, ncclInProgress);
SAME_NUMBER(RING_NCCL_INT8, ncclInt8);
SAME_NUMBER(RING_NCCL_UINT8, ncclUint8);
SAME_NUMBER(RING_NCCL_INT32, ncclInt32);
SAME_NUMBER(RING_NCCL_UINT32, ncclUint32);
SAME_NUMBER(RING_NCCL_INT64, ncclInt64);
SAME_NUMBER(RING_NCCL_UINT64, ncclUint64);
SAME_NUMBER(RING_NCCL_FLOAT16, ncclFloat16);
SAME_NUMBER(RING_NCCL_FLOAT32, ncclFloat32);
SAME_NUMBER(RING_NCCL_FLOAT64, ncclFloat64);
SAME_NUMBER(RING_NCCL_BFLOAT16, ncclBfloat16);
SAME_NUMBER(RING_NCCL_SUM, ncclSum);
SAME_NUMBER(RING_NCCL_PROD, ncclProd);
SAME_NUMBER(RING_NCCL_MAX, ncclMax);
SAME_NUMBER(RING_NCCL_MIN, ncclMin);
SAME_NUMBER(RING_NCCL_AVG, ncclAvg);

#define SAME_FIELD(ours, theirs)                                                                   \
  _Static_assert(offsetof(ring_nccl_config, ours) == offsetof(ncclConfig_t, theirs), #theirs)
SAME_FIELD(size, size);
SAME_FIELD(magic, magic);
SAME_FIELD(version, version);
SAME_FIELD(blocking, blocking);
SAME_FIELD(cga_cluster_size, cgaClusterSize);
_Static_assert(sizeof(ring_nccl_config) == offsetof(ncclConfig_t, minCTAs), "config");
_Static_assert(sizeof(ncclUniqueId) == RING_NCCL_ID_BYTES, "ncclUniqueId");

int main(void) {
  const ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  CHECK_INT(config.magic, RING_NCCL_CONFIG_MAGIC);
  CHECK_INT(config.cgaClusterSize, RING_NCCL_UNDEFINED);
  CHECK(config.version >= RING_NCCL_CONFIG_VERSION);
  return 0;
}
