/* SPDX-License-Identifier: Apache-2.0
 *
 * What a PMIx server and its lead read from their socket: a job, and messages. A job that is read is the one that was
 * written. A message that is good keeps the promises of its kind. No length leads behind the bytes.
 */
#include "input.h"
#include "pmi/pmix_message.h"

enum { SIZE = 5 };

static void check_strings(const char *bytes, size_t length, int strings) {
  const char *end = bytes + length;
  for (; strings > 0; strings--) {
    FUZZ_PROMISE(bytes < end && memchr(bytes, '\0', (size_t)(end - bytes)) != NULL);
    bytes += strlen(bytes) + 1;
  }
  FUZZ_PROMISE(bytes == end);
}

static void take_job(const char *bytes, size_t length) {
  ring_pmix_job job;
  size_t written;
  if (!ring_pmix_job_read(bytes, length, &job)) return;
  FUZZ_PROMISE(job.hosts > 0 && job.hosts <= job.size && job.host >= 0 && job.host < job.hosts);
  for (int rank = 0; rank < job.size; rank++)
    FUZZ_PROMISE(job.nodes[rank] >= 0 && job.nodes[rank] < job.hosts);
  char *again = ring_pmix_job_write(&job, &written);
  FUZZ_PROMISE(again != NULL && written == length && memcmp(again, bytes, length) == 0);
  free(again);
  ring_pmix_job_free(&job);
}

static void take_message(char kind, const ring_pmix_message *message) {
  if (kind == RING_PMIX_JOB) take_job(message->bytes, message->length);
  if (!ring_pmix_message_is_good(kind, message, SIZE)) return;
  if (kind == RING_PMIX_NAME)
    check_strings(message->bytes, message->length, message->value == RING_PMIX_PUBLISH ? 2 : 1);
  if (kind == RING_PMIX_FENCE) {
    FUZZ_PROMISE(ring_pmix_message_fence_head(message) <= message->length);
    for (int place = 0; place < message->value; place++) {
      int rank = ring_pmix_message_rank(message->bytes, place);
      FUZZ_PROMISE(rank >= 0 && rank < SIZE);
    }
  }
  if (kind == RING_PMIX_CONNECTED || kind == RING_PMIX_MODEX || kind == RING_PMIX_ENVIRONMENT)
    FUZZ_PROMISE(message->rank >= 0 && message->rank < SIZE);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
  input from = {bytes, length};
  while (from.left > 0) {
    uint8_t head[RING_PMIX_HEAD];
    ring_pmix_message message;
    char kind;
    long size = ring_pmix_message_next((const char *)from.at, from.left, &kind, &message);
    if (size <= 0) break;
    FUZZ_PROMISE((size_t)size == sizeof head + message.length && (size_t)size <= from.left);
    ring_pmix_message_head(head, kind, &message);
    FUZZ_PROMISE(memcmp(head, from.at, sizeof head) == 0);
    take_message(kind, &message);
    input_cut(&from, (size_t)size);
  }
  return 0;
}
