/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/resolver.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RESOLVER_SOON_US 20000 /* most lookups take less */
#define RESOLVER_SLICE_US 500

struct ring_resolver {
  pthread_t thread;
  atomic_int users; /* the thread, and the caller */
  atomic_bool done;
  uint16_t port;
  ring_resolved resolved;
  int failure; /* of getaddrinfo */
  char host[];
};

/* ---- The thread --------------------------------------------------------------------------- */

static void resolver_leave(ring_resolver *resolver) {
  if (atomic_fetch_sub(&resolver->users, 1) == 1) free(resolver);
}

static void *resolver_work(void *arg) {
  ring_resolver *resolver = arg;
  resolver->failure = ring_socket_resolve(resolver->host, resolver->port, &resolver->resolved);
  atomic_store(&resolver->done, true);
  resolver_leave(resolver);
  return NULL;
}

/* The thread blocks all signals: they are for the threads of the program. */
static int resolver_start(ring_resolver *resolver) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int failure = pthread_create(&resolver->thread, NULL, resolver_work, resolver);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return failure;
}

/* ---- Polling ------------------------------------------------------------------------------ */

static ring_resolver *resolver_new(const char *host, uint16_t port) {
  size_t length = strlen(host) + 1;
  ring_resolver *resolver = calloc(1, sizeof *resolver + length);
  if (resolver == NULL) return NULL;
  memcpy(resolver->host, host, length);
  resolver->port = port;
  atomic_init(&resolver->users, 2);
  atomic_init(&resolver->done, false);
  return resolver;
}

static ring_resolver_answer resolver_answer(const ring_resolved *resolved, int failure,
                                            const char **reason) {
  *reason = ring_socket_unresolved(failure);
  if (resolved->count > 0) return RING_RESOLVER_FOUND;
  if (resolved->lack != 0) return RING_RESOLVER_FAILED;
  return ring_socket_may_resolve(failure) ? RING_RESOLVER_SILENT : RING_RESOLVER_UNKNOWN;
}

/* Without a thread the lookup blocks. */
static ring_resolver_answer resolver_begin(ring_resolver **resolver, const char *host,
                                           uint16_t port, ring_resolved *resolved,
                                           const char **reason) {
  if (!ring_socket_is_numeric(host) && !ring_socket_is_loopback(host)) {
    *resolver = resolver_new(host, port);
    if (*resolver == NULL) {
      *resolved = (ring_resolved){.lack = ENOMEM};
      return RING_RESOLVER_FAILED;
    }
    if (resolver_start(*resolver) == 0) return RING_RESOLVER_PENDING;
    free(*resolver);
    *resolver = NULL;
  }
  int failure = ring_socket_resolve(host, port, resolved);
  return resolver_answer(resolved, failure, reason);
}

ring_resolver_answer ring_resolver_ask(ring_resolver **resolver, const char *host, uint16_t port,
                                       ring_resolved *resolved, const char **reason) {
  *reason = "the name server has not answered yet";
  if (*resolver == NULL) {
    ring_resolver_answer answer = resolver_begin(resolver, host, port, resolved, reason);
    if (answer != RING_RESOLVER_PENDING) return answer;
  }
  for (int waited = 0; !atomic_load(&(*resolver)->done); waited += RESOLVER_SLICE_US) {
    if (waited >= RESOLVER_SOON_US) return RING_RESOLVER_PENDING;
    usleep(RESOLVER_SLICE_US);
  }
  *resolved = (*resolver)->resolved;
  int failure = (*resolver)->failure;
  pthread_join((*resolver)->thread, NULL); /* frees the system resolver's memory of the thread */
  resolver_leave(*resolver);
  *resolver = NULL;
  return resolver_answer(resolved, failure, reason);
}

void ring_resolver_drop(ring_resolver **resolver) {
  if (*resolver == NULL) return;
  pthread_detach((*resolver)->thread);
  resolver_leave(*resolver);
  *resolver = NULL;
}
