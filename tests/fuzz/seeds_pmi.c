/* SPDX-License-Identifier: Apache-2.0
 *
 * Seeds of PMI and PMIx: lines of programs, messages of servers and of hubs.
 */
#include <stdlib.h>
#include <string.h>

#include "pmi/pmi_links.h"
#include "pmi/pmix_message.h"
#include "seeds.h"

/* PMI: the lines of a program from MPI_Init to MPI_Finalize, and a spawn, after pairs of another rank. */
static void save_pmi(void) {
  static const char begin[] = "cmd=init pmi_version=1 pmi_subversion=1\n";
  static const char lines[] = "cmd=get_maxes\ncmd=get_appnum\ncmd=get_my_kvsname\n"
                              "cmd=put kvsname=s key=card value=tcp host 1\n"
                              "cmd=barrier_in\ncmd=get kvsname=s key=card\n"
                              "cmd=publish_name service=a port=b\ncmd=lookup_name service=a\n"
                              "cmd=unpublish_name service=a\ncmd=get_universe_size\n";
  static const char spawn[] =
      "mcmd=spawn\ntotspawns=1\nspawnssofar=1\nendcmd\ncmd=abort exitcode=3\n";
  seed pairs = {.length = 0}, all = {.length = 0};
  seed_add(&pairs, "a\0b\0c\0d", 8);
  seed_add_piece(&all, &pairs);
  seed_add(&all, begin, sizeof begin - 1);
  seed_add(&all, lines, sizeof lines - 1);
  seed_save("fuzz_pmi", "program", all.bytes, all.length);
  seed_add(&all, spawn, sizeof spawn - 1);
  seed_save("fuzz_pmi", "spawn", all.bytes, all.length);
  seed_add(&all, "cmd=finalize\n", 13);
  seed_save("fuzz_pmi", "late", all.bytes, all.length);
}

static void add_pmix(seed *to, char kind, int32_t rank, int32_t value, const char *bytes,
                     size_t length) {
  uint8_t head[RING_PMIX_HEAD];
  const ring_pmix_message message = {7, rank, value, bytes, length};
  ring_pmix_message_head(head, kind, &message);
  seed_add(to, head, sizeof head);
  seed_add(to, bytes, length);
}

/* PMIx: what a server sends, and a job. */
static void save_pmix(void) {
  int nodes[] = {0, 1, 1};
  const char *names[] = {"a", "b"};
  const ring_pmix_job job = {"run", "/tmp/x", 3, 2, 1, nodes, names};
  seed all = {.length = 0};
  size_t length;
  char *bytes = ring_pmix_job_write(&job, &length);
  if (bytes != NULL)
    add_pmix(&all, RING_PMIX_JOB, 0, RING_PMIX_VERSION, bytes, length);
  else
    seed_fail("seeds");
  free(bytes);
  seed_save("fuzz_pmix", "job", all.bytes, all.length);
  all.length = 0;
  add_pmix(&all, RING_PMIX_ENVIRONMENT, 1, 0, "A=1", 4);
  add_pmix(&all, RING_PMIX_READY, 0, 0, "", 0);
  add_pmix(&all, RING_PMIX_CONNECTED, 1, 0, "", 0);
  add_pmix(&all, RING_PMIX_FENCE, 0, 2, "\1\0\0\0\2\0\0\0us\0data", 15);
  add_pmix(&all, RING_PMIX_MODEX, 0, 0, "", 0);
  add_pmix(&all, RING_PMIX_FETCHED, 0, 1, "data", 4);
  add_pmix(&all, RING_PMIX_NAME, 0, RING_PMIX_PUBLISH, "key\0value", 10);
  add_pmix(&all, RING_PMIX_NAME, 0, RING_PMIX_LOOKUP, "key", 4);
  add_pmix(&all, RING_PMIX_ABORTED, 2, 7, "", 0);
  seed_save("fuzz_pmix", "server", all.bytes, all.length);
}

/* A control message of rank 1 or 2 to the hub, or of a hub. */
static void add_control(seed *to, unsigned first, const void *bytes, size_t length) {
  seed piece = {.length = 0};
  seed_add(&piece, bytes, length);
  seed_add_byte(to, first);
  seed_add_piece(to, &piece);
}

static void save_hub(void) {
  const ring_pmix_message fence = {.ticket = 7, .bytes = "\0data", .length = 5};
  const ring_pmix_message name = {.ticket = 8, .bytes = "key\0value", .length = 10};
  uint8_t bytes[64] = {'F'};
  seed hub = {.length = 0}, side = {.length = 0};
  seed_add_byte(&hub, 1);
  add_control(&hub, 1, "ncmd=publish_name service=s port=p", 34);
  add_control(&hub, 2, "ncmd=lookup_name service=s", 26);
  memcpy(ring_pmix_message_write(bytes + 1, &fence), fence.bytes, fence.length);
  add_control(&hub, 2, bytes, 1 + RING_PMIX_FIELDS + fence.length);
  bytes[0] = 'N';
  memcpy(ring_pmix_message_write(bytes + 1, &name), name.bytes, name.length);
  add_control(&hub, 2, bytes, 1 + RING_PMIX_FIELDS + name.length);
  add_control(&hub, 1, "fkey\0value", 11);
  add_control(&hub, 2, "e", 1);
  seed_save("fuzz_hub", "hub", hub.bytes, hub.length);
  seed_add_byte(&side, 0);
  add_control(&side, 'N', bytes + 1, RING_PMIX_FIELDS + name.length);
  add_control(&side, 'n', "cmd=lookup_result info=ok rc=0\n", 31);
  seed_save("fuzz_hub", "side", side.bytes, side.length);
}

/* A report to rank 0 from each other rank, of which rank 2 has a problem; the report of all to rank 1. */
static void save_links(void) {
  seed reports = {.length = 0}, all = {.length = 0};
  ring_pmi_report report = {.rank = 0};
  seed_add_number(&reports, 0, 2);
  add_control(&reports, 0, &report, sizeof report);
  report = (ring_pmi_report){.code = 24, .rank = 0, .problem = "no server"};
  add_control(&reports, 1, &report, sizeof report);
  seed_save("fuzz_links", "reports", reports.bytes, reports.length);
  seed_add_number(&all, 1, 2);
  add_control(&all, 0, &report, sizeof report);
  seed_save("fuzz_links", "all", all.bytes, all.length);
}

void seeds_pmi(void) {
  save_pmi();
  save_pmix();
  save_hub();
  save_links();
}
