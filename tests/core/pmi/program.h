/* SPDX-License-Identifier: Apache-2.0
 *
 * A program of the tests: it sends PMI-1 requests on the program's end of the socket pair, in the process of its rank.
 */
#ifndef RING_TEST_PROGRAM_H
#define RING_TEST_PROGRAM_H

#include <sys/socket.h>
#include <unistd.h>

#include "check.h"
#include "ranks.h"

/* Starts a server; the caller sends requests in place of the program. */
static inline ring_pmi *serve(ring_comm *comm) {
  ring_pmi *pmi;
  ring_status status = ring_pmi_serve(comm, 1, &pmi);
  if (status != RING_OK) fprintf(stderr, "%s\n", ring_comm_error(comm)->message);
  CHECK_INT(status, RING_OK);
  return pmi;
}

static inline void send_text(ring_pmi *pmi, const char *text) {
  CHECK_INT(send(ring_pmi_fd(pmi), text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

/* Sends to a server that may have ended. */
static inline void send_late(ring_pmi *pmi, const char *text) {
  (void)!send(ring_pmi_fd(pmi), text, strlen(text), MSG_NOSIGNAL);
}

/* Reads a line; "" when the server has closed the connection. Lines are kept until the next call. */
static inline const char *receive_line(ring_pmi *pmi) {
  static char line[2048];
  for (size_t length = 0; length + 1 < sizeof line; length++) {
    if (recv(ring_pmi_fd(pmi), line + length, 1, 0) != 1) return "";
    line[length + 1] = '\0';
    if (line[length] == '\n') {
      line[length] = '\0';
      return line;
    }
  }
  CHECK(!"a line that fits");
  return "";
}

/* Sends a line and checks what the answer has. */
static inline void request(ring_pmi *pmi, const char *line, const char *answer) {
  send_text(pmi, line);
  send_text(pmi, "\n");
  CHECK_CONTAINS(receive_line(pmi), answer);
}

static inline void request_init(ring_pmi *pmi) {
  request(pmi, "cmd=init pmi_version=1 pmi_subversion=1",
          "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0");
}

/* The name of the key-value space. */
static inline void request_space(ring_pmi *pmi, char space[257]) {
  request(pmi, "cmd=get_my_kvsname", "cmd=my_kvsname kvsname=");
  send_text(pmi, "cmd=get_my_kvsname\n");
  snprintf(space, 257, "%s", strchr(strchr(receive_line(pmi), '=') + 1, '=') + 1);
}

static inline void close_pmi(ring_pmi *pmi) {
  ring_status status = ring_pmi_close(pmi);
  if (status != RING_OK) fprintf(stderr, "%s\n", ring_pmi_error(pmi)->message);
  CHECK_INT(status, RING_OK);
  ring_pmi_free(pmi);
}

/* Waits for the failure of the servers, and checks it. */
static inline void expect_failure(ring_pmi *pmi, ring_status expected, int fault,
                                  const char *text) {
  while (ring_pmi_test(pmi, NULL, NULL) == RING_OK) usleep(1000);
  const ring_error *error = ring_pmi_error(pmi);
  if (error->status != expected || error->rank != fault) fprintf(stderr, "%s\n", error->message);
  CHECK_INT(error->status, expected);
  CHECK_INT(error->rank, fault);
  CHECK_CONTAINS(error->message, text);
  CHECK_INT(ring_pmi_close(pmi), expected);
  ring_pmi_free(pmi);
}

#endif
