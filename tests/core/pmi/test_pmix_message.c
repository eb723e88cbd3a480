/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages between a lead and its PMIx server, without the two: bytes that are none, limits, and a channel.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"
#include "pmi/pmix_channel.h"

enum { SIZE = 3 };

/* ---- Checks ------------------------------------------------------------------------------- */

static bool is_good(char kind, int rank, int value, const char *bytes, size_t length) {
  const ring_pmix_message message = {
      .rank = rank, .value = value, .bytes = bytes, .length = length};
  return ring_pmix_message_is_good(kind, &message, SIZE);
}

static void test_ranks(void) {
  static const char kinds[] = {RING_PMIX_CONNECTED, RING_PMIX_FINALIZED, RING_PMIX_ABORTED,
                               RING_PMIX_MODEX};
  for (size_t i = 0; i < sizeof kinds; i++) {
    CHECK(is_good(kinds[i], 0, 0, "", 0) && is_good(kinds[i], SIZE - 1, 0, "", 0));
    CHECK(!is_good(kinds[i], -1, 0, "", 0) && !is_good(kinds[i], SIZE, 0, "", 0));
    CHECK(!is_good(kinds[i], 0, 0, "more", 4));
  }
  CHECK(is_good(RING_PMIX_FETCHED, 2, 1, "data", 4) && is_good(RING_PMIX_FETCHED, 2, 0, "", 0));
  CHECK(!is_good(RING_PMIX_FETCHED, 3, 1, "data", 4) && !is_good(RING_PMIX_FETCHED, 0, 2, "", 0));
}

static void test_fences(void) {
  static const char ranks[] = "\0\0\0\0\2\0\0\0us\0data", beyond[] = "\0\0\0\0\3\0\0\0us\0data";
  const ring_pmix_message named = {.value = 2, .bytes = ranks, .length = 15};
  CHECK(is_good(RING_PMIX_FENCE, 0, 0, "\0data", 5) && is_good(RING_PMIX_FENCE, 0, 0, "\0", 1));
  CHECK(is_good(RING_PMIX_FENCE, 0, 2, ranks, 15) && is_good(RING_PMIX_FENCE, 0, 2, ranks, 11));
  CHECK(!is_good(RING_PMIX_FENCE, 0, 2, ranks, 7) && !is_good(RING_PMIX_FENCE, 0, 2, beyond, 15));
  CHECK(!is_good(RING_PMIX_FENCE, 0, -1, ranks, 15) && !is_good(RING_PMIX_FENCE, 0, 4, ranks, 15));
  CHECK(!is_good(RING_PMIX_FENCE, 0, 1, "\xff\xff\xff\xff\0", 5));
  CHECK(!is_good(RING_PMIX_FENCE, 0, 2, ranks, 10) && !is_good(RING_PMIX_FENCE, 0, 0, "", 0));
  CHECK_INT((int)ring_pmix_message_fence_head(&named), 11);
}

static void test_names(void) {
  CHECK(is_good(RING_PMIX_NAME, 0, RING_PMIX_PUBLISH, "key\0value", 10));
  CHECK(is_good(RING_PMIX_NAME, 0, RING_PMIX_PUBLISH, "key\0", 5));
  CHECK(is_good(RING_PMIX_NAME, 0, RING_PMIX_LOOKUP, "key", 4));
  CHECK(!is_good(RING_PMIX_NAME, 0, RING_PMIX_LOOKUP, "key", 3));
  CHECK(!is_good(RING_PMIX_NAME, 0, RING_PMIX_UNPUBLISH, "key\0value", 10));
  CHECK(!is_good(RING_PMIX_NAME, 0, RING_PMIX_PUBLISH, "key\0value", 9));
  CHECK(!is_good(RING_PMIX_NAME, 0, RING_PMIX_PUBLISH, "key\0value\0more", 15));
  CHECK(!is_good(RING_PMIX_NAME, 0, RING_PMIX_PUBLISH, "key", 4));
  CHECK(!is_good(RING_PMIX_NAME, 0, RING_PMIX_LOOKUP, "", 1));
  CHECK(!is_good(RING_PMIX_NAME, 0, RING_PMIX_LOOKUP, "", 0));
  CHECK(!is_good(RING_PMIX_NAME, 0, 3, "key", 4) && !is_good(RING_PMIX_NAME, 0, -1, "key", 4));
}

static void test_starts(void) {
  CHECK(is_good(RING_PMIX_ENVIRONMENT, 1, 0, "A=1", 4));
  CHECK(!is_good(RING_PMIX_ENVIRONMENT, 1, 0, "A=1", 3));
  CHECK(!is_good(RING_PMIX_ENVIRONMENT, 1, 0, "", 0));
  CHECK(!is_good(RING_PMIX_ENVIRONMENT, SIZE, 0, "A=1", 4));
  CHECK(is_good(RING_PMIX_READY, 0, 0, "", 0) && !is_good(RING_PMIX_READY, 0, 0, "more", 4));
  CHECK(is_good(RING_PMIX_REFUSED, 0, 0, "why", 3) && !is_good(RING_PMIX_REFUSED, 0, 0, "", 0));
  CHECK(!is_good('?', 0, 0, "", 0) && !is_good(RING_PMIX_ANSWER, 0, 0, "", 0));
}

/* ---- Jobs --------------------------------------------------------------------------------- */

static void test_jobs(void) {
  int nodes[] = {0, 1, 0};
  const char *names[] = {"first", "second"};
  const ring_pmix_job job = {"run", "/tmp/run", 3, 2, 1, nodes, names};
  ring_pmix_job found;
  size_t length;
  char *bytes = ring_pmix_job_write(&job, &length);
  CHECK(bytes != NULL);
  CHECK(ring_pmix_job_read(bytes, length, &found));
  CHECK(strcmp(found.name, "run") == 0 && strcmp(found.directory, "/tmp/run") == 0);
  CHECK(found.size == 3 && found.hosts == 2 && found.host == 1);
  CHECK(memcmp(found.nodes, nodes, sizeof nodes) == 0);
  CHECK(strcmp(found.names[0], "first") == 0 && strcmp(found.names[1], "second") == 0);
  ring_pmix_job_free(&found);
  for (size_t less = 0; less < length; less++) CHECK(!ring_pmix_job_read(bytes, less, &found));
  bytes[12] = 2; /* the host of rank 0, of 2 hosts */
  CHECK(!ring_pmix_job_read(bytes, length, &found));
  bytes[12] = 0;
  bytes[8] = 2; /* this host */
  CHECK(!ring_pmix_job_read(bytes, length, &found));
  memset(bytes, 0xff, 8); /* sizes that no memory has */
  CHECK(!ring_pmix_job_read(bytes, length, &found));
  free(bytes);
}

/* ---- Streams ------------------------------------------------------------------------------ */

static void test_lengths(void) {
  char kind, bytes[64] = {0};
  ring_pmix_message message;
  static const unsigned char lengths[][4] = {
      {0, 0, 0, 0}, {16, 0, 0, 0}, {255, 255, 255, 255}, {18, 0, 0, 64}};
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
    memcpy(bytes, lengths[i], 4);
    CHECK_INT(ring_pmix_message_next(bytes, sizeof bytes, &kind, &message), -1);
    CHECK_INT(ring_pmix_message_next(bytes, 3, &kind, &message), 0);
  }
  memcpy(bytes, "\x12\0\0\0k\1\0\0\0\0\0\0\0\2\0\0\0\3\0\0\0d", 22);
  for (size_t less = 0; less < 22; less++)
    CHECK_INT(ring_pmix_message_next(bytes, less, &kind, &message), 0);
  CHECK_INT(ring_pmix_message_next(bytes, sizeof bytes, &kind, &message), 22);
  CHECK(kind == 'k' && message.ticket == 1 && message.rank == 2 && message.value == 3);
  CHECK(message.length == 1 && message.bytes[0] == 'd');
}

static ring_pmix_channel open_channel(int *other) {
  int ends[2];
  CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  *other = ends[1];
  return (ring_pmix_channel){.fd = ends[0]};
}

static void close_channel(ring_pmix_channel *channel) {
  close(channel->fd);
  ring_pmix_channel_free(channel);
}

/* Two channels send each other more than sockets take, and no call waits. */
static void test_channels_do_not_wait(void) {
  enum { BYTES = 3 << 20, MESSAGES = 4 };
  ring_pmix_channel ends[2] = {{0}};
  int got[2] = {0}, second;
  char kind, *data = malloc(BYTES);
  ring_pmix_message message;
  ends[0] = open_channel(&second);
  ends[1].fd = second;
  CHECK(data != NULL);
  memset(data, 'd', BYTES);
  for (int i = 0; i < 2 * MESSAGES; i++) {
    const ring_pmix_message sent = {.ticket = (uint64_t)i, .bytes = data, .length = BYTES};
    ring_pmix_channel_send(&ends[i % 2], 'm', &sent);
  }
  while (got[0] < MESSAGES || got[1] < MESSAGES)
    for (int i = 0; i < 2; i++)
      if (ring_pmix_channel_receive(&ends[i], &kind, &message) == RING_PMIX_MESSAGE) {
        CHECK(message.ticket == (uint64_t)(2 * got[i]++ + 1 - i) && message.length == BYTES);
        CHECK(memcmp(message.bytes, data, BYTES) == 0);
      }
  for (int i = 0; i < 2; i++)
    CHECK_INT(ring_pmix_channel_receive(&ends[i], &kind, &message), RING_PMIX_NOTHING);
  for (int i = 0; i < 2; i++) close_channel(&ends[i]);
  free(data);
}

static void test_ends(void) {
  int other;
  char kind;
  ring_pmix_message message = {0};
  ring_pmix_channel channel = open_channel(&other);
  CHECK_INT(write(other, "\x11\0\0\0k0123456789abcdef\x11", 22), 22);
  close(other);
  ring_pmix_channel_send(&channel, 'm', &message); /* without SIGPIPE */
  CHECK_INT(ring_pmix_channel_receive(&channel, &kind, &message), RING_PMIX_MESSAGE);
  CHECK_INT(ring_pmix_channel_receive(&channel, &kind, &message), RING_PMIX_END);
  close_channel(&channel);
  channel = open_channel(&other);
  CHECK_INT(write(other, "garbage that is no message", 26), 26);
  CHECK_INT(ring_pmix_channel_receive(&channel, &kind, &message), RING_PMIX_INVALID);
  message.length = (size_t)RING_PMIX_MOST + 1;
  ring_pmix_channel_send(&channel, 'm', &message);
  CHECK(channel.no_memory);
  close(other);
  close_channel(&channel);
}

int main(void) {
  RUN(test_ranks);
  RUN(test_fences);
  RUN(test_names);
  RUN(test_starts);
  RUN(test_jobs);
  RUN(test_lengths);
  RUN(test_channels_do_not_wait);
  RUN(test_ends);
  return 0;
}
