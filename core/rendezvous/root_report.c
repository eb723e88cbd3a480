/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/root_report.h"

#include <stdio.h>

#include "base/address.h"
#include "base/error.h"
#include "base/platform.h"

/* Time for a rank whose connection ended to come back. */
#define ROOT_RETURN_NS UINT64_C(500000000)

/* "rank 1 (worker-a)"; without the host while that is not known. */
static void root_client_text(const root_state *root, int rank, char *text, size_t size) {
  const char *host = root->goal == ROOT_INFORMED ? ring_peers_host(root->peers, rank) : NULL;
  if (root->rendezvous->hosts != NULL) host = root->rendezvous->hosts[rank];
  snprintf(text, size, host != NULL ? "rank %d (%s)" : "rank %d", rank, host);
}

ring_status ring_root_lost_error(const root_state *root, int rank, const char *how,
                                 ring_error *error) {
  char name[RING_HOST_BYTES + 32];
  double absence = ring_wait_absence(root->rendezvous->wait);
  root_client_text(root, rank, name, sizeof name);
  if (absence == 0) return ring_error_set(error, RING_PEER_LOST, rank, 0, "%s %s", name, how);
  return ring_error_set(
      error, RING_ABORTED, 0, 0,
      "rank 0 was stopped for %.1f s during open(), and %s has ended meanwhile: peers "
      "timed out waiting for this rank",
      absence, name);
}

int ring_root_mismatch(const root_state *root) {
  for (int rank = 1; rank < root->rendezvous->size; rank++)
    if (root->clients[rank].unlike) return rank;
  return -1;
}

bool ring_root_failed(const root_state *root) {
  for (int rank = 1; rank < root->rendezvous->size; rank++)
    if (root->clients[rank].failed) return true;
  return false;
}

int ring_root_find_lost(const root_state *root) {
  for (int rank = 1; rank < root->rendezvous->size; rank++) {
    uint64_t lost = root->clients[rank].lost;
    if (lost != 0 && ring_platform_now() - lost > ROOT_RETURN_NS) return rank;
  }
  return -1;
}

/* Whether a rank blocks the goal. A rank without the table does not while its parent lacks it,
 * too. */
static bool root_blocks(const root_state *root, int rank) {
  if (root->clients[rank].stage >= root->goal) return false;
  int parent = ring_address_table_parent(rank);
  return root->goal == ROOT_JOINED || parent == 0 || root->clients[parent].stage >= root->goal;
}

/* "rank 1 (worker-a), rank 3 (worker-b)" */
static int root_list_missing(const root_state *root, char *text, size_t size) {
  int missing = 0, first = -1;
  size_t length = 0;
  text[0] = '\0';
  for (int rank = 1; rank < root->rendezvous->size; rank++) {
    if (!root_blocks(root, rank)) continue;
    if (first < 0) first = rank;
    if (++missing > 8 || length >= size) continue;
    char name[RING_HOST_BYTES + 32];
    root_client_text(root, rank, name, sizeof name);
    length +=
        (size_t)snprintf(text + length, size - length, "%s%s", missing == 1 ? "" : ", ", name);
  }
  if (missing > 8 && length < size)
    snprintf(text + length, size - length, " and %d more", missing - 8);
  return first;
}

ring_status ring_root_explain(const root_state *root, ring_status status, ring_error *error) {
  if (ring_root_failed(root)) {
    *error = root->report;
    return error->status;
  }
  if (status == RING_ABORTED) return ring_rendezvous_aborted(root->rendezvous, error);
  if (status == RING_NO_MEMORY) return ring_error_no_memory(error, 0);
  if (ring_root_mismatch(root) > 0)
    return ring_rendezvous_mismatch(root->rendezvous, ring_root_mismatch(root),
                                    root->rendezvous->encrypted, error);
  if (status == RING_PEER_LOST && ring_root_find_lost(root) > 0)
    return ring_root_lost_error(
        root, ring_root_find_lost(root),
        "was lost in open(): it had joined, and went away before all ranks had joined", error);
  if (status != RING_TIMEOUT)
    return ring_error_set(error, status, 0, 0, "rank 0 could not wait for the other ranks: %s",
                          ring_status_text(status));
  char missing[400];
  int first = root_list_missing(root, missing, sizeof missing);
  const ring_acceptor *acceptor =
      root->goal == ROOT_JOINED ? &root->acceptor : &root->peers->acceptor;
  if (acceptor->lacked != 0)
    return ring_error_set(error, RING_SYSTEM, 0, acceptor->lacked,
                          "rank 0 could not accept all ranks (missing: %s)", missing);
  if (acceptor->starved)
    return ring_error_set(error, RING_SYSTEM, 0, 0,
                          "rank 0 could not answer all ranks (missing: %s): OpenSSL gave no random "
                          "numbers",
                          missing);
  if (root->goal == ROOT_INFORMED)
    return ring_error_set(error, RING_TIMEOUT, first, 0,
                          "%d of %d ranks joined and received the address table within %.1f s; "
                          "missing: %s. Rank %d has stopped, or rank %d, which sends it the table, "
                          "has, or a firewall is between them (open the port range and pass it on "
                          "all ranks)",
                          root->reached + 1, root->rendezvous->size,
                          ring_wait_seconds(root->rendezvous->wait), missing, first,
                          ring_address_table_parent(first));
  return ring_error_set(
      error, RING_TIMEOUT, first, 0,
      "%d of %d ranks joined within %.1f s; missing: %s. Usual causes: fewer free slots than "
      "partitions, an empty partition (it never starts an R closure), a firewall (open the port "
      "range and pass it on all ranks), or a token, job or address list that differs",
      root->reached + 1, root->rendezvous->size, ring_wait_seconds(root->rendezvous->wait),
      missing);
}

void ring_root_warn(const root_state *root) {
  char missing[400], text[sizeof(((ring_error *)0)->message)];
  const char *what = root->goal == ROOT_JOINED ? "joined" : "the address table";
  root_list_missing(root, missing, sizeof missing);
  snprintf(text, sizeof text,
           "rank 0 has waited %.1f s in open(): %d of %d ranks have %s; missing: %s",
           ring_wait_seconds(root->rendezvous->wait), root->reached + 1, root->rendezvous->size,
           what, missing);
  ring_wait_warn(root->rendezvous->wait, text);
}
