/* SPDX-License-Identifier: Apache-2.0 */
#include "messages/transfer.h"

#include <stdlib.h>

ring_transfer *ring_transfer_make(ring_transfer *spare) {
  ring_transfer *transfer = spare != NULL ? spare : malloc(sizeof *transfer);
  if (transfer == NULL) return NULL;
  *transfer = (ring_transfer){.status = RING_OK};
  transfer->packet.transfer = transfer;
  return transfer;
}

void ring_transfer_complete(ring_transfer *transfer, const ring_error *error) {
  if (error != NULL) {
    transfer->status = error->status;
    transfer->error = malloc(sizeof *transfer->error);
    if (transfer->error != NULL) *transfer->error = *error;
  }
  atomic_store_explicit(&transfer->done, true, memory_order_release);
}

void ring_transfer_clear(ring_transfer *transfer) {
  free(transfer->error);
  ring_free(transfer->output);
  transfer->error = NULL;
  transfer->output = NULL;
}
