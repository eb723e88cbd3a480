/* SPDX-License-Identifier: Apache-2.0
 *
 * What devices of other ranks send: the reports of an open, and the control messages of the hub, which are shorter
 * than they should be, too. The device fails with an error that names a rank which exists, or none, or goes on.
 */
#include "base/platform.h"
#include "device/device_hub.h"
#include "device/device_open.h"
#include "lies.h"

enum { SIZE = 3 };

static struct {
  input *from;
  ring_device *device;
  ring_message_info info;
} hub;

/* CMakeLists.txt has these called in place of those of messages. */
ring_status __wrap_ring_transfer_test(ring_transfer *transfer, int *done);
ring_message_info __wrap_ring_transfer_info(const ring_transfer *transfer);
void __wrap_ring_transfer_free(ring_transfer *transfer);
ring_status __wrap_ring_messages_recv_start(ring_messages *messages, void *output, size_t capacity,
                                            ring_dtype dtype, int source, int tag,
                                            ring_transfer **transfer);
ring_status __wrap_ring_messages_send(ring_messages *messages, const void *input, size_t count,
                                      ring_dtype dtype, int peer, int tag);

ring_status __wrap_ring_transfer_test(ring_transfer *transfer, int *done) {
  (void)transfer;
  *done = hub.from->left > 0;
  if (!*done) return RING_OK;
  unsigned first = input_byte(hub.from);
  input message = input_cut(hub.from, first % 4 == 3 ? first / 4 : RING_HUB_MESSAGE_BYTES);
  if (message.left > RING_HUB_MESSAGE_BYTES) message.left = RING_HUB_MESSAGE_BYTES;
  if (message.left > 0) memcpy(hub.device->hub.message, message.at, message.left);
  int source = hub.device->rank == 0 ? 1 + (int)(first / 4 % (SIZE - 1)) : 0;
  hub.info = (ring_message_info){source, 1, RING_UINT8, message.left};
  return RING_OK;
}

ring_message_info __wrap_ring_transfer_info(const ring_transfer *transfer) {
  (void)transfer;
  return hub.info;
}

void __wrap_ring_transfer_free(ring_transfer *transfer) {
  (void)transfer;
}

ring_status __wrap_ring_messages_recv_start(ring_messages *messages, void *output, size_t capacity,
                                            ring_dtype dtype, int source, int tag,
                                            ring_transfer **transfer) {
  (void)messages, (void)output, (void)capacity, (void)dtype, (void)source, (void)tag;
  *transfer = NULL;
  return RING_OK;
}

ring_status __wrap_ring_messages_send(ring_messages *messages, const void *input, size_t count,
                                      ring_dtype dtype, int peer, int tag) {
  (void)messages, (void)input, (void)dtype, (void)tag;
  FUZZ_PROMISE(count == RING_HUB_MESSAGE_BYTES && peer >= 0 && peer < SIZE);
  return RING_OK;
}

static void poll_hub(ring_device *device, unsigned calls) {
  for (unsigned i = 0; i < calls % 8; i++) {
    device->sequence++;
    device->calls[device->sequence % RING_DEVICE_CALLS] =
        (ring_call){.collective = RING_COLLECTIVE_ALLREDUCE, .sequence = device->sequence};
  }
  if (calls >= 128)
    ring_device_hub_report_late(device, &device->calls[device->sequence % RING_DEVICE_CALLS], 1.5);
  ring_device_hub_poll(device);
  if (!device->failed) return;
  FUZZ_PROMISE(device->failure.rank >= -1 && device->failure.rank < SIZE);
  FUZZ_PROMISE(device->failure.status != RING_OK && device->failure.message[0] != '\0');
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
  const ring_device_options options = RING_DEVICE_OPTIONS_INIT;
  input from = {bytes, length};
  unsigned which = input_byte(&from), calls = input_byte(&from);
  int rank = (int)(which / 2 % SIZE);
  ring_comm *comm = make_comm(rank, SIZE);
  ring_device *device = calloc(1, sizeof *device);
  FUZZ_PROMISE(device != NULL);
  device->process = ring_platform_process();
  device->comm = comm;
  device->rank = rank;
  device->size = SIZE;
  device->hub.answers = calloc(SIZE, sizeof *device->hub.answers);
  FUZZ_PROMISE(device->hub.answers != NULL);
  pthread_mutex_init(&device->mutex, NULL);
  ring_platform_condition_init(&device->stopped);
  hub.from = &from;
  hub.device = device;
  lies_begin(&from);
  if (which % 2 == 0)
    poll_hub(device, calls);
  else if (ring_device_choose(device, &options) != RING_OK)
    check_error(comm, comm->error.status);
  pthread_mutex_destroy(&device->mutex);
  pthread_cond_destroy(&device->stopped);
  free(device->hub.answers);
  free(device);
  ring_comm_free(comm);
  world_end();
  return 0;
}
