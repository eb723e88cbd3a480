/* SPDX-License-Identifier: Apache-2.0
 *
 * Descriptors that forked children inherit, such as those of a data loader: none keeps a connection
 * of the parent alive. Ranks that wait for the parent learn of its end at once although a child
 * lives on, over every kind of link and during the rendezvous. The child keeps the numbers of the
 * descriptors that it has closed.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "leaks.h"
#include "load.h"
#include "openings.h"
#include "ranks.h"
#include "transport/socket.h"

enum { SIZE = 3, CHILD_SECONDS = 60, DESCRIPTORS = 64 };

/* ---- Descriptors -------------------------------------------------------------------------- */

/* A listener, a connection to it, and that at its other end: descriptors in a row. */
typedef struct sockets {
  int listener, connecting, accepted;
} sockets;

static sockets make_sockets(void) {
  ring_resolved resolved;
  sockets made = {.listener = ring_socket_listen("127.0.0.1", 0)};
  CHECK(made.listener >= 0);
  uint16_t port = (uint16_t)ring_socket_port(made.listener);
  CHECK_INT(ring_socket_resolve("127.0.0.1", port, &resolved), 0);
  made.connecting = ring_socket_connect(&resolved, 0);
  CHECK(made.connecting >= 0);
  struct pollfd entry = {.fd = made.listener, .events = POLLIN};
  CHECK_INT(poll(&entry, 1, 5000), 1);
  made.accepted = ring_socket_accept(made.listener);
  CHECK(made.accepted >= 0);
  return made;
}

static void close_sockets(sockets *of) {
  ring_socket_close(&of->accepted);
  ring_socket_close(&of->connecting);
  ring_socket_close(&of->listener);
}

static bool is_connected(int fd) {
  struct sockaddr_storage address;
  socklen_t length = sizeof address;
  return getpeername(fd, (struct sockaddr *)&address, &length) == 0;
}

static bool is_listening(int fd) {
  int listening = 0;
  socklen_t length = sizeof listening;
  return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &length) == 0 && listening != 0;
}

static void await_child(pid_t child) {
  int status;
  CHECK_INT(waitpid(child, &status, 0), child);
  CHECK_INT(status, 0);
}

/* The numbers stay taken, and what they stand for has ended. Its own the child keeps to itself, too. */
static void be_a_child(sockets *inherited, int descriptors) {
  CHECK_INT(count_descriptors(), descriptors);
  for (int fd = 3; fd < DESCRIPTORS; fd++) CHECK(!is_connected(fd) && !is_listening(fd));
  CHECK_INT(fcntl(inherited->connecting, F_GETFD), FD_CLOEXEC);
  sockets own = make_sockets();
  CHECK_INT(count_descriptors(), descriptors + 3);
  pid_t grandchild = fork_for(CHILD_SECONDS);
  if (grandchild == 0) {
    CHECK(!is_connected(own.connecting) && !is_connected(own.accepted));
    _exit(0);
  }
  await_child(grandchild);
  close_sockets(inherited);
  CHECK(is_connected(own.connecting) && is_connected(own.accepted) && is_listening(own.listener));
  close_sockets(&own);
  CHECK_INT(count_descriptors(), descriptors - 3);
}

static void test_a_child_gives_up_connections(void) {
  int before = count_descriptors();
  sockets of = make_sockets();
  pid_t child = fork_for(CHILD_SECONDS);
  if (child == 0) {
    be_a_child(&of, before + 3);
    _exit(0);
  }
  await_child(child);
  CHECK(is_connected(of.connecting) && is_connected(of.accepted) && is_listening(of.listener));
  close_sockets(&of);
  CHECK_INT(count_descriptors(), before);
}

static void test_an_end_shows_beside_a_child(void) {
  sockets of = make_sockets();
  pid_t child = fork_for(CHILD_SECONDS);
  if (child == 0) {
    pause();
    _exit(0);
  }
  struct pollfd entry = {.fd = of.accepted, .events = POLLIN};
  CHECK_INT(poll(&entry, 1, 0), 0);
  ring_socket_close(&of.connecting);
  CHECK_INT(poll(&entry, 1, 1000), 1);
  close_sockets(&of);
  CHECK_INT(kill(child, SIGKILL), 0);
  CHECK_INT(waitpid(child, NULL, 0), child);
}

/* The child has no number left for what it puts in the place of others. */
static void test_a_child_without_a_free_descriptor(void) {
  struct rlimit limit, low;
  sockets of = make_sockets();
  CHECK_INT(getrlimit(RLIMIT_NOFILE, &limit), 0);
  int free_number = dup(0);
  CHECK(free_number >= 0);
  close(free_number);
  low = (struct rlimit){(rlim_t)free_number, limit.rlim_max};
  CHECK_INT(setrlimit(RLIMIT_NOFILE, &low), 0);
  pid_t child = fork_for(CHILD_SECONDS);
  if (child == 0) {
    CHECK(dup(0) < 0 && errno == EMFILE);
    CHECK(!is_connected(of.connecting) && !is_connected(of.accepted) && !is_listening(of.listener));
    CHECK_INT(fcntl(of.connecting, F_GETFD), FD_CLOEXEC);
    _exit(0);
  }
  CHECK_INT(setrlimit(RLIMIT_NOFILE, &limit), 0);
  await_child(child);
  close_sockets(&of);
}

static void *make_and_close(void *arg) {
  atomic_bool *stop = arg;
  while (!atomic_load(stop)) {
    sockets of = make_sockets();
    close_sockets(&of);
  }
  return NULL;
}

/* Children that are forked while another thread makes and closes them: each has only what is its own,
 * such as a pipe whose number was a connection's a moment ago. */
static void test_forks_beside_a_thread(void) {
  atomic_bool stop = false;
  pthread_t thread;
  CHECK_INT(pthread_create(&thread, NULL, make_and_close, &stop), 0);
  for (int i = 0; i < 300; i++) {
    int ends[2];
    char byte = 0;
    CHECK_INT(pipe(ends), 0);
    pid_t child = fork_for(CHILD_SECONDS);
    if (child == 0) {
      for (int fd = 3; fd < DESCRIPTORS; fd++)
        if (is_connected(fd) || is_listening(fd)) _exit(1);
      _exit(write(ends[1], "x", 1) == 1 ? 0 : 2);
    }
    await_child(child);
    CHECK(read(ends[0], &byte, 1) == 1 && byte == 'x');
    close(ends[0]);
    close(ends[1]);
  }
  atomic_store(&stop, true);
  CHECK_INT(pthread_join(thread, NULL), 0);
}

/* ---- Deaths ------------------------------------------------------------------------------- */

typedef struct death {
  const char *name; /* of the link */
  bool shares;
  int connections;
  ring_choice encryption;
  int victim;
  int arrived;
  double at;
  pid_t child; /* of the victim: it lives on */
} death;

static ring_options death_options(const death *of, int rank) {
  ring_options options = rank_options(rank, SIZE);
  options.shared_memory = of->shares ? RING_DEFAULT : RING_OFF;
  options.connections = of->connections;
  options.encryption = of->encryption;
  return options;
}

/* As the system does where memory runs out, which takes the largest process of a job. */
static void die_beside_a_child(death *of) {
  pid_t child = fork_for(CHILD_SECONDS);
  if (child == 0) {
    pause();
    _exit(0);
  }
  of->child = child;
  usleep(100000);
  of->at = seconds();
  raise(SIGKILL);
}

static pid_t fork_rank(void (*function)(death *, int), death *of, int rank) {
  pid_t child = fork_for(CHILD_SECONDS);
  if (child > 0) return child;
  function(of, rank);
  exit(0);
}

static void await_victim(death *of, pid_t victim) {
  int status;
  CHECK_INT(waitpid(victim, &status, 0), victim);
  CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  CHECK_INT(kill(of->child, 0), 0); /* it lives */
}

static void lose_the_victim(death *of, int rank) {
  ring_options options = death_options(of, rank);
  ring_comm *comm = open_with(&options);
  check_ring(comm);
  CHECK(strcmp(ring_comm_link(comm, rank == 0 ? 1 : 0), of->name) == 0);
  ranks_barrier(&of->arrived, SIZE);
  if (rank == of->victim) die_beside_a_child(of);
  CHECK_INT(ring_barrier(comm), RING_PEER_LOST);
  double took = seconds() - of->at;
  printf("%s, rank %d dies: rank %d fails after %.3f s\n", of->name, of->victim, rank, took);
  CHECK_INT(ring_comm_error(comm)->rank, of->victim);
  CHECK(took < UNLOADED(1.5));
  ring_comm_free(comm);
}

static void lose_a_rank(death of) {
  pid_t ranks[SIZE];
  death *shared = shared_alloc(sizeof *shared);
  *shared = of;
  for (int rank = 0; rank < SIZE; rank++) ranks[rank] = fork_rank(lose_the_victim, shared, rank);
  await_victim(shared, ranks[of.victim]);
  for (int rank = 0; rank < SIZE; rank++)
    if (rank != of.victim) await_child(ranks[rank]);
  kill(shared->child, SIGKILL);
  shared_free(shared, sizeof *shared);
}

static void test_a_death_in_a_call_shows_at_once(void) {
  for (int victim = 0; victim < 2; victim++) {
    lose_a_rank((death){"shm", true, 1, RING_OFF, .victim = victim});
    lose_a_rank((death){"tcp", false, 1, RING_OFF, .victim = victim});
    lose_a_rank((death){"tcp x3", false, 3, RING_OFF, .victim = victim});
    lose_a_rank((death){"tls", false, 1, 1, .victim = victim});
    lose_a_rank((death){"tls x3", false, 3, 1, .victim = victim});
  }
}

/* ---- Deaths during a rendezvous ---------------------------------------------------------- */

static void *die_soon(void *arg) {
  usleep(300000);
  die_beside_a_child(arg);
  return NULL;
}

/* One rank is missing, so this one waits. */
static void die_in_open(death *of, int rank) {
  ring_options options = death_options(of, rank);
  ring_comm *comm;
  pthread_t thread;
  CHECK_INT(pthread_create(&thread, NULL, die_soon, of), 0);
  ring_comm_open(&options, &comm, NULL);
  CHECK(!"it has died");
}

static void open_with_the_next(death *of, int rank) {
  ring_options options = death_options(of, rank);
  ring_comm *comm;
  ring_error error;
  if (ring_comm_open(&options, &comm, &error) != RING_OK)
    fprintf(stderr, "rank %d: %s\n", rank, error.message);
  CHECK(comm != NULL);
  double took = seconds() - of->at;
  printf("rank %d dies in open: rank %d has joined the next one after %.3f s\n", of->victim, rank,
         took);
  check_ring(comm);
  CHECK(took < UNLOADED(3));
  close_rank(comm);
}

/* Once it has died it is started anew, and the missing rank comes. */
static void test_a_death_in_open_shows_at_once(void) {
  for (int victim = 0; victim < 2; victim++) {
    pid_t ranks[SIZE];
    death *of = shared_alloc(sizeof *of);
    *of = (death){"tcp", false, 1, RING_OFF, .victim = victim};
    pid_t first = fork_rank(die_in_open, of, victim);
    ranks[1 - victim] = fork_rank(open_with_the_next, of, 1 - victim);
    await_victim(of, first);
    usleep(50000);
    ranks[victim] = fork_rank(open_with_the_next, of, victim);
    ranks[2] = fork_rank(open_with_the_next, of, 2);
    for (int rank = 0; rank < SIZE; rank++) await_child(ranks[rank]);
    kill(of->child, SIGKILL);
    shared_free(of, sizeof *of);
  }
}

int main(void) {
  RUN(test_a_child_gives_up_connections);
  RUN(test_an_end_shows_beside_a_child);
  RUN(test_a_child_without_a_free_descriptor);
  RUN(test_forks_beside_a_thread);
  RUN(test_a_death_in_a_call_shows_at_once);
  RUN(test_a_death_in_open_shows_at_once);
  return 0;
}
