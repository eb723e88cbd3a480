/* SPDX-License-Identifier: Apache-2.0 */
#include "lookup.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LOOKUP_SOON_US 20000 /* in which most names are found */
#define LOOKUP_SLICE_US 500

struct ring_lookup {
  pthread_t thread;
  atomic_int users; /* the thread, and who asks */
  atomic_bool done;
  uint16_t port;
  ring_resolved resolved;
  int failure; /* of getaddrinfo */
  char host[];
};

/* ---- The thread --------------------------------------------------------------------------- */

static void lookup_leave(ring_lookup *lookup) {
  if (atomic_fetch_sub(&lookup->users, 1) == 1) free(lookup);
}

static void *lookup_work(void *arg) {
  ring_lookup *lookup = arg;
  lookup->failure = ring_socket_resolve(lookup->host, lookup->port, &lookup->resolved);
  atomic_store(&lookup->done, true);
  lookup_leave(lookup);
  return NULL;
}

/* Signals are for the threads of the program. */
static int lookup_start(ring_lookup *lookup) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int failure = pthread_create(&lookup->thread, NULL, lookup_work, lookup);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return failure;
}

/* ---- Asking ------------------------------------------------------------------------------- */

static ring_lookup *lookup_new(const char *host, uint16_t port) {
  size_t length = strlen(host) + 1;
  ring_lookup *lookup = calloc(1, sizeof *lookup + length);
  if (lookup == NULL) return NULL;
  memcpy(lookup->host, host, length);
  lookup->port = port;
  atomic_init(&lookup->users, 2);
  atomic_init(&lookup->done, false);
  return lookup;
}

static ring_lookup_answer lookup_answer(const ring_resolved *resolved, int failure,
                                        const char **reason) {
  *reason = ring_socket_unresolved(failure);
  if (resolved->count > 0) return RING_LOOKUP_FOUND;
  if (resolved->lack != 0) return RING_LOOKUP_FAILED;
  return ring_socket_may_resolve(failure) ? RING_LOOKUP_SILENT : RING_LOOKUP_UNKNOWN;
}

/* Where no thread can be had the resolver is waited for. */
static ring_lookup_answer lookup_begin(ring_lookup **lookup, const char *host, uint16_t port,
                                       ring_resolved *resolved, const char **reason) {
  if (!ring_socket_is_numeric(host) && !ring_socket_is_loopback(host)) {
    *lookup = lookup_new(host, port);
    if (*lookup == NULL) {
      *resolved = (ring_resolved){.lack = ENOMEM};
      return RING_LOOKUP_FAILED;
    }
    if (lookup_start(*lookup) == 0) return RING_LOOKUP_PENDING;
    free(*lookup);
    *lookup = NULL;
  }
  int failure = ring_socket_resolve(host, port, resolved);
  return lookup_answer(resolved, failure, reason);
}

ring_lookup_answer ring_lookup_ask(ring_lookup **lookup, const char *host, uint16_t port,
                                   ring_resolved *resolved, const char **reason) {
  *reason = "the name server has not answered yet";
  if (*lookup == NULL) {
    ring_lookup_answer answer = lookup_begin(lookup, host, port, resolved, reason);
    if (answer != RING_LOOKUP_PENDING) return answer;
  }
  for (int waited = 0; !atomic_load(&(*lookup)->done); waited += LOOKUP_SLICE_US) {
    if (waited >= LOOKUP_SOON_US) return RING_LOOKUP_PENDING;
    usleep(LOOKUP_SLICE_US);
  }
  *resolved = (*lookup)->resolved;
  int failure = (*lookup)->failure;
  pthread_join((*lookup)->thread, NULL); /* what the resolver keeps a thread is freed at its end */
  lookup_leave(*lookup);
  *lookup = NULL;
  return lookup_answer(resolved, failure, reason);
}

void ring_lookup_drop(ring_lookup **lookup) {
  if (*lookup == NULL) return;
  pthread_detach((*lookup)->thread);
  lookup_leave(*lookup);
  *lookup = NULL;
}
