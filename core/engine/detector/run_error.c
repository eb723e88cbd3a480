/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/detector/run_error.h"

#include "base/error.h"

ring_status ring_run_error_mismatch(const ring_run *run, int rank, const ring_call *theirs,
                                    const ring_call *own) {
  char their_text[RING_CALL_LONG_TEXT], own_text[RING_CALL_LONG_TEXT];
  const ring_peers *peers = run->engine->peers;
  const char *own_array = own->digest == run->task->call.digest ? run->task->description : NULL;
  int own_rank = peers->rank;
  ring_call_describe_array(theirs, ring_wait_report_description(&peers->peer[rank], theirs),
                           their_text, sizeof their_text);
  ring_call_describe_array(own, own_array, own_text, sizeof own_text);
  /* A close has a digest where a backend has carried calls out that it did not compare. */
  if (theirs->collective == RING_COLLECTIVE_CLOSE && own->collective == RING_COLLECTIVE_CLOSE &&
      (theirs->digest | own->digest) != 0)
    return ring_error_set(run->error, RING_MISMATCH, rank, 0,
                          "ranks %d and %d made different calls before close, which their backend "
                          "did not compare: repeat the calls with the backend native, which names "
                          "the first that differs",
                          rank, own_rank);
  return ring_error_set(run->error, RING_MISMATCH, rank, 0,
                        "the ranks made different calls: rank %d called %s, rank %d called %s",
                        rank, their_text, own_rank, own_text);
}

ring_status ring_run_error_damage(const ring_run *run, int rank) {
  char call[RING_CALL_TEXT];
  ring_call_describe(&run->task->call, call, sizeof call);
  return ring_error_set(run->error, RING_PEER_LOST, rank, 0,
                        "what rank %d (%s) sent in %s arrived damaged: a network card, a cable, a "
                        "router or memory between the two is faulty",
                        rank, ring_peers_name(run->engine->peers, rank), call);
}
