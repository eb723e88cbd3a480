/* SPDX-License-Identifier: Apache-2.0
 *
 * Reserved ports: nobody else gets one, a server that asks to share it does, two ranks never hold the
 * same, they stay within the range, and nothing of them is left however the communicator ends.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "leaks.h"
#include "ranks.h"

enum { SHARERS = 3, RESERVED = 20 };

static struct sockaddr_in at(const char *host, int port) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  CHECK_INT(inet_pton(AF_INET, host, &address.sin_addr), 1);
  return address;
}

/* A socket that listens on the port, or -errno. `option`: what it sets before; 0: nothing. */
static int serve(const char *host, int port, int option) {
  struct sockaddr_in address = at(host, port);
  int on = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
  CHECK(fd >= 0);
  if (option != 0) CHECK_INT(setsockopt(fd, SOL_SOCKET, option, &on, sizeof on), 0);
  if (bind(fd, (struct sockaddr *)&address, sizeof address) == 0 && listen(fd, 1) == 0) return fd;
  int failure = -errno;
  close(fd);
  return failure;
}

/* 0, or the errno of connecting to the port. */
static int connector(int port) {
  struct sockaddr_in address = at("127.0.0.1", port);
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  CHECK(fd >= 0);
  int failure = connect(fd, (struct sockaddr *)&address, sizeof address) == 0 ? 0 : errno;
  close(fd);
  return failure;
}

static bool is_free(int port) {
  int fd = serve("0.0.0.0", port, 0);
  if (fd >= 0) close(fd);
  return fd >= 0;
}

/* A world of one with this range of ports; 0: any. */
static ring_comm *alone(int first, int last) {
  ring_options options = rank_options(0, 1);
  ring_comm *comm;
  ring_error error;
  options.port_first = (uint16_t)first;
  options.port_last = (uint16_t)last;
  if (ring_comm_open(&options, &comm, &error) == RING_OK) return comm;
  fprintf(stderr, "%s\n", error.message);
  exit(1);
}

static int reserve(ring_comm *comm) {
  int port = -1;
  CHECK_INT(ring_port_reserve(comm, &port), RING_OK);
  CHECK(port > 0 && port < 65536);
  return port;
}

static void test_only_those_who_ask_share_a_port(void) {
  static const char *const hosts[] = {"0.0.0.0", "127.0.0.1"};
  static const int options[SHARERS] = {0, SO_REUSEADDR, SO_REUSEPORT};
  ring_comm *comm = alone(0, 0);
  for (int i = 0; i < 2 * SHARERS; i++) {
    int port = reserve(comm), option = options[i % SHARERS];
    CHECK_INT(connector(port), ECONNREFUSED);
    int server = serve(hosts[i / SHARERS], port, option);
    if (option == 0) {
      CHECK_INT(server, -EADDRINUSE);
      CHECK_INT(ring_port_release(comm, port), RING_OK);
      server = serve(hosts[i / SHARERS], port, option);
    }
    CHECK(server >= 0);
    CHECK_INT(connector(port), 0);
    if (option != 0) CHECK_INT(ring_port_release(comm, port), RING_OK);
    CHECK_INT(connector(port), 0);
    close(server);
  }
  close_rank(comm);
}

static void test_a_port_is_for_one_reservation(void) {
  ring_comm *comm = alone(0, 0);
  int ports[RESERVED];
  for (int i = 0; i < RESERVED; i++) {
    ports[i] = reserve(comm);
    for (int j = 0; j < i; j++) CHECK(ports[j] != ports[i]);
  }
  CHECK_INT(ring_port_release(comm, ports[3]), RING_OK);
  CHECK(is_free(ports[3]));
  CHECK_INT(ring_port_release(comm, ports[3]), RING_INVALID);
  CHECK_CONTAINS(ring_comm_error(comm)->message, "is not one that this communicator holds");
  CHECK_INT(ring_port_release(comm, 0), RING_OK);
  for (int i = 0; i < RESERVED; i++) CHECK(is_free(ports[i]));
  CHECK_INT(ring_port_reserve(comm, NULL), RING_INVALID);
  CHECK_INT(ring_port_reserve(NULL, &ports[0]), RING_INVALID);
  CHECK_INT(ring_port_release(NULL, 0), RING_INVALID);
  ring_comm_free(comm);
}

/* So that it stays free from its release to the bind of a server that cannot share it. */
static void test_the_system_gives_no_reserved_port_away(void) {
  unsigned first, last;
  FILE *file = fopen("/proc/sys/net/ipv4/ip_local_port_range", "r");
  CHECK(file != NULL);
  CHECK_INT(fscanf(file, "%5u %5u", &first, &last), 2);
  fclose(file);
  if (last >= 65535) return;
  ring_comm *comm = alone(0, 0);
  for (int i = 0; i < RESERVED; i++) CHECK(reserve(comm) > (int)last);
  ring_comm_free(comm);
}

static void hold_one_of_each(ring_comm *comm, void *shared) {
  int port = reserve(comm), ports[4];
  (void)shared;
  CHECK_INT(ring_allgather(comm, &port, ports, 1, RING_INT32), RING_OK);
  for (int i = 0; i < 4; i++)
    for (int j = 0; j < i; j++) CHECK(ports[j] != ports[i]);
  CHECK_INT(ring_barrier(comm), RING_OK);
}

static void test_ranks_of_a_host_hold_different_ports(void) {
  run_comms(4, hold_one_of_each, NULL);
}

/* Up to eight ports from one that was free a moment ago. */
static ring_comm *alone_with_few_ports(int *first, int *last) {
  ring_comm *comm = alone(0, 0);
  *first = reserve(comm);
  ring_comm_free(comm);
  *last = *first + 7 < 65536 ? *first + 7 : 65535;
  return alone(*first, *last);
}

static void test_a_range_is_kept_to(void) {
  int first, last, ports[8], count = 0, port;
  ring_comm *comm = alone_with_few_ports(&first, &last);
  while (ring_port_reserve(comm, &port) == RING_OK) {
    CHECK(count < 8 && port >= first && port <= last);
    for (int i = 0; i < count; i++) CHECK(ports[i] != port);
    ports[count++] = port;
  }
  CHECK(count > 0);
  CHECK_INT(port, 0);
  CHECK_INT(ring_comm_error(comm)->status, RING_SYSTEM);
  CHECK_INT(ring_comm_error(comm)->system_errno, EADDRINUSE);
  CHECK_CONTAINS(ring_comm_error(comm)->message, "rank 0 found no free port from ");
  CHECK_CONTAINS(ring_comm_error(comm)->message, "give a wider range");
  CHECK_INT(ring_comm_usable(comm), 1);
  CHECK_INT(ring_port_release(comm, ports[0]), RING_OK);
  CHECK_INT(reserve(comm), ports[0]);
  close_rank(comm);
}

static void test_closing_keeps_and_freeing_releases(void) {
  int before = count_descriptors();
  ring_comm *comm = alone(0, 0);
  int port = reserve(comm), other;
  CHECK_INT(ring_comm_close(comm), RING_OK);
  CHECK(!is_free(port));
  CHECK_INT(ring_port_reserve(comm, &other), RING_INVALID);
  CHECK_CONTAINS(ring_comm_error(comm)->message, "the communicator is closed");
  ring_comm_free(comm);
  CHECK(is_free(port));
  CHECK_INT(count_descriptors(), before);
}

static void test_aborting_releases(void) {
  ring_comm *open = alone(0, 0), *closed = alone(0, 0);
  int first = reserve(open), second = reserve(closed);
  ring_comm_abort(open, NULL);
  CHECK(is_free(first));
  CHECK_INT(ring_comm_close(closed), RING_OK);
  CHECK(!is_free(second));
  ring_comm_abort(closed, NULL);
  CHECK(is_free(second));
  ring_comm_free(open);
  ring_comm_free(closed);
}

/* The child's free leaves it no descriptor, and the parent its port. */
static void test_a_forked_child_gives_up_its_copy(void) {
  int before = count_descriptors(), status, other;
  ring_comm *comm = alone(0, 0);
  int port = reserve(comm);
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    CHECK_INT(ring_port_reserve(comm, &other), RING_INVALID);
    ring_comm_free(comm);
    CHECK_INT(count_descriptors(), before);
    CHECK(!is_free(port));
    _exit(0);
  }
  CHECK_INT(waitpid(child, &status, 0), child);
  CHECK_INT(status, 0);
  CHECK(!is_free(port));
  ring_comm_free(comm);
  CHECK(is_free(port));
}

static void test_a_program_that_is_executed_has_none(void) {
  int last = fcntl(0, F_DUPFD, 0); /* the descriptor that the port is to have */
  CHECK(last >= 0);
  ring_comm *comm = alone(0, 0);
  close(last);
  reserve(comm);
  CHECK_INT(fcntl(last, F_GETFD), FD_CLOEXEC);
  ring_comm_free(comm);
}

int main(void) {
  RUN(test_only_those_who_ask_share_a_port);
  RUN(test_a_port_is_for_one_reservation);
  RUN(test_the_system_gives_no_reserved_port_away);
  RUN(test_ranks_of_a_host_hold_different_ports);
  RUN(test_a_range_is_kept_to);
  RUN(test_closing_keeps_and_freeing_releases);
  RUN(test_aborting_releases);
  RUN(test_a_forked_child_gives_up_its_copy);
  RUN(test_a_program_that_is_executed_has_none);
}
