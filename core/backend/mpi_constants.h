/* SPDX-License-Identifier: Apache-2.0
 *
 * The constants of MPI that the backend uses, in three binary interfaces: MPICH's, where a handle is a number;
 * that of the standard (MPI 5, chapter 20), where it is a pointer of a small value; and Open MPI's, where it
 * is the address of a variable. No header of MPI is needed to build, and tests compare these rows with
 * mpi.h.
 */
#ifndef RING_BACKEND_MPI_CONSTANTS_H
#define RING_BACKEND_MPI_CONSTANTS_H

/* X(dtype, name in MPI, MPICH, MPI 5, variable of Open MPI). float16 and bfloat16 are moved as integers,
 * and reduced as float32. */
#define RING_MPI_TYPE_MAP(X)                                                                       \
  X(RING_INT8, MPI_INT8_T, 0x4c000137, 0x240, ompi_mpi_int8_t)                                     \
  X(RING_UINT8, MPI_UINT8_T, 0x4c00013b, 0x241, ompi_mpi_uint8_t)                                  \
  X(RING_INT32, MPI_INT32_T, 0x4c000439, 0x250, ompi_mpi_int32_t)                                  \
  X(RING_INT64, MPI_INT64_T, 0x4c00083a, 0x258, ompi_mpi_int64_t)                                  \
  X(RING_FLOAT16, MPI_UINT16_T, 0x4c00023c, 0x249, ompi_mpi_uint16_t)                              \
  X(RING_BFLOAT16, MPI_UINT16_T, 0x4c00023c, 0x249, ompi_mpi_uint16_t)                             \
  X(RING_FLOAT32, MPI_FLOAT, 0x4c00040a, 0x210, ompi_mpi_float)                                    \
  X(RING_FLOAT64, MPI_DOUBLE, 0x4c00080b, 0x214, ompi_mpi_double)                                  \
  X(RING_BOOL, MPI_UINT8_T, 0x4c00013b, 0x241, ompi_mpi_uint8_t)                                   \
  X(RING_INT16, MPI_INT16_T, 0x4c000238, 0x248, ompi_mpi_int16_t)                                  \
  X(RING_UINT16, MPI_UINT16_T, 0x4c00023c, 0x249, ompi_mpi_uint16_t)                               \
  X(RING_UINT32, MPI_UINT32_T, 0x4c00043d, 0x251, ompi_mpi_uint32_t)                               \
  X(RING_UINT64, MPI_UINT64_T, 0x4c00083e, 0x259, ompi_mpi_uint64_t)                               \
  X(RING_COMPLEX64, MPI_C_FLOAT_COMPLEX, 0x4c000840, 0x212, ompi_mpi_c_float_complex)              \
  X(RING_COMPLEX128, MPI_C_DOUBLE_COMPLEX, 0x4c001041, 0x216, ompi_mpi_c_double_complex)

/* X(name, name in MPI, MPICH, MPI 5, variable of Open MPI). */
#define RING_MPI_OP_MAP(X)                                                                         \
  X(SUM, MPI_SUM, 0x58000003, 0x21, ompi_mpi_op_sum)                                               \
  X(PROD, MPI_PROD, 0x58000004, 0x24, ompi_mpi_op_prod)                                            \
  X(MIN, MPI_MIN, 0x58000002, 0x22, ompi_mpi_op_min)                                               \
  X(MAX, MPI_MAX, 0x58000001, 0x23, ompi_mpi_op_max)                                               \
  X(LAND, MPI_LAND, 0x58000005, 0x30, ompi_mpi_op_land)                                            \
  X(LOR, MPI_LOR, 0x58000007, 0x31, ompi_mpi_op_lor)                                               \
  X(LXOR, MPI_LXOR, 0x58000009, 0x32, ompi_mpi_op_lxor)                                            \
  X(BAND, MPI_BAND, 0x58000006, 0x28, ompi_mpi_op_band)                                            \
  X(BOR, MPI_BOR, 0x58000008, 0x29, ompi_mpi_op_bor)                                               \
  X(BXOR, MPI_BXOR, 0x5800000a, 0x2a, ompi_mpi_op_bxor)

/* X(name, name in MPI, MPICH, MPI 5, variable of Open MPI). */
#define RING_MPI_OBJECT_MAP(X)                                                                     \
  X(world, MPI_COMM_WORLD, 0x44000000, 0x101, ompi_mpi_comm_world)                                 \
  X(self, MPI_COMM_SELF, 0x44000001, 0x102, ompi_mpi_comm_self)                                    \
  X(errors_return, MPI_ERRORS_RETURN, 0x54000001, 0x143, ompi_mpi_errors_return)

/* X(name, name in MPI, MPICH, MPI 5, Open MPI). */
#define RING_MPI_NUMBER_MAP(X)                                                                     \
  X(serialized, MPI_THREAD_SERIALIZED, 2, 2048, 2)                                                 \
  X(multiple, MPI_THREAD_MULTIPLE, 3, 4096, 3)                                                     \
  X(truncate, MPI_ERR_TRUNCATE, 14, 15, 15)                                                        \
  X(any_source, MPI_ANY_SOURCE, -2, -1, -1)

/* X(name, name in MPI, MPICH, MPI 5, Open MPI): pointers that are no addresses. */
#define RING_MPI_SENTINEL_MAP(X)                                                                   \
  X(in_place, MPI_IN_PLACE, -1, 1, 1)                                                              \
  X(status_ignore, MPI_STATUS_IGNORE, 1, 0, 0)

/* The longest text that a library writes into a buffer. */
enum { RING_MPI_TEXT = 8192 };

#endif
