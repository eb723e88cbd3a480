/* SPDX-License-Identifier: Apache-2.0
 *
 * Failures between WELCOME and RESULT. In a job of four ranks (rank 0 sends the table to 1 and 2, and
 * 2 to 3) one rank is an actor: a process that follows the protocol up to a point, and is then killed
 * or stopped, or breaks the protocol. The other ranks are real. All have to end soon, with the name of
 * the actor in the error, and without a descriptor left.
 */
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "actor.h"
#include "base/bytes.h"
#include "check.h"
#include "leaks.h"
#include "load.h"
#include "openings.h"
#include "ranks.h"

static void die_before_the_table(const scene *scene) {
  act_as_client(scene);
  raise(SIGKILL);
}

static void die_linked_to_a_child(const scene *scene) {
  ring_claim claim;
  ring_seal seal;
  actor self = act_as_client(scene);
  act_accept(&self, scene->actor, &claim, &seal);
  raise(SIGKILL);
}

static void stop_before_the_table(const scene *scene) {
  act_as_client(scene);
  raise(SIGSTOP);
}

static void die_as_rank_0(const scene *scene) {
  act_as_rank_0(scene);
  raise(SIGKILL);
}

static void stop_as_rank_0(const scene *scene) {
  act_as_rank_0(scene);
  raise(SIGSTOP);
}

/* Puts the HMAC behind a table, as rank 0 does. */
static void vouch(const actor *self, table *made) {
  uint8_t facts[18 + 8] = "sparkring table 1";
  ring_secret key, mac;
  bytes_put(facts + 18, self->epoch, 8);
  CHECK(ring_keys_mac(&self->keys, facts, sizeof facts, &key));
  CHECK(ring_secret_mac(&key, made->bytes, made->length, &mac));
  CHECK(made->length + sizeof mac <= TABLE_BYTES);
  memcpy(made->bytes + made->length, &mac, sizeof mac);
  made->length += sizeof mac;
}

/* Gives its child a table, with the right HMAC or, if it is to be `flipped` something, a wrong one;
 * without one only a length. */
static void mislead(const scene *scene, table *made, uint32_t length, int flipped) {
  ring_claim claim;
  ring_seal seal;
  actor self = act_as_client(scene);
  int child = act_accept(&self, scene->actor, &claim, &seal);
  CHECK(claim.purpose == RING_PURPOSE_LINK && claim.rank == 3 && claim.epoch == self.epoch);
  uint8_t head[4];
  if (made != NULL) vouch(&self, made);
  if (made != NULL) made->bytes[4] ^= (uint8_t)flipped;
  bytes_put(head, made != NULL ? made->length : length, 4);
  CHECK_INT(send(child, head, sizeof head, MSG_NOSIGNAL), sizeof head);
  if (made != NULL) send(child, made->bytes, made->length, MSG_NOSIGNAL);
  act_await_end(self.root);
}

static void send_a_length_too_large(const scene *scene) {
  mislead(scene, NULL, UINT32_MAX, 0);
}

static void send_a_length_of_zero(const scene *scene) {
  mislead(scene, NULL, 0, 0);
}

static void send_too_many_hosts(const scene *scene) {
  table made = make_table(ACT_RANKS, ACT_RANKS + 1, 1);
  mislead(scene, &made, 0, 0);
}

static void send_fewer_ranks(const scene *scene) {
  table made = make_table(ACT_RANKS - 1, 1, 0);
  mislead(scene, &made, 0, 0);
}

/* Somebody in between has changed a bit. */
static void send_another_table(const scene *scene) {
  table made = make_table(ACT_RANKS, 2, 1);
  mislead(scene, &made, 0, 1);
}

static void report_a_length(const scene *scene, uint32_t length) {
  uint8_t head[RING_MESSAGE_LENGTH_BYTES + RING_MESSAGE_HEAD_BYTES + RING_SEAL_BYTES - 1] = {0};
  actor self = act_as_client(scene);
  bytes_put(head, length, RING_MESSAGE_LENGTH_BYTES);
  CHECK_INT(send(self.root, head, sizeof head, MSG_NOSIGNAL), sizeof head);
  act_await_end(self.root);
}

static void report(const scene *scene, ring_message message, int flipped) {
  uint8_t wire[MESSAGE_WIRE_BYTES];
  actor self = act_as_client(scene);
  size_t length = seal_message(&self.seal, &message, wire);
  wire[RING_MESSAGE_LENGTH_BYTES] ^= (uint8_t)flipped;
  CHECK_INT(send(self.root, wire, length, MSG_NOSIGNAL), length);
  act_await_end(self.root);
}

static void report_without_end(const scene *scene) {
  report_a_length(scene, UINT32_MAX);
}

/* The first bytes of a report without a failure. */
static void report_in_part(actor *self, size_t bytes) {
  uint8_t wire[MESSAGE_WIRE_BYTES];
  CHECK(bytes < seal_message(&self->seal, &(ring_message){.fault = -1}, wire));
  CHECK_INT(send(self->root, wire, bytes, MSG_NOSIGNAL), bytes);
}

static void report_a_part_of_the_length(const scene *scene) {
  actor self = act_as_client(scene);
  report_in_part(&self, RING_MESSAGE_LENGTH_BYTES - 1);
  act_await_end(self.root);
}

static void report_half(const scene *scene) {
  actor self = act_as_client(scene);
  report_in_part(&self, RING_MESSAGE_LENGTH_BYTES + RING_MESSAGE_HEAD_BYTES);
  act_await_end(self.root);
}

static void die_after_half_a_report(const scene *scene) {
  actor self = act_as_client(scene);
  report_in_part(&self, RING_MESSAGE_LENGTH_BYTES + RING_MESSAGE_HEAD_BYTES);
  raise(SIGKILL);
}

static void report_too_little(const scene *scene) {
  report_a_length(scene, RING_MESSAGE_HEAD_BYTES + RING_SEAL_BYTES - 1);
}

static void report_an_unknown_status(const scene *scene) {
  report(scene, (ring_message){.status = (ring_status)99, .fault = -1}, 0);
}

static void report_a_rank_that_is_none(const scene *scene) {
  report(scene, (ring_message){.status = RING_PEER_LOST, .fault = ACT_RANKS}, 0);
}

/* Somebody in between has changed a bit. */
static void report_something_else(const scene *scene) {
  report(scene, (ring_message){.fault = -1}, 1);
}

static void report_twice(const scene *scene) {
  ring_message message = {.fault = -1};
  actor self = act_as_client(scene);
  act_send(self.root, &self.seal, &message);
  act_send(self.root, &self.seal, &message);
  act_await_end(self.root);
}

static void report_a_failure(const scene *scene) {
  ring_message message = {
      .status = RING_NO_MEMORY, .fault = -1, .length = 13, .body = "out of memory"};
  actor self = act_as_client(scene);
  act_send(self.root, &self.seal, &message);
  act_await_end(self.root);
}

/* ---- Scenes ------------------------------------------------------------------------------- */

/* Runs the actor in a process of its own, which a signal may end or stop. */
static void watch_actor(scene *scene) {
  int status = 0;
  fflush(NULL);
  pid_t actor = fork();
  if (actor == 0) {
    alarm(60);
    scene->act(scene);
    _exit(0);
  }
  CHECK_INT(waitpid(actor, &status, WUNTRACED), actor);
  if (scene->signal != SIGSTOP) {
    CHECK_INT(WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status), scene->signal);
    return;
  }
  CHECK(WIFSTOPPED(status));
  while (*(volatile int *)&scene->failed < ACT_RANKS - 1) usleep(1000);
  kill(actor, SIGKILL);
  CHECK_INT(waitpid(actor, &status, 0), actor);
}

static void be_real(int rank, scene *scene) {
  ring_options options = scene_options(scene, rank);
  int before = count_descriptors();
  double begun = seconds();
  CHECK_INT(expect_failure(&options, scene->status, scene->text), scene->actor);
  CHECK(seconds() - begun < UNLOADED(scene->seconds));
  CHECK_INT(count_descriptors(), before);
  __sync_fetch_and_add(&scene->failed, 1);
}

static void take_part(int rank, int size, void *shared) {
  scene *scene = shared;
  (void)size;
  if (rank == scene->actor)
    watch_actor(scene);
  else
    be_real(rank, scene);
}

static void play(scene played) {
  RUN_RANKS(ACT_RANKS, take_part, played);
}

static void lose(int actor, void (*act)(const scene *), int signal, const char *text) {
  play((scene){.actor = actor,
               .act = act,
               .signal = signal,
               .status = RING_PEER_LOST,
               .text = text,
               .timeout = 30,
               .seconds = 10});
}

static void miss(int actor, void (*act)(const scene *), const char *text) {
  play((scene){.actor = actor,
               .act = act,
               .signal = SIGSTOP,
               .status = RING_TIMEOUT,
               .text = text,
               .timeout = 4,
               .seconds = 8});
}

static void test_a_rank_dies(void) {
  for (int rank = 1; rank < ACT_RANKS; rank++) {
    char text[64];
    snprintf(text, sizeof text, "rank %d (127.0.0.1)", rank);
    lose(rank, die_before_the_table, SIGKILL, text);
  }
}

static void test_a_parent_dies(void) {
  lose(2, die_linked_to_a_child, SIGKILL, "rank 2 (127.0.0.1)");
}

static void test_rank_0_dies(void) {
  lose(0, die_as_rank_0, SIGKILL, "rank 0 (127.0.0.1)");
}

static void test_a_rank_stops(void) {
  miss(1, stop_before_the_table, "3 of 4 ranks joined and received the address table");
  miss(2, stop_before_the_table,
       "missing: rank 2 (127.0.0.1). Rank 2 has stopped, or rank 0, which sends it the table");
}

static void test_rank_0_stops(void) {
  miss(0, stop_as_rank_0, "it hangs or was cut off");
}

static void test_hostile_tables(void) {
  const char *text = "rank 2 sent rank 3 an address table that is malformed";
  lose(2, send_a_length_too_large, 0, text);
  lose(2, send_a_length_of_zero, 0, text);
  lose(2, send_too_many_hosts, 0, text);
  lose(2, send_fewer_ranks, 0, text);
}

static void test_hostile_reports(void) {
  const char *text = "rank 3 (127.0.0.1) was lost while the address table was sent";
  lose(3, report_without_end, 0, text);
  lose(3, report_too_little, 0, text);
  lose(3, report_an_unknown_status, 0, text);
  lose(3, report_a_rank_that_is_none, 0, text);
  /* Whether the report of the second one is still received depends on who reports last. */
  lose(3, report_twice, 0, "rank 3 (127.0.0.1)");
}

static void refuse(int actor, void (*act)(const scene *), const char *text) {
  play((scene){
      .actor = actor, .act = act, .status = RING_AUTH, .text = text, .timeout = 30, .seconds = 10});
}

/* A rank that has sent a part of a report keeps rank 0 from nothing: all ranks learn in time which rank is
 * missing. */
static void test_half_a_report(void) {
  scene half = {.actor = 1,
                .act = report_half,
                .status = RING_TIMEOUT,
                .text = "missing: rank 1 (127.0.0.1)",
                .timeout = 3,
                .seconds = 8};
  play(half);
  half.act = report_a_part_of_the_length;
  play(half);
  lose(1, die_after_half_a_report, SIGKILL, "rank 1 (127.0.0.1)");
}

/* Rank 3 is interrupted while rank 0 has half a report of rank 1. */
typedef struct half {
  scene scene;
  int sent, asked;
} half;

static void act_half(const scene *scene) {
  half *shared = (half *)(uintptr_t)scene; /* the first of its members */
  actor self = act_as_client(scene);
  report_in_part(&self, RING_MESSAGE_LENGTH_BYTES + RING_MESSAGE_HEAD_BYTES);
  __sync_fetch_and_add(&shared->sent, 1);
  act_await_end(self.root);
}

static int stop_after_half(void *arg) {
  half *shared = arg; /* asked every 100 ms: rank 0 has the half by the third time */
  return *(volatile int *)&shared->sent != 0 && shared->asked++ >= 3;
}

static void fail_beside_half(int rank, int size, void *arg) {
  half *shared = arg;
  ring_options options = scene_options(&shared->scene, rank);
  double begun = seconds();
  (void)size;
  if (rank == shared->scene.actor) {
    watch_actor(&shared->scene);
    return;
  }
  if (rank == 3) {
    options.interrupt = stop_after_half;
    options.interrupt_arg = shared;
  }
  CHECK_INT(expect_failure(&options, RING_ABORTED, "rank 3 was interrupted during open()"), 3);
  CHECK(seconds() - begun < UNLOADED(10));
}

static void test_a_failure_beside_half_a_report(void) {
  RUN_RANKS(ACT_RANKS, fail_beside_half,
            (half){.scene = (scene){.actor = 1, .act = act_half, .timeout = 30}});
}

static void test_what_was_changed_on_the_way(void) {
  refuse(2, send_another_table, "an address table that is not that of rank 0");
  refuse(3, report_something_else, "rank 3 (127.0.0.1) is not what it has sent");
}

static void test_a_rank_fails(void) {
  play((scene){.actor = 3,
               .act = report_a_failure,
               .status = RING_NO_MEMORY,
               .text = "rank 3 reports: out of memory",
               .timeout = 30,
               .seconds = 10});
}

int main(void) {
  RUN(test_a_rank_dies);
  RUN(test_a_parent_dies);
  RUN(test_rank_0_dies);
  RUN(test_a_rank_stops);
  RUN(test_rank_0_stops);
  RUN(test_hostile_tables);
  RUN(test_hostile_reports);
  RUN(test_half_a_report);
  RUN(test_a_failure_beside_half_a_report);
  RUN(test_what_was_changed_on_the_way);
  RUN(test_a_rank_fails);
  return 0;
}
