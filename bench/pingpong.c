/* SPDX-License-Identifier: Apache-2.0
 *
 * Two ranks send a message to and fro: forks them, and prints half of the median time of a round, over shared
 * memory, TCP and TLS, for messages and for the sends in the order of collectives.
 *   pingpong [ROUNDS]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sparkring.h"
#include "stopwatch.h"

static const size_t sizes[] = {8, (size_t)64 * 1024, (size_t)1024 * 1024};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

static ring_comm *comm;
static ring_messages *messages;

static void check(ring_status status, const ring_error *error) {
  if (status == RING_OK) return;
  fprintf(stderr, "bench pingpong: %s\n", error->message);
  exit(1);
}

static void move(char *bytes, size_t size, int peer, int sends, int ordered) {
  if (ordered && sends)
    check(ring_send(comm, bytes, size, RING_UINT8, peer), ring_comm_error(comm));
  else if (ordered)
    check(ring_recv(comm, bytes, size, RING_UINT8, peer), ring_comm_error(comm));
  else if (sends)
    check(ring_messages_send(messages, bytes, size, RING_UINT8, peer, 1),
          ring_messages_error(messages));
  else
    check(ring_messages_recv(messages, bytes, size, RING_UINT8, peer, 1, NULL),
          ring_messages_error(messages));
}

/* Microseconds of one way. */
static double measure(size_t size, int rank, int rounds, int ordered) {
  char *bytes = calloc(size, 1);
  double *times = calloc((size_t)rounds, sizeof *times);
  if (bytes == NULL || times == NULL) exit(1);
  for (int i = -rounds / 10 - 1; i < rounds; i++) {
    double begun = now();
    move(bytes, size, 1 - rank, rank == 0, ordered);
    move(bytes, size, 1 - rank, rank == 1, ordered);
    if (i >= 0) times[i] = now() - begun;
  }
  double way = median(times, rounds) * 1e6 / 2;
  free(bytes);
  free(times);
  return way;
}

static void run_rank(int rank, const char *link, int rounds) {
  static const char *const addresses[] = {"127.0.0.1", "127.0.0.1"};
  ring_options options = RING_OPTIONS_INIT;
  ring_error error;
  options.rank = rank;
  options.size = options.address_count = 2;
  options.addresses = addresses;
  options.job = link;
  options.token = "a token for two ranks";
  options.token_length = strlen(options.token);
  options.shared_memory = strcmp(link, "shm") == 0 ? RING_ON : RING_OFF;
  options.encryption = strcmp(link, "tls") == 0 ? RING_ON : RING_OFF;
  check(ring_comm_open(&options, &comm, &error), &error);
  check(ring_messages_open(comm, &messages), ring_comm_error(comm));
  for (int i = 0; i < SIZES; i++) {
    double message = measure(sizes[i], rank, rounds, 0), plain = measure(sizes[i], rank, rounds, 1);
    if (rank == 0)
      printf("%-4s %8zu B  messages %8.2f us  send, recv %8.2f us\n", link, sizes[i], message,
             plain);
  }
  check(ring_messages_close(messages), ring_messages_error(messages));
  ring_messages_free(messages);
  check(ring_comm_close(comm), ring_comm_error(comm));
  ring_comm_free(comm);
}

int main(int count, char **arguments) {
  static const char *const links[] = {"shm", "tcp", "tls"};
  int rounds = count > 1 ? atoi(arguments[1]) : 2000;
  for (int link = 0; link < 3; link++) {
    fflush(stdout);
    pid_t child = fork();
    if (child < 0) return 1;
    run_rank(child == 0, links[link], rounds > 0 ? rounds : 1);
    if (child == 0) return 0;
    int status;
    if (waitpid(child, &status, 0) != child || status != 0) return 1;
  }
  return 0;
}
