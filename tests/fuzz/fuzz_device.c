/* SPDX-License-Identifier: Apache-2.0
 *
 * What devices of other ranks send: the reports of an open, and the control messages of the hub, which are shorter
 * than they should be, too. The device fails with an error that names a rank which exists, or none, or goes on.
 */
#include "base/platform.h"
#include "device/device_hub.h"
#include "device/device_open.h"
#include "forgeries.h"

enum { SIZE = 3 };

static struct {
  input *from;
  ring_device *device;
} hub;

/* CMakeLists.txt has these called in place of those of hub/. */
void __wrap_ring_hub_move(const ring_hub *control);
ring_hub_arrival __wrap_ring_hub_receive(ring_hub *control, ring_hub_message *message,
                                         ring_error *error);
ring_status __wrap_ring_hub_post(ring_hub *control, ring_error *error);
ring_status __wrap_ring_hub_send(ring_hub *control, ring_hub_payload *payload, int peer, int tag,
                                 ring_error *error);
ring_status __wrap_ring_hub_send_all(ring_hub *control, ring_hub_payload *payload, int first,
                                     int tag, ring_error *error);

void __wrap_ring_hub_move(const ring_hub *control) {
  (void)control;
}

ring_hub_arrival __wrap_ring_hub_receive(ring_hub *control, ring_hub_message *message,
                                         ring_error *error) {
  (void)control, (void)error;
  if (hub.from->left == 0) return RING_HUB_NOTHING;
  unsigned first = input_byte(hub.from);
  input bytes = input_cut(hub.from, first % 4 == 3 ? first / 4 : RING_DEVICE_MESSAGE_BYTES);
  int source = hub.device->rank == 0 ? 1 + (int)(first / 4 % (SIZE - 1)) : 0;
  *message = (ring_hub_message){source, bytes.left, NULL};
  if (bytes.left > 0)
    FUZZ_PROMISE(ring_alloc(hub.device->comm, bytes.left, &message->bytes) == RING_OK);
  if (bytes.left > 0) memcpy(message->bytes, bytes.at, bytes.left);
  return RING_HUB_MESSAGE;
}

ring_status __wrap_ring_hub_post(ring_hub *control, ring_error *error) {
  (void)control, (void)error;
  return RING_OK;
}

static ring_status drop(ring_hub_payload *payload) {
  FUZZ_PROMISE(payload != NULL && payload->length == RING_DEVICE_MESSAGE_BYTES);
  ring_hub_payload_drop(payload);
  return RING_OK;
}

ring_status __wrap_ring_hub_send(ring_hub *control, ring_hub_payload *payload, int peer, int tag,
                                 ring_error *error) {
  (void)control, (void)tag, (void)error;
  FUZZ_PROMISE(peer >= 0 && peer < SIZE);
  return drop(payload);
}

ring_status __wrap_ring_hub_send_all(ring_hub *control, ring_hub_payload *payload, int first,
                                     int tag, ring_error *error) {
  (void)control, (void)first, (void)tag, (void)error;
  return drop(payload);
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
  forgeries_begin(&from);
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
