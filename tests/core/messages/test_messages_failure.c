/* SPDX-License-Identifier: Apache-2.0
 *
 * What goes wrong with messages: they do not fit, are never received, wait for a rank that has closed, was
 * killed, is late or is interrupted; and what works afterwards.
 */
#include <sys/wait.h>
#include <unistd.h>

#include "messages.h"
#include "messages/state.h"

enum { LONG = 1000000 };

static void exchange_well(ring_messages *messages, int rank) {
  uint8_t in = 0, out = (uint8_t)(40 + rank);
  went_well(messages, ring_messages_sendrecv(messages, &out, 1, RING_UINT8, 1 - rank, 9, &in, 1,
                                             RING_UINT8, 1 - rank, 9, NULL));
  CHECK_INT(in, 41 - rank);
}

/* ---- Messages that do not fit ------------------------------------------------------------- */

static void refuse_misfits(ring_messages *messages, bool late) {
  static uint8_t bytes[LONG];
  static int32_t numbers[4];
  ring_message_info info;
  ring_transfer *number;
  if (late) went_well(messages, ring_messages_probe(messages, 1, 4, &info));
  ring_transfer *narrow = start_recv(messages, bytes, 3, 1, 1);
  ring_transfer *narrow_long = start_recv(messages, bytes, LONG - 1, RING_ANY_SOURCE, 2);
  went_well(messages, ring_messages_recv_start(messages, numbers, 4, RING_INT32, 1, 3, &number));
  finish_with(
      narrow, RING_MISMATCH,
      "the message from rank 1 (127.0.0.1) with tag 1 has 4 elements, and the buffer of the "
      "receive room for 3");
  finish_with(narrow_long, RING_MISMATCH, "has 1000000 elements, and the buffer");
  CHECK_INT(ring_transfer_wait(number), RING_MISMATCH);
  CHECK_INT(ring_transfer_info(number).count, 8);
  finish_with(number, RING_MISMATCH, "with tag 3 is of uint8, and the receive of int32");
  went_well(messages, ring_messages_recv(messages, bytes, 1, RING_UINT8, 1, 4, NULL));
}

static void try_misfits(ring_comm *comm, void *shared) {
  (void)shared;
  static uint8_t bytes[LONG];
  int rank = ring_comm_rank(comm);
  ring_messages *messages = messages_of(comm);
  for (int late = 0; late < 2; late++) {
    if (rank == 0) refuse_misfits(messages, late == 1);
    ring_transfer *sends[4];
    for (int i = 0; rank == 1 && i < 4; i++)
      sends[i] = start_send(messages, bytes, (const size_t[]){4, LONG, 8, 1}[i], 0, i + 1);
    for (int i = 0; rank == 1 && i < 4; i++) finish_well(sends[i]);
    exchange_well(messages, rank);
  }
  end_messages(messages);
}

static void test_misfits_fail_the_receive_alone(void) {
  run_comms(2, try_misfits, NULL);
}

static void refuse(ring_messages *messages, ring_status status, const char *text) {
  CHECK_INT(status, RING_INVALID);
  CHECK_CONTAINS(ring_messages_error(messages)->message, text);
}

static void try_bad(ring_comm *comm, void *shared) {
  (void)shared;
  int64_t number[2] = {0};
  ring_transfer *transfer;
  int rank = ring_comm_rank(comm), found;
  ring_messages *messages = messages_of(comm);
  refuse(messages, ring_messages_send(messages, number, 1, RING_INT64, 2, 0),
         "peer 2 is not in 0 to 1");
  refuse(messages, ring_messages_send(messages, number, 1, RING_INT64, RING_ANY_SOURCE, 0),
         "peer -1 is not in 0 to 1");
  refuse(messages, ring_messages_send(messages, number, 1, RING_INT64, 1, RING_ANY_TAG),
         "tag -1 is negative");
  refuse(messages, ring_messages_recv(messages, number, 1, RING_INT64, -2, 0, NULL),
         "source -2 is not in 0 to 1");
  refuse(messages, ring_messages_recv(messages, NULL, 1, RING_INT64, 0, 0, NULL), "is NULL");
  refuse(messages,
         ring_messages_recv_start(messages, (char *)number + 1, 1, RING_INT64, 0, 0, &transfer),
         "not aligned");
  CHECK(transfer == NULL);
  refuse(messages, ring_messages_send(messages, (char *)number + 4, 1, RING_COMPLEX128, 0, 0),
         "not aligned");
  refuse(messages, ring_messages_send(messages, number, 1, (ring_dtype)99, 0, 0), "99 is no dtype");
  refuse(messages, ring_messages_send(messages, number, SIZE_MAX / 8, RING_INT64, 0, 0),
         "more bytes than memory");
  refuse(messages, ring_messages_iprobe(messages, 5, 0, &found, NULL), "source 5");
  refuse(messages, ring_messages_send(NULL, number, 1, RING_INT64, 0, 0), "messages is NULL");
  exchange_well(messages, rank);
  end_messages(messages);
}

static void test_bad_arguments(void) {
  run_comms(2, try_bad, NULL);
}

static void try_cancel(ring_comm *comm, void *shared) {
  (void)shared;
  uint8_t byte = 0;
  int rank = ring_comm_rank(comm);
  ring_messages *messages = messages_of(comm);
  ring_transfer *receive = start_recv(messages, &byte, 1, 1 - rank, 1);
  ring_transfer_cancel(receive);
  finish_with(receive, RING_ABORTED, "cancelled the receive");
  ring_transfer_free(start_recv(messages, &byte, 1, RING_ANY_SOURCE, 2));
  exchange_well(messages, rank);
  end_messages(messages);
}

static void test_receives_can_be_cancelled(void) {
  run_comms(2, try_cancel, NULL);
}

/* ---- Closing ------------------------------------------------------------------------------ */

/* Rank 0 closes; rank 1 still waits for it in several ways, then closes as well. */
static void try_closed(ring_comm *comm, void *shared) {
  int *started = shared;
  static uint8_t bytes[LONG];
  ring_message_info info;
  ring_messages *messages = messages_of(comm);
  if (ring_comm_rank(comm) == 1) {
    const char *text = "rank 0 (127.0.0.1) has closed its messages";
    ring_transfer *send = start_send(messages, bytes, LONG, 0, 1);
    ring_transfer *any = start_recv(messages, bytes, 1, RING_ANY_SOURCE, 2);
    __atomic_fetch_add(started, 1, __ATOMIC_SEQ_CST);
    finish_with(start_recv(messages, bytes, 1, 0, 1), RING_MISMATCH, text);
    finish_with(send, RING_MISMATCH, text);
    finish_with(any, RING_MISMATCH, "all other ranks have closed");
    CHECK_INT(ring_messages_probe(messages, 0, 1, &info), RING_MISMATCH);
    CHECK_INT(ring_messages_send(messages, bytes, 1, RING_UINT8, 0, 1), RING_MISMATCH);
    CHECK_INT(ring_messages_recv(messages, bytes, 1, RING_UINT8, 0, 1, &info), RING_MISMATCH);
    end_messages(messages);
  } else {
    await_count(started, 1);
    CHECK_INT(ring_messages_close(messages), RING_MISMATCH);
    CHECK_CONTAINS(ring_messages_error(messages)->message,
                   "never received the message from rank 1 (127.0.0.1) with tag 1");
    CHECK_INT(ring_messages_send(messages, bytes, 1, RING_UINT8, 0, 1), RING_INVALID);
    ring_messages_free(messages);
  }
}

static void test_transfers_with_a_closed_rank_fail(void) {
  RUN_COMMS(2, try_closed, (int[1]){0});
}

/* Ranks that never exchange anything close, too, and come at other times. */
static void try_idle(ring_comm *comm, void *shared) {
  int *arrived = shared;
  uint8_t byte = 3;
  ring_messages *messages = messages_of(comm);
  int rank = ring_comm_rank(comm);
  if (rank == 3) await_count(arrived, 1);
  if (rank == 0) went_well(messages, ring_messages_send(messages, &byte, 1, RING_UINT8, 2, 1));
  if (rank == 2)
    went_well(messages,
              ring_messages_recv(messages, &byte, 1, RING_UINT8, RING_ANY_SOURCE, 1, NULL));
  if (rank == 2) __atomic_fetch_add(arrived, 1, __ATOMIC_SEQ_CST);
  end_messages(messages);
}

static void test_idle_ranks_close(void) {
  for (int size = 4; size <= 5; size++) RUN_COMMS(size, try_idle, (int[1]){0});
}

/* ---- Lost ranks --------------------------------------------------------------------------- */

/* How rank 0 waits for rank 2, which is killed. */
enum { WAITS_FOR_IT, WAITS_FOR_ANY, WAITS_TO_SEND, WAITS_IN_A_PROBE, WAYS };

typedef struct doom {
  int way, linked, arrived, dead;
} doom;

static ring_status wait_in_a_way(ring_messages *messages, int way) {
  static uint8_t bytes[LONG];
  if (way == WAITS_FOR_IT) return ring_messages_recv(messages, bytes, 1, RING_UINT8, 2, 1, NULL);
  if (way == WAITS_FOR_ANY)
    return ring_messages_recv(messages, bytes, 1, RING_UINT8, RING_ANY_SOURCE, 1, NULL);
  if (way == WAITS_TO_SEND) return ring_messages_send(messages, bytes, LONG, RING_UINT8, 2, 1);
  return ring_messages_probe(messages, RING_ANY_SOURCE, RING_ANY_TAG, NULL);
}

static void run_doomed(int rank, int size, void *shared) {
  doom *of = shared;
  uint8_t byte = 0;
  ring_comm *comm = open_rank(rank, size);
  ring_messages *messages = messages_of(comm);
  if (of->linked && rank == 2)
    went_well(messages, ring_messages_send(messages, &byte, 1, RING_UINT8, 0, 0));
  if (of->linked && rank == 0)
    went_well(messages, ring_messages_recv(messages, &byte, 1, RING_UINT8, 2, 0, NULL));
  ranks_barrier(&of->arrived, size);
  if (rank == 2) {
    usleep(50000);
    _exit(0);
  }
  ring_status status = wait_in_a_way(messages, rank == 0 ? of->way : WAITS_FOR_ANY);
  if (status != RING_PEER_LOST) fprintf(stderr, "%s\n", ring_messages_error(messages)->message);
  CHECK_INT(status, RING_PEER_LOST);
  CHECK_INT(ring_messages_error(messages)->rank, 2);
  CHECK_CONTAINS(ring_messages_error(messages)->message, "rank 2 (127.0.0.1)");
  CHECK_INT(ring_messages_send(messages, &byte, 1, RING_UINT8, 0, 0), RING_PEER_LOST);
  CHECK_INT(ring_messages_close(messages), RING_PEER_LOST);
  ring_messages_free(messages);
  ring_comm_free(comm);
}

static void test_a_lost_rank_fails_what_waits_for_it(void) {
  for (int way = 0; way < WAYS; way++)
    for (int linked = 0; linked < 2; linked++)
      RUN_RANKS(3, run_doomed, (doom){.way = way, .linked = linked});
}

/* Rank 1 is killed within a long message in both directions. The pages of a message are there once they are
 * written, so only what arrives before the end takes memory. */
static void run_cut(int rank, int size, void *shared) {
  enum { HUGE_BYTES = 1000 * 1000 * 1000 };
  uint8_t *out = calloc(HUGE_BYTES, 1), *in = calloc(HUGE_BYTES, 1);
  ring_comm *comm = open_rank(rank, size);
  ring_messages *messages = messages_of(comm);
  ring_transfer *receive = start_recv(messages, in, HUGE_BYTES, 1 - rank, 0);
  ring_transfer *send = start_send(messages, out, HUGE_BYTES, 1 - rank, 0);
  ranks_barrier(shared, size);
  if (rank == 1) _exit(0);
  CHECK_INT(ring_transfer_wait(send), RING_PEER_LOST);
  CHECK_INT(ring_transfer_wait(receive), RING_PEER_LOST);
  ring_messages_free(messages);
  ring_transfer_free(send);
  finish_with(receive, RING_PEER_LOST, "rank 1 (127.0.0.1)");
  ring_comm_free(comm);
  free(out);
  free(in);
}

static void test_a_rank_lost_within_a_message(void) {
  RUN_RANKS(2, run_cut, (int[1]){0});
}

/* ---- Ends of waits ------------------------------------------------------------------------ */

static void run_late(int rank, int size, void *shared) {
  uint8_t byte;
  ring_options options = rank_options(rank, size);
  options.call_timeout = 0.3;
  ring_comm *comm = open_with(&options);
  ring_messages *messages = messages_of(comm);
  if (rank == 0) {
    CHECK_INT(ring_messages_recv(messages, &byte, 1, RING_UINT8, 1, 6, NULL), RING_TIMEOUT);
    CHECK_CONTAINS(ring_messages_error(messages)->message,
                   "for a message from rank 1 (127.0.0.1) with tag 6");
    CHECK_INT(ring_messages_error(messages)->rank, 1);
  }
  ranks_barrier(shared, size);
  if (rank == 1) {
    CHECK_INT(ring_messages_recv(messages, &byte, 1, RING_UINT8, 0, 6, NULL), RING_TIMEOUT);
    CHECK_CONTAINS(ring_messages_error(messages)->message, "rank 0 waited");
  }
  ring_messages_free(messages);
  ring_comm_free(comm);
}

static void test_timeout_names_the_message(void) {
  RUN_RANKS(2, run_late, (int[1]){0});
}

/* Rank 0 is interrupted when rank 1 was warned that it waits for a message. */
typedef struct interruption {
  int open, warned, arrived;
  char log[1000];
} interruption;

static int interrupts(void *arg) {
  const interruption *of = arg;
  return __atomic_load_n(&of->open, __ATOMIC_SEQ_CST) &&
         __atomic_load_n(&of->warned, __ATOMIC_SEQ_CST);
}

static void note_log(void *arg, const char *message) {
  interruption *of = arg;
  snprintf(of->log, sizeof of->log, "%s", message);
  __atomic_store_n(&of->warned, 1, __ATOMIC_SEQ_CST);
}

static void run_interrupted(int rank, int size, void *shared) {
  interruption *of = shared;
  uint8_t byte;
  ring_options options = rank_options(rank, size);
  options.warn_after = rank == 0 ? RING_NEVER : 0.01;
  options.log = note_log;
  options.log_arg = of;
  options.interrupt = rank == 0 ? interrupts : NULL;
  options.interrupt_arg = of;
  ring_comm *comm = open_with(&options);
  ring_messages *messages = messages_of(comm);
  ranks_barrier(&of->arrived, size);
  of->warned = 0; /* by a slow open */
  ranks_barrier(&of->arrived, 2 * size);
  __atomic_store_n(&of->open, 1, __ATOMIC_SEQ_CST);
  if (rank == 0) {
    CHECK_INT(ring_messages_recv(messages, &byte, 1, RING_UINT8, RING_ANY_SOURCE, 6, NULL),
              RING_ABORTED);
    CHECK_CONTAINS(ring_messages_error(messages)->message,
                   "rank 0 was interrupted during a message from any rank with tag 6");
  } else {
    CHECK_INT(ring_messages_probe(messages, 0, RING_ANY_TAG, NULL), RING_ABORTED);
    CHECK_CONTAINS(ring_messages_error(messages)->message, "rank 0 was interrupted");
    CHECK_CONTAINS(of->log, "for a message from rank 0 (127.0.0.1) with any tag");
  }
  ranks_barrier(&of->arrived, 3 * size);
  ring_messages_free(messages);
  ring_comm_free(comm);
}

static void test_interrupt_ends_a_wait(void) {
  RUN_RANKS(2, run_interrupted, (interruption){0});
}

static void run_aborted(int rank, int size, void *shared) {
  uint8_t byte;
  ring_comm *comm = open_rank(rank, size);
  ring_messages *messages = messages_of(comm);
  ranks_barrier(shared, size);
  if (rank == 0) {
    ring_transfer *receive = start_recv(messages, &byte, 1, 1, 0);
    ring_messages_abort(messages, "no more data");
    finish_with(receive, RING_ABORTED, "aborted its messages: no more data");
  } else {
    CHECK_INT(ring_messages_recv(messages, &byte, 1, RING_UINT8, RING_ANY_SOURCE, 0, NULL),
              RING_ABORTED);
    CHECK_CONTAINS(ring_messages_error(messages)->message,
                   "rank 0 (127.0.0.1) aborted its messages: no more data");
  }
  ring_messages_free(messages);
  ring_comm_free(comm);
}

static void test_abort_ends_all_ranks(void) {
  for (int size = 2; size <= 4; size++) RUN_RANKS(size, run_aborted, (int[1]){0});
}

/* A forked child may free, and nothing else; its parent goes on. */
static void try_fork(ring_comm *comm, void *shared) {
  (void)shared;
  uint8_t byte = 0;
  int status, rank = ring_comm_rank(comm);
  ring_messages *messages = messages_of(comm);
  ring_transfer *receive = start_recv(messages, &byte, 1, 1 - rank, 9);
  pid_t child = fork_for(20);
  if (child == 0) {
    bool refuses =
        ring_messages_send(messages, &byte, 1, RING_UINT8, 1 - rank, 0) == RING_INVALID &&
        ring_messages_close(messages) == RING_INVALID;
    ring_transfer_free(receive);
    ring_messages_free(messages);
    _exit(refuses ? 0 : 1);
  }
  CHECK(waitpid(child, &status, 0) == child);
  CHECK_INT(status, 0);
  uint8_t own = (uint8_t)(rank + 1);
  went_well(messages, ring_messages_send(messages, &own, 1, RING_UINT8, 1 - rank, 9));
  finish_well(receive);
  CHECK_INT(byte, 2 - rank);
  end_messages(messages);
}

static void test_forked_children_only_free(void) {
  run_comms(2, try_fork, NULL);
}

/* ---- Half a message ----------------------------------------------------------------------- */

/* Half of a short message is here when the messages fail. `taken`: a receive has matched it, and ends once. */
static void fail_within(ring_comm *comm, void *shared) {
  const bool *taken = shared;
  const ring_message_frame frame = {.dtype = RING_UINT8, .length = 100, .bytes = 100};
  uint8_t bytes[100];
  ring_messages *messages = messages_of(comm);
  ring_incoming *in = &messages->channels[0].in;
  messages_lock(messages);
  *in = (ring_incoming){.frame = frame, .left = 50, .arrival = ring_arrival_make(0, &frame, 100)};
  ring_matching_keep(&messages->matching, in->arrival);
  messages_unlock(messages);
  ring_transfer *receive = *taken ? start_recv(messages, bytes, sizeof bytes, 0, 0) : NULL;
  ring_messages_abort(messages, "within a message");
  if (receive != NULL) finish_with(receive, RING_ABORTED, "within a message");
  CHECK(in->arrival == NULL);
  CHECK(ring_matching_find(&messages->matching, RING_ANY_SOURCE, RING_ANY_TAG) == NULL);
  ring_messages_free(messages);
}

/* What was freed is not used again, as a sanitizer of addresses checks. */
static void test_half_a_message_ends_with_the_messages(void) {
  RUN_COMMS(1, fail_within, (bool){false});
  RUN_COMMS(1, fail_within, (bool){true});
}

int main(void) {
  RUN(test_misfits_fail_the_receive_alone);
  RUN(test_bad_arguments);
  RUN(test_receives_can_be_cancelled);
  RUN(test_transfers_with_a_closed_rank_fail);
  RUN(test_idle_ranks_close);
  RUN(test_a_lost_rank_fails_what_waits_for_it);
  RUN(test_a_rank_lost_within_a_message);
  RUN(test_timeout_names_the_message);
  RUN(test_interrupt_ends_a_wait);
  RUN(test_abort_ends_all_ranks);
  RUN(test_forked_children_only_free);
  RUN(test_half_a_message_ends_with_the_messages);
  return 0;
}
