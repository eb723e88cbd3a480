/* SPDX-License-Identifier: Apache-2.0
 *
 * The PMI server in every interleaving of its thread, the thread of its messages, its owner and a program. No wake-up
 * is lost: every answer comes, and close and abort return.
 */
#include <poll.h>

#include "interleavings.h"
#include "program.h"

static struct {
  ring_comm *comm;
  ring_pmi *pmi;
} now;

/* ---- Steps -------------------------------------------------------------------------------- */

static void open_alone(void) {
  now.comm = open_rank(0, 1);
  CHECK_INT(ring_pmi_serve(now.comm, 0, &now.pmi), RING_OK);
}

static void end(void) {
  interleavings_end();
  ring_pmi_free(now.pmi);
  close_rank(now.comm);
}

/* What request() does, without a wait in recv(). False: the server has closed the connection. */
static bool ask(const char *line, const char *answer) {
  struct pollfd entry = {.fd = ring_pmi_fd(now.pmi), .events = POLLIN};
  send_late(now.pmi, line);
  poll(&entry, 1, -1);
  const char *got = receive_line(now.pmi);
  if (got[0] != '\0') CHECK_CONTAINS(got, answer);
  return got[0] != '\0';
}

static void use_mpi(void *unused) {
  (void)unused;
  bool served = ask("cmd=init pmi_version=1 pmi_subversion=1\n", "cmd=response_to_init") &&
                ask("cmd=barrier_in\n", "cmd=barrier_out") &&
                ask("cmd=finalize\n", "cmd=finalize_ack");
  (void)served;
}

static void abort_server(void *unused) {
  (void)unused;
  ring_pmi_abort(now.pmi, "planned");
}

/* ---- Scenarios ---------------------------------------------------------------------------- */

static void close_without_a_program(void *unused) {
  (void)unused;
  open_alone();
  interleavings_begin();
  CHECK_INT(ring_pmi_close(now.pmi), RING_OK);
  end();
}

static void close_after_a_program(void *unused) {
  (void)unused;
  open_alone();
  interleavings_begin();
  interleavings_start(use_mpi, NULL);
  interleavings_join();
  CHECK_INT(ring_pmi_close(now.pmi), RING_OK);
  end();
}

static void abort_beside_a_program(void *unused) {
  (void)unused;
  open_alone();
  interleavings_begin();
  interleavings_start(use_mpi, NULL);
  abort_server(NULL);
  interleavings_join();
  CHECK_INT(ring_pmi_close(now.pmi), RING_ABORTED);
  end();
}

static void abort_beside_close(void *unused) {
  (void)unused;
  open_alone();
  interleavings_begin();
  interleavings_start(abort_server, NULL);
  ring_pmi_close(now.pmi);
  interleavings_join();
  end();
}

/* ---- Tests -------------------------------------------------------------------------------- */

static void test_servers_end(void) {
  EXPLORE(close_without_a_program, 2);
  EXPLORE(close_after_a_program, 1);
  EXPLORE(abort_beside_a_program, 1);
  EXPLORE(abort_beside_close, 1);
}

int main(int argc, char **argv) {
  interleavings_configure(argc, argv);
  RUN(test_servers_end);
  return 0;
}
