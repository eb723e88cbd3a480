/* SPDX-License-Identifier: Apache-2.0
 *
 * Groups of buffers, conversions and factors on a device. The kernels are those of core/device/kernels_source.h, which
 * the stub of CUDA runs on the host: so sanitizers see their indices. What is expected is computed one element at a time.
 */
#include "base/dtype.h"
#include "base/half.h"
#include "devices.h"
#include "values.h"

static float as_float(ring_dtype dtype, const void *memory, size_t i) {
  if (dtype == RING_FLOAT32) return ((const float *)memory)[i];
  uint16_t bits = ((const uint16_t *)memory)[i];
  return dtype == RING_FLOAT16 ? ring_float16_to_float32(bits) : ring_bfloat16_to_float32(bits);
}

static void set_float(ring_dtype dtype, void *memory, size_t i, float value) {
  if (dtype == RING_FLOAT32) ((float *)memory)[i] = value;
  if (dtype == RING_FLOAT16) ((uint16_t *)memory)[i] = ring_float16_from_float32(value);
  if (dtype == RING_BFLOAT16) ((uint16_t *)memory)[i] = ring_bfloat16_from_float32(value);
}

/* ---- Conversions --------------------------------------------------------------------------- */

/* Converts `count` elements that begin `skew` elements after an aligned address; the rest stays. */
static void check_cast(ring_device *device, ring_dtype from, ring_dtype to, size_t count,
                       size_t skew, float scale) {
  size_t width = ring_dtype_size(from), to_width = ring_dtype_size(to), all = count + skew + 8;
  uint8_t *in = calloc(all, width), *out = calloc(all, to_width), *expected = calloc(all, to_width);
  for (size_t i = 0; i < all; i++)
    set_float(from, in, i, (float)(rough(0, i) * (i % 2 == 0 ? 1 : -1)));
  memset(out, 0x77, all * to_width);
  memset(expected, 0x77, all * to_width);
  for (size_t i = skew; i < skew + count; i++)
    set_float(to, expected, i, as_float(from, in, i) * scale);
  uint8_t *gpu_in = gpu_copy(in, all * width), *gpu_out = gpu_copy(out, all * to_width);
  device_went_well(device, ring_device_cast(device, gpu_in + skew * width, from,
                                            gpu_out + skew * to_width, to, count, scale, NULL));
  device_went_well(device, ring_device_wait(device, NULL));
  gpu_get(out, gpu_out, all * to_width);
  if (memcmp(out, expected, all * to_width) != 0) {
    fprintf(stderr, "%s to %s, %zu from %zu, scale %g\n", ring_dtype_name(from),
            ring_dtype_name(to), count, skew, (double)scale);
    exit(1);
  }
  gpu_free(gpu_in);
  gpu_free(gpu_out);
  free(in);
  free(out);
  free(expected);
}

static void run_casts(ring_comm *comm, void *shared) {
  static const ring_dtype pairs[][2] = {{RING_FLOAT32, RING_FLOAT32},  {RING_FLOAT32, RING_FLOAT16},
                                        {RING_FLOAT32, RING_BFLOAT16}, {RING_FLOAT16, RING_FLOAT32},
                                        {RING_BFLOAT16, RING_FLOAT32}, {RING_FLOAT16, RING_FLOAT16},
                                        {RING_BFLOAT16, RING_BFLOAT16}};
  static const size_t counts[] = {0, 1, 255, 4096, 8192, 8193, 100003};
  (void)shared;
  ring_device *device = open_device(comm, RING_DEVICE_HOST);
  for (size_t p = 0; p < sizeof pairs / sizeof pairs[0]; p++)
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++)
      for (size_t skew = 0; skew < 4; skew++)
        for (int scaled = 0; scaled < 2; scaled++)
          check_cast(device, pairs[p][0], pairs[p][1], counts[c], skew, scaled ? 0.375f : 1);
  close_device(device);
}

static void test_casts(void) {
  run_comms(1, run_casts, NULL);
}

/* ---- Groups -------------------------------------------------------------------------------- */

typedef struct group {
  size_t buffers, largest;
  ring_dtype dtype, wire;
  ring_op op;
  float prescale, postscale;
  bool in_place;
  uint64_t launches; /* at most; 0: not checked */
} group;

static size_t length_of(const group *g, size_t buffer) {
  return g->buffers == 1 ? g->largest : (buffer * 7919 + 13) % (g->largest + 1);
}

/* What the result of an element is: rounded to the wire, reduced in rank order, rounded again. */
static float expected_of(const group *g, int size, size_t buffer, size_t i) {
  float sum = 0;
  uint16_t bits;
  for (int rank = 0; rank < size; rank++) {
    float value = (float)(exact(rank, i + buffer) - 2) * g->prescale;
    if (g->wire != RING_FLOAT32) {
      set_float(g->wire, &bits, 0, value);
      value = as_float(g->wire, &bits, 0);
    }
    sum = g->op == RING_SUM ? sum + value : rank == 0 || value > sum ? value : sum;
  }
  if (g->wire != RING_FLOAT32) {
    set_float(g->wire, &bits, 0, sum);
    sum = as_float(g->wire, &bits, 0);
  }
  float result = sum * g->postscale;
  if (g->dtype == RING_FLOAT32) return result;
  set_float(g->dtype, &bits, 0, result);
  return as_float(g->dtype, &bits, 0);
}

static void fill(const group *g, int rank, size_t buffer, uint8_t *values) {
  for (size_t i = 0; i < length_of(g, buffer); i++)
    set_float(g->dtype, values, i, (float)(exact(rank, i + buffer) - 2));
}

static void check_result(const group *g, int size, size_t buffer, const void *memory) {
  size_t count = length_of(g, buffer), width = ring_dtype_size(g->dtype);
  uint8_t *values = calloc(count + 1, width);
  gpu_get(values, memory, count * width);
  for (size_t i = 0; i < count; i++) {
    float expected = expected_of(g, size, buffer, i), got = as_float(g->dtype, values, i);
    if (got == expected) continue;
    fprintf(stderr, "buffer %zu, element %zu: %g, not %g\n", buffer, i, (double)got,
            (double)expected);
    exit(1);
  }
  free(values);
}

static uint64_t launches_of(ring_device *device) {
  ring_device_explanation explanation;
  device_went_well(device, ring_device_explain(device, &explanation));
  return explanation.launches;
}

static void check_group(ring_comm *comm, ring_device *device, const group *g) {
  int rank = ring_comm_rank(comm), size = ring_comm_size(comm);
  size_t width = ring_dtype_size(g->dtype);
  ring_buffer *buffers = calloc(g->buffers, sizeof *buffers);
  uint8_t *values = calloc(g->largest + 1, width);
  for (size_t b = 0; b < g->buffers; b++) {
    size_t count = length_of(g, b);
    fill(g, rank, b, values);
    void *input = gpu_copy(values, count * width);
    buffers[b] = (ring_buffer){input, g->in_place ? input : gpu_alloc(count * width), count};
  }
  uint64_t before = launches_of(device);
  device_went_well(device,
                   ring_device_allreduce_group(device, buffers, g->buffers, g->dtype, g->wire,
                                               g->op, g->prescale, g->postscale, NULL));
  device_went_well(device, ring_device_wait(device, NULL));
  if (g->launches > 0) CHECK(launches_of(device) - before <= g->launches);
  for (size_t b = 0; b < g->buffers; b++) {
    check_result(g, size, b, buffers[b].output);
    gpu_free((void *)buffers[b].input);
    if (!g->in_place) gpu_free(buffers[b].output);
  }
  free(buffers);
  free(values);
}

typedef struct groups_case {
  ring_device_path path;
  bool lacks_kernels;
} groups_case;

static void run_groups(ring_comm *comm, void *shared) {
  static const group groups[] = {
      {1, 5000, RING_FLOAT32, RING_FLOAT32, RING_SUM, 1, 1, false, 0},
      {1, 5000, RING_FLOAT32, RING_BFLOAT16, RING_SUM, 1, 0.5f, true, 2},
      {40, 3000, RING_FLOAT32, RING_FLOAT32, RING_SUM, 1, 1, true, 2},
      {40, 3000, RING_FLOAT32, RING_FLOAT32, RING_MAX, 0.25f, 2, false, 2},
      {40, 3000, RING_FLOAT32, RING_BFLOAT16, RING_SUM, 0.5f, 3, false, 2},
      {40, 3000, RING_FLOAT32, RING_FLOAT16, RING_SUM, 1, 0.25f, true, 2},
      {40, 3000, RING_BFLOAT16, RING_FLOAT32, RING_SUM, 1, 1, true, 2},
      {40, 3000, RING_FLOAT16, RING_FLOAT16, RING_SUM, 1, 1, false, 2},
      {1000, 200, RING_FLOAT32, RING_BFLOAT16, RING_SUM, 1, 1, true, 14}, /* 7 and 7 */
      {3, 2500000, RING_FLOAT32, RING_FLOAT32, RING_SUM, 1, 1, true, 2},  /* two travel alone */
      {3, 2500000, RING_FLOAT32, RING_FLOAT32, RING_SUM, 0.5f, 3, false, 2},
      {40, 3000, RING_FLOAT32, RING_FLOAT32, RING_SUM, 0.25f, 2, true, 2},
      {40, 3000, RING_BFLOAT16, RING_BFLOAT16, RING_SUM, 0.5f, 0.5f, false, 2},
      {40, 3000, RING_FLOAT16, RING_FLOAT16, RING_MAX, 0.5f, 4, true, 2},
  };
  const groups_case *s = shared;
  ring_device_options options = device_options(s->path);
  ring_device *device;
  if (s->lacks_kernels) options.nvrtc = "/nonexistent.so";
  use_gpu(ring_comm_rank(comm));
  CHECK_INT(ring_device_open(comm, &options, &device), RING_OK);
  for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++)
    check_group(comm, device, &groups[i]);
  device_went_well(device, ring_device_allreduce_group(device, NULL, 0, RING_INT32, RING_INT32,
                                                       RING_SUM, 1, 1, NULL));
  if (s->lacks_kernels) CHECK_INT(launches_of(device), 0);
  close_device(device);
}

static void test_groups(void) {
  RUN_COMMS(most_ranks(), run_groups, (groups_case[1]){{RING_DEVICE_NCCL, false}});
  RUN_COMMS(2, run_groups, (groups_case[1]){{RING_DEVICE_HOST, false}});
}

static void test_groups_without_kernels(void) {
  RUN_COMMS(most_ranks(), run_groups, (groups_case[1]){{RING_DEVICE_NCCL, true}});
  RUN_COMMS(2, run_groups, (groups_case[1]){{RING_DEVICE_HOST, true}});
}

/* A buffer that is converted and longer than a bundle is cut. */
static void run_long(ring_comm *comm, void *shared) {
  (void)shared;
  const group g = {1, 36 << 20, RING_FLOAT32, RING_BFLOAT16, RING_SUM, 1, 0.5f, true, 4};
  ring_device *device = open_device(comm, RING_DEVICE_HOST);
  check_group(comm, device, &g);
  close_device(device);
}

static void test_a_long_buffer_is_cut(void) {
  run_comms(1, run_long, NULL);
}

/* Integers travel together, too, to the bit. */
static void run_integers(ring_comm *comm, void *shared) {
  enum { BUFFERS = 5, COUNT = 1001 };
  ring_buffer buffers[BUFFERS];
  int64_t values[COUNT];
  ring_device *device = open_device(comm, *(ring_device_path *)shared);
  for (int b = 0; b < BUFFERS; b++) {
    for (int i = 0; i < COUNT; i++) values[i] = ((int64_t)1 << 60) + b * i + ring_comm_rank(comm);
    void *memory = gpu_copy(values, sizeof values);
    buffers[b] = (ring_buffer){memory, memory, COUNT};
  }
  device_went_well(device, ring_device_allreduce_group(device, buffers, BUFFERS, RING_INT64,
                                                       RING_INT64, RING_MAX, 1, 1, NULL));
  for (int b = 0; b < BUFFERS; b++) {
    gpu_get(values, buffers[b].output, sizeof values);
    for (int i = 0; i < COUNT; i++)
      CHECK_INT(values[i], ((int64_t)1 << 60) + b * i + ring_comm_size(comm) - 1);
    gpu_free(buffers[b].output);
  }
  close_device(device);
}

static void test_integers(void) {
  RUN_COMMS(2, run_integers, (ring_device_path[1]){RING_DEVICE_NCCL});
  RUN_COMMS(2, run_integers, (ring_device_path[1]){RING_DEVICE_HOST});
}

/* ---- Refusals ------------------------------------------------------------------------------ */

static void run_refusals(ring_comm *comm, void *shared) {
  (void)shared;
  ring_device *device = open_device(comm, RING_DEVICE_HOST);
  void *memory = gpu_alloc(64);
  const ring_buffer buffer = {memory, memory, 4}, none = {NULL, memory, 4};
  CHECK_INT(ring_device_cast(device, memory, RING_INT32, memory, RING_FLOAT32, 4, 1, NULL),
            RING_INVALID);
  CHECK_INT(ring_device_cast(device, memory, RING_INT32, memory, RING_INT32, 4, 2, NULL),
            RING_INVALID);
  CHECK_INT(ring_device_cast(device, memory, RING_FLOAT16, memory, RING_BFLOAT16, 4, 1, NULL),
            RING_INVALID);
  CHECK_INT(ring_device_cast(device, NULL, RING_FLOAT32, memory, RING_FLOAT32, 4, 1, NULL),
            RING_INVALID);
  CHECK_INT(ring_device_cast(device, memory, (ring_dtype)99, memory, (ring_dtype)99, 4, 1, NULL),
            RING_INVALID);
  CHECK_INT(
      ring_device_allreduce_group(device, &buffer, 1, RING_INT32, RING_INT32, RING_SUM, 1, 2, NULL),
      RING_INVALID);
  CHECK_INT(ring_device_allreduce_group(device, &buffer, 1, RING_FLOAT32, RING_FLOAT64, RING_SUM, 1,
                                        1, NULL),
            RING_INVALID);
  CHECK_INT(ring_device_allreduce_group(device, &buffer, 1, RING_FLOAT32, RING_FLOAT32, RING_BOR, 1,
                                        1, NULL),
            RING_INVALID);
  CHECK_INT(ring_device_allreduce_group(device, &none, 1, RING_FLOAT32, RING_FLOAT32, RING_SUM, 1,
                                        1, NULL),
            RING_INVALID);
  CHECK_INT(ring_device_allreduce_group(device, NULL, 1, RING_FLOAT32, RING_FLOAT32, RING_SUM, 1, 1,
                                        NULL),
            RING_INVALID);
  gpu_free(memory);
  close_device(device);
}

static void test_refusals(void) {
  run_comms(1, run_refusals, NULL);
}

int main(void) {
  RUN(test_casts);
  RUN(test_groups);
  RUN(test_groups_without_kernels);
  RUN(test_a_long_buffer_is_cut);
  RUN(test_integers);
  RUN(test_refusals);
  return 0;
}
