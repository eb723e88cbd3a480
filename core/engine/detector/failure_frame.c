/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/detector/failure_frame.h"

#include <poll.h>
#include <string.h>

#include "base/checksum.h"
#include "base/platform.h"

#define FAILURE_FRAME_SLEEP_MS 10

void ring_failure_frame_sleep(ring_link *link, short events) {
  struct pollfd entry = {.fd = link->fd, .events = link->ops->arm(link, events)};
  poll(&entry, 1, FAILURE_FRAME_SLEEP_MS);
}

size_t ring_failure_frame_pack(const ring_error *error, uint8_t frame[RING_FAILURE_FRAME_BYTES]) {
  size_t length = strlen(error->message);
  ring_frame fail = {.kind = RING_FRAME_FAIL,
                     .length = (uint32_t)length,
                     .call = {.op = (uint8_t)error->status, .root = error->rank},
                     .check = ring_checksum(error->message, length)};
  ring_frame_pack(&fail, frame);
  memcpy(frame + RING_HEADER_BYTES, error->message, length);
  return RING_HEADER_BYTES + length;
}

void ring_failure_frame_receive(ring_link *link, const ring_frame *fail, char *message,
                                size_t size) {
  size_t have = 0, length = fail->length < size ? fail->length : size - 1;
  uint64_t deadline = ring_platform_now() + RING_FAILURE_FRAME_NS;
  while (have < length && ring_platform_now() < deadline) {
    struct iovec rest = {message + have, length - have};
    ssize_t got = link->ops->receive(link, &rest, 1);
    if (got < 0) break;
    have += (size_t)got;
    if (got == 0) ring_failure_frame_sleep(link, POLLIN);
  }
  bool intact = have >= length && ring_checksum(message, length) == fail->check;
  message[intact ? length : 0] = '\0';
}
