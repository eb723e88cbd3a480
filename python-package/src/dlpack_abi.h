/* SPDX-License-Identifier: Apache-2.0
 *
 * The binary interface of DLPack 1.3 (https://dmlc.github.io/dlpack/latest), as far as this
 * package uses it. A producer describes the memory of an array by a tensor. The consumer calls the
 * deleter of the tensor once.
 */
#ifndef SPARKRING_DLPACK_ABI_H
#define SPARKRING_DLPACK_ABI_H

#include <stdint.h>

#define DLPACK_MAJOR 1
#define DLPACK_READ_ONLY 1u /* flags */
#define DLPACK_IS_COPIED 2u

/* Names of capsules, before and after a consumer has taken over the tensor. */
#define DLPACK_CAPSULE "dltensor_versioned"
#define DLPACK_CAPSULE_USED "used_dltensor_versioned"
#define DLPACK_CAPSULE_OLD "dltensor"
#define DLPACK_CAPSULE_OLD_USED "used_dltensor"
#define DLPACK_CAPSULE_EXCHANGE "dlpack_exchange_api"

/* Devices. The CPU reads its own memory, and the pinned memory of two drivers. */
enum {
  DLPACK_CPU = 1,
  DLPACK_CUDA = 2,
  DLPACK_CUDA_HOST = 3,
  DLPACK_ROCM = 10,
  DLPACK_ROCM_HOST = 11,
  DLPACK_CUDA_MANAGED = 13
};

enum {
  DLPACK_INT = 0,
  DLPACK_UINT = 1,
  DLPACK_FLOAT = 2,
  DLPACK_BFLOAT = 4,
  DLPACK_COMPLEX = 5,
  DLPACK_BOOL = 6,
};

typedef struct dlpack_device {
  int32_t type, id;
} dlpack_device;

typedef struct dlpack_dtype {
  uint8_t code, bits;
  uint16_t lanes;
} dlpack_dtype;

typedef struct dlpack_tensor {
  void *data;
  dlpack_device device;
  int32_t ndim;
  dlpack_dtype dtype;
  int64_t *shape;
  int64_t *strides; /* in elements; NULL where contiguous in C order */
  uint64_t byte_offset;
} dlpack_tensor;

/* Before version 1. */
typedef struct dlpack_managed_old {
  dlpack_tensor tensor;
  void *context;
  void (*deleter)(struct dlpack_managed_old *);
} dlpack_managed_old;

typedef struct dlpack_version {
  uint32_t major, minor;
} dlpack_version;

typedef struct dlpack_managed {
  dlpack_version version;
  void *context;
  void (*deleter)(struct dlpack_managed *);
  uint64_t flags;
  dlpack_tensor tensor;
} dlpack_managed;

/* Functions of a type's attribute __dlpack_c_exchange_api__, which need no call of Python. They
 * return 0, or -1 with an exception. */
typedef struct dlpack_exchange {
  dlpack_version version;
  struct dlpack_exchange *previous;
  void *allocate;
  int (*from_object)(void *object, dlpack_managed **managed);
  int (*to_object)(dlpack_managed *managed, void **object);
  void *describe;
  void *stream;
} dlpack_exchange;

#endif
