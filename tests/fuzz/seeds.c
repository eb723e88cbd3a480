/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes the seed corpus: for every target some inputs that are right, from which the fuzzer finds
 * its way to those that are almost right. Made with the core's own packers, so they stay right when
 * a format changes.
 *   fuzz_seeds FOLDER    makes FOLDER/<target>/<name>
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "auth/handshake.h"
#include "base/address.h"
#include "base/bytes.h"
#include "base/checksum.h"
#include "bindings/envelope.h"
#include "peers/frame.h"
#include "peers/wait_report.h"
#include "pmi/pmi_links.h"
#include "pmi/pmix_message.h"
#include "reducer/announcement.h"
#include "rendezvous/message.h"

enum { ROOM = 4096 };

typedef struct seed {
  uint8_t bytes[ROOM];
  size_t length;
} seed;

static const char *folder;

static void fail(const char *path) {
  perror(path);
  exit(1);
}

static void save(const char *target, const char *name, const void *bytes, size_t length) {
  char path[1024];
  snprintf(path, sizeof path, "%s/%s", folder, target);
  mkdir(path, 0777);
  snprintf(path, sizeof path, "%s/%s/%s", folder, target, name);
  FILE *file = fopen(path, "wb");
  if (file == NULL || fwrite(bytes, 1, length, file) != length || fclose(file) != 0) fail(path);
}

static void save_text(const char *target, const char *name, const char *text) {
  save(target, name, text, strlen(text));
}

static void add(seed *to, const void *bytes, size_t length) {
  memcpy(to->bytes + to->length, bytes, length);
  to->length += length;
}

static void add_byte(seed *to, unsigned byte) {
  to->bytes[to->length++] = (uint8_t)byte;
}

static void add_number(seed *to, uint64_t number, int width) {
  bytes_put(to->bytes + to->length, number, width);
  to->length += (size_t)width;
}

/* As input_piece reads it. */
static void add_piece(seed *to, const seed *piece) {
  add_number(to, piece->length, 2);
  add(to, piece->bytes, piece->length);
}

/* ---- Texts -------------------------------------------------------------------------------- */

static void save_texts(void) {
  static const char *const addresses[] = {"worker-1.example:7077", "[fe80::1%eth0]:9", "::1",
                                          "10.0.0.1"};
  static const char *const rules[] = {"allreduce:ring:64KiB-,broadcast:tree:-1MiB",
                                      "alltoall:bruck:1-2GiB, gatherv:direct"};
  static const char *const environments[] = {
      "SPARKRING_RANK=1\nSPARKRING_SIZE=2\nSPARKRING_ADDRESSES=a:1,[::1]:2\n"
      "SPARKRING_TOKEN=\x01\x02token\nSPARKRING_JOB=j\nSPARKRING_PORTS=1-9\nSPARKRING_TIMEOUT=2.5",
      "SLURM_STEP_ID=0\nSLURM_PROCID=1\nSLURM_NTASKS=4\nSLURM_JOB_ID=7\n"
      "SLURM_STEP_NODELIST=gpu[003-010,12],cpu1",
      "OMPI_COMM_WORLD_RANK=0\nOMPI_COMM_WORLD_SIZE=3\nOMPI_COMM_WORLD_LOCAL_SIZE=3\n"
      "PMIX_NAMESPACE=n",
      "RANK=0\nWORLD_SIZE=2\nMASTER_ADDR=h\nMASTER_PORT=1\nTORCHELASTIC_RUN_ID=r",
      "PMI_RANK=1\nPMI_SIZE=2\nMPI_LOCALNRANKS=1\nSPARKRING_ROOT_ADDRESS=h:5"};
  char name[2] = "a";
  for (size_t i = 0; i < sizeof addresses / sizeof *addresses; i++, name[0]++)
    save_text("fuzz_address", name, addresses[i]);
  for (size_t i = 0; i < sizeof rules / sizeof *rules; i++, name[0]++)
    save_text("fuzz_rules", name, rules[i]);
  for (size_t i = 0; i < sizeof environments / sizeof *environments; i++, name[0]++)
    save_text("fuzz_environment", name, environments[i]);
  uint8_t wire[64], *end = ring_address_pack(ring_address_pack(wire, "host-a"), "::1");
  save("fuzz_address", "wire", wire, (size_t)(end - wire));
}

/* ---- Frames ------------------------------------------------------------------------------- */

static void add_frame(seed *to, uint8_t kind, const void *payload, uint32_t length,
                      ring_call call) {
  ring_frame frame = {
      .kind = kind, .length = length, .call = call, .check = ring_checksum(payload, length)};
  ring_frame_pack(&frame, to->bytes + to->length);
  to->length += RING_HEADER_BYTES;
}

/* Messages: a short one of 4 int32 with tag 0, a long one with tag 2 and its payload, an end. */
static void save_messages(void) {
  static const uint8_t fields[] = {
      0xff, 0, /* all transfers; given fields */
      1,    2, 0, 0, 0,   16, 0, 1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8, /* EAGER */
      2,    2, 2, 1, 128, 0,  0,                                                 /* REQUEST */
      3,    0, 0, 1, 128, 0,  0,                                                 /* READY */
      5,    0, 0, 0, 0,   0,  0,                                                 /* CREDIT */
      6,    0, 0, 0, 0,   0,  0,                                                 /* END */
  };
  save("fuzz_messages", "some", fields, sizeof fields);
}

/* PMI: what a program says from MPI_Init to MPI_Finalize, and a spawn, behind pairs of another rank. */
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
  add(&pairs, "a\0b\0c\0d", 8);
  add_piece(&all, &pairs);
  add(&all, begin, sizeof begin - 1);
  add(&all, lines, sizeof lines - 1);
  save("fuzz_pmi", "program", all.bytes, all.length);
  add(&all, spawn, sizeof spawn - 1);
  save("fuzz_pmi", "spawn", all.bytes, all.length);
  add(&all, "cmd=finalize\n", 13);
  save("fuzz_pmi", "late", all.bytes, all.length);
}

static void add_pmix(seed *to, char kind, int32_t rank, int32_t value, const char *bytes,
                     size_t length) {
  uint8_t head[RING_PMIX_HEAD];
  const ring_pmix_message message = {7, rank, value, bytes, length};
  ring_pmix_message_head(head, kind, &message);
  add(to, head, sizeof head);
  add(to, bytes, length);
}

/* PMIx: what a server sends, and a job. */
static void save_pmix(void) {
  int nodes[] = {0, 1, 1};
  const char *names[] = {"a", "b"};
  const ring_pmix_job job = {"run", "/tmp/x", 3, 2, 1, nodes, names};
  seed all = {.length = 0};
  size_t length;
  char *bytes = ring_pmix_job_write(&job, &length);
  if (bytes == NULL) fail("seeds");
  add_pmix(&all, RING_PMIX_JOB, 0, RING_PMIX_VERSION, bytes, length);
  free(bytes);
  save("fuzz_pmix", "job", all.bytes, all.length);
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
  save("fuzz_pmix", "server", all.bytes, all.length);
}

/* A broadcast of 40 int8 from rank 0 to rank 1, and the same with a failure in its place. */
static void save_frames(void) {
  static const char why[] = "rank 0 (a) aborted the communicator";
  static const uint8_t zeros[40];
  ring_call call = {.collective = RING_COLLECTIVE_BROADCAST, .sequence = 1, .count = 40};
  seed good = {.length = 0}, bad = {.length = 0}, data = {.length = 0}, fail_note = {.length = 0};
  add_frame(&data, RING_FRAME_DATA, zeros, sizeof zeros, call);
  save("fuzz_frame", "data", data.bytes, data.length);
  add(&data, zeros, sizeof zeros);
  add_frame(&fail_note, RING_FRAME_FAIL, why, sizeof why - 1,
            (ring_call){.op = RING_ABORTED, .root = 0});
  save("fuzz_frame", "fail", fail_note.bytes, fail_note.length);
  add(&fail_note, why, sizeof why - 1);
  add_number(&good, 0x080101, 3); /* twice a broadcast; rank 1 of 2 */
  add_piece(&good, &data);
  save("fuzz_link", "broadcast", good.bytes, good.length);
  good.bytes[2] =
      0x48; /* over two connections, the second one silent; over TLS, where it is nonsense */
  save("fuzz_link", "connections", good.bytes, good.length);
  good.bytes[2] = 0x88;
  save("fuzz_link", "tls", good.bytes, good.length);
  add_number(&bad, 0x080101, 3);
  add_piece(&bad, &fail_note);
  save("fuzz_link", "failure", bad.bytes, bad.length);
}

/* ---- Wait reports ------------------------------------------------------------------------------ */

/* A call as a wait report has it. */
static void add_call(seed *to, const ring_call *call) {
  add_number(to, call->collective, 1);
  add_number(to, call->op, 1);
  add_number(to, call->dtype, 1);
  add_number(to, call->sequence, 4);
  add_number(to, (uint32_t)call->root, 4);
  add_number(to, call->count, 8);
  add_number(to, call->digest, 8);
}

/* The sender waits in a call, for ranks that it was last heard of in the same one. */
static void add_notice(seed *to, const ring_call *call, unsigned first, unsigned count) {
  seed made = {.length = 0};
  add_call(&made, call);
  add_number(&made, count, 4);
  add_number(&made, 900, 4); /* ms */
  for (unsigned i = 0; i < count; i++) {
    add_number(&made, first + i, 4);
    add_number(&made, i, 4); /* steps */
    add_number(&made, RING_SUSPECT_WAITS | RING_SUSPECT_NEEDED, 1);
    add_call(&made, call);
  }
  add_piece(to, &made);
}

/* Rank 1 of 4 in an allreduce that all others wait in, in one that they do not, and a message. */
static void save_notices(void) {
  static const struct {
    const char *name;
    unsigned which;
    ring_call call;
  } cases[] = {{"agrees", 0, {.collective = RING_COLLECTIVE_ALLREDUCE, .sequence = 1, .count = 40}},
               {"differs", 0, {.collective = RING_COLLECTIVE_BARRIER, .sequence = 1}},
               {"later", 7, {.collective = RING_COLLECTIVE_BARRIER, .sequence = 2}},
               {"message", 6, {.collective = RING_COLLECTIVE_MESSAGE, .count = 40}}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    seed made = {.length = 0};
    add_byte(&made, cases[i].which);
    add_byte(&made, 2 + 1 * 8); /* size 4, rank 1 */
    for (unsigned other = 0; other < 3; other++) {
      add_byte(&made, 2);   /* wait reports */
      add_byte(&made, 100); /* bytes of them that have come */
      add_notice(&made, &cases[i].call, other, 2);
      add_notice(&made, &cases[i].call, 1, 1);
    }
    save("fuzz_wait_report", cases[i].name, made.bytes, made.length);
  }
}

/* ---- Meetings ----------------------------------------------------------------------------- */

static void add_note(seed *to, ring_status status, const void *body, size_t length) {
  add_number(to, RING_MESSAGE_HEAD_BYTES + length + RING_SEAL_BYTES, RING_MESSAGE_LENGTH_BYTES);
  add_number(to, (uint64_t)status, 1);
  add_number(to, UINT32_MAX, 4); /* no rank is at fault */
  add(to, body, length);
  to->length += RING_SEAL_BYTES; /* which fuzzers do not look at, as the HMAC of a table */
}

static void add_welcome(seed *to) {
  uint8_t body[64], *end = bytes_put(body, 7, 8);
  end = ring_address_pack(bytes_put(end, 4242, 2), "host-a");
  add_note(to, RING_OK, body, (size_t)(end - body));
}

/* Places of `size` ranks on two hosts, without the length. */
static void add_table(seed *to, int size) {
  add_number(to, 2, 4);
  to->length = (size_t)(ring_address_pack(to->bytes + to->length, "host-a") - to->bytes);
  to->length = (size_t)(ring_address_pack(to->bytes + to->length, "host-b") - to->bytes);
  for (int rank = 0; rank < size; rank++) {
    add_number(to, (uint64_t)rank % 2, 1);
    add_number(to, (uint64_t)rank + 1000, 2);
  }
}

static void save_joining(void) {
  seed made = {.length = 0}, root = {.length = 0}, result = {.length = 0}, table = {.length = 0};
  add_welcome(&root);
  add_note(&result, RING_OK, "", 0);
  add_table(&table, 4);
  add_byte(&made, 2); /* size 4 */
  add_byte(&made, 1); /* rank 2 */
  add_piece(&made, &root);
  add_piece(&made, &result);
  add_piece(&made, &table);
  add_number(&made, table.length + RING_SECRET_BYTES, 4);
  add(&made, table.bytes, table.length);
  made.length += RING_SECRET_BYTES;
  save("fuzz_join", "joined", made.bytes, made.length);
  made.length = root.length = 0;
  add_note(&root, RING_TIMEOUT, "missing", 7);
  add_number(&made, 0, 2);
  add_piece(&made, &root);
  save("fuzz_join", "sent-away", made.bytes, made.length);
}

static void save_meeting(void) {
  seed made = {.length = 0}, join = {.length = 0}, report = {.length = 0}, none = {.length = 0};
  add_number(&join, 4000, 2);
  add_number(&join, 60000, 4);
  join.length += RING_SEAL_BYTES;
  add_note(&report, RING_OK, "", 0);
  add_byte(&made, 0x81); /* size 3, with hosts */
  for (unsigned rank = 1; rank < 3; rank++) {
    add_byte(&made, rank);
    add_piece(&made, &join);
    add_piece(&made, &report);
  }
  add_byte(&made, 0x81); /* and rank 1 opens its link */
  add_piece(&made, &none);
  add_piece(&made, &none);
  save("fuzz_root", "met", made.bytes, made.length);
  made.bytes[1] |= 0x40; /* rank 1 wants encryption */
  save("fuzz_root", "unlike", made.bytes, made.length);
}

static void save_exchange(void) {
  static const char *const texts[] = {
      "sparkring/3 4000 0 "
      "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef 0123456789abcdef",
      "sparkring/3 4001 0 "
      "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210"};
  seed made = {.length = 0};
  add_number(&made, 0x0100, 2); /* size 2, rank 1 */
  for (unsigned rank = 0; rank < 2; rank++) {
    add_byte(&made, rank);
    add_byte(&made, (unsigned)strlen(texts[rank]));
    add(&made, texts[rank], strlen(texts[rank]));
  }
  save("fuzz_exchange", "both", made.bytes, made.length);
}

/* Both send and receive, in every kind of link. */
static void save_streams(void) {
  static const uint8_t acts[] = {0,  20, 0, 1,  90, 0, 28, 90, 0, 13, 20, 0,
                                 16, 90, 0, 14, 0,  8, 5,  90, 0, 28, 90, 0};
  char name[2] = "0";
  for (unsigned shape = 0; shape < 6; shape++, name[0]++) {
    seed made = {.length = 0};
    add_byte(&made, shape);
    add_byte(&made, shape * 8);
    add(&made, acts, sizeof acts);
    save("fuzz_stream", name, made.bytes, made.length);
  }
}

/* A connecting side with the key, and an accepting side with it: the target makes the proofs right. */
static void save_handshakes(void) {
  seed made = {.length = 0};
  add_byte(&made, 3);
  add_byte(&made, 0x80);
  add(&made, "sparkrng", 8);
  add_number(&made, RING_WIRE_VERSION, 2);
  add_number(&made, RING_PURPOSE_LINK, 1);
  add_number(&made, 1, 1); /* encrypted */
  made.length += 32;
  add_number(&made, 5, 4);      /* rank */
  add_number(&made, 8, 4);      /* size */
  add_number(&made, 7, 8);      /* epoch */
  add_number(&made, 0x0100, 2); /* connection 0 of 1 */
  made.length += RING_SECRET_BYTES;
  save("fuzz_handshake", "connector", made.bytes, made.length);
  made.bytes[1] = 0; /* who does not want that */
  save("fuzz_handshake", "unlike", made.bytes, made.length);
  made.bytes[0] = 2;
  made.bytes[1] = 0x83;
  made.length = 2 + RING_HELLO_BYTES;
  add_number(&made, RING_ANSWER_ACCEPTED, 4);
  add_number(&made, 3, 4);
  made.length += RING_SECRET_BYTES;
  save("fuzz_handshake", "acceptor", made.bytes, made.length);
  made.bytes[2 + 11] ^= 1; /* encrypted */
  made.bytes[2 + RING_HELLO_BYTES] = RING_ANSWER_UNLIKE;
  save("fuzz_handshake", "refused", made.bytes, made.length);
}

/* ---- Hostile ranks ----------------------------------------------------------------------------- */

/* The number of each of the two other ranks, before and after that of this rank, which is rank 1. */
static void add_numbers(seed *to, int64_t one, int64_t other, int count) {
  for (int i = 0; i < count; i++) add_number(to, (uint64_t)one, 8);
  add_byte(to, 0); /* this rank's own as they are */
  for (int i = 0; i < count; i++) add_number(to, (uint64_t)other, 8);
}

static void save_gathered(void) {
  static const char *const names[] = {"strings", "agreement", "rows", "clock"};
  for (unsigned which = 0; which < 4; which++) {
    seed made = {.length = 0};
    add_byte(&made, which + 4); /* rank 1 */
    add_byte(&made, which < 2 ? 1 : 8);
    if (which == 1) { /* the sum of failures is as it comes: 1 */
      add_byte(&made, 2);
      add_number(&made, 0x3ff0000000000000, 8);
    }
    if (which < 2) {
      add_numbers(&made, 1, 1, 2); /* one string of one byte */
      add_numbers(&made, 1, 1, 1); /* lengths */
      add(&made, "a\0b", 3);
    } else if (which == 2) {
      add_numbers(&made, 5, 2, 1);
    } else {
      for (int i = 0; i < 32; i++) add_number(&made, 2000000000, 8);
      add_numbers(&made, 3, 4, 3);
    }
    save("fuzz_gathered", names[which], made.bytes, made.length);
  }
}

/* One cycle: this rank submits, the others announce the same, and in the next cycle all offer. */
static void save_reducer(void) {
  static const char *const names[] = {"allreduce", "group",    "reduce_scatter", "broadcast",
                                      "allgather", "alltoall", "barrier"};
  for (unsigned kind = 0; kind < 7; kind++) {
    const int64_t shape[2] = {3, 2};
    const ring_buffer buffers[2] = {{NULL, NULL, 2}, {NULL, NULL, 4}};
    ring_operation operation = RING_OPERATION_INIT;
    seed made = {.length = 0}, announced = {.length = 0};
    operation.kind = (ring_operation_kind)kind;
    operation.dtype = RING_INT64;
    operation.shape = shape;
    operation.dimensions = 2;
    operation.buffers = buffers;
    operation.buffer_count = 2;
    uint8_t description[128];
    ring_tensor_encode(&operation, description);
    const ring_announcement announcement = {"a", 1, description, ring_tensor_length(&operation)};
    announced.length = announcement_bytes(&announcement);
    ring_announcement_encode(&announcement, announced.bytes);
    add_byte(&made, 1);        /* rank 1 */
    add_byte(&made, 1);        /* submits one */
    add_byte(&made, 4 * kind); /* of this kind as "a" */
    add_byte(&made, 0);
    add_byte(&made, 0); /* the AND as it is: NEW */
    add_numbers(&made, (int64_t)announced.length, (int64_t)announced.length, 1);
    add(&made, announced.bytes, announced.length);
    add_byte(&made, 0);
    add(&made, announced.bytes, announced.length);
    add_number(&made, 0, 3); /* submits nothing, and the AND as it is: ready */
    add_numbers(&made, 2, 3, 1);
    save("fuzz_reducer", names[kind], made.bytes, made.length);
  }
}

static void save_envelopes(void) {
  static const char *const names[] = {"pickle", "r", "failure"};
  for (unsigned which = 0; which < 3; which++) {
    seed made = {.length = 0};
    add_byte(&made, 1); /* two envelopes */
    add_byte(&made, which);
    for (int i = 0; i < 2; i++) {
      add(&made, "an object", 9);
      ring_envelope_seal(made.bytes + made.length,
                         which == 0   ? RING_ENVELOPE_PICKLE
                         : which == 1 ? ring_envelope_kind_of_r()
                                      : RING_ENVELOPE_FAILURE,
                         9);
      made.length += RING_ENVELOPE_TRAILER_BYTES;
    }
    save("fuzz_envelope", names[which], made.bytes, made.length);
  }
}

/* A rank is late, and is asked; a report of each rank. */
static void save_device(void) {
  seed late = {.length = 0}, report = {.length = 0};
  const ring_call call = {.collective = RING_COLLECTIVE_ALLREDUCE, .sequence = 3, .count = 8};
  add_byte(&late, 0); /* the hub of rank 0 */
  add_byte(&late, 3);
  for (unsigned kind = 2; kind <= 5; kind++) {
    add_byte(&late, 4 * kind);
    add_byte(&late, kind);
    add_number(&late, 1500, 8);
    late.length = (size_t)(ring_call_pack(&call, late.bytes + late.length) - late.bytes);
    late.length += 40 - 36;
  }
  save("fuzz_device", "hub", late.bytes, late.length);
  add_byte(&report, 1 + 4); /* the open of rank 2 */
  add_byte(&report, 0);
  for (int rank = 0; rank < 2; rank++) {
    add_number(&report, 0, 4);
    add_number(&report, 22300, 4);
    report.length += 256;
    add(&report, "no NCCL", 7);
    report.length += 256 - 7 + 256;
  }
  save("fuzz_device", "open", report.bytes, report.length);
}

/* A control message of rank 1 or 2 to the hub, or of a hub. */
static void add_control(seed *to, unsigned first, const void *bytes, size_t length) {
  seed piece = {.length = 0};
  add(&piece, bytes, length);
  add_byte(to, first);
  add_piece(to, &piece);
}

static void save_hub(void) {
  const ring_pmix_message fence = {.ticket = 7, .bytes = "\0data", .length = 5};
  const ring_pmix_message name = {.ticket = 8, .bytes = "key\0value", .length = 10};
  uint8_t bytes[64] = {'F'};
  seed hub = {.length = 0}, side = {.length = 0};
  add_byte(&hub, 1);
  add_control(&hub, 1, "ncmd=publish_name service=s port=p", 34);
  add_control(&hub, 2, "ncmd=lookup_name service=s", 26);
  memcpy(ring_pmix_message_write(bytes + 1, &fence), fence.bytes, fence.length);
  add_control(&hub, 2, bytes, 1 + RING_PMIX_FIELDS + fence.length);
  bytes[0] = 'N';
  memcpy(ring_pmix_message_write(bytes + 1, &name), name.bytes, name.length);
  add_control(&hub, 2, bytes, 1 + RING_PMIX_FIELDS + name.length);
  add_control(&hub, 1, "fkey\0value", 11);
  add_control(&hub, 2, "e", 1);
  save("fuzz_hub", "hub", hub.bytes, hub.length);
  add_byte(&side, 0);
  add_control(&side, 'N', bytes + 1, RING_PMIX_FIELDS + name.length);
  add_control(&side, 'n', "cmd=lookup_result info=ok rc=0\n", 31);
  save("fuzz_hub", "side", side.bytes, side.length);
}

/* ---- Links and splits -------------------------------------------------------------------------- */

/* A report to rank 0 from each other rank, of which rank 2 has a problem; the report of all to rank 1. */
static void save_links(void) {
  seed reports = {.length = 0}, all = {.length = 0};
  ring_pmi_report report = {.rank = 0};
  add_number(&reports, 0, 2);
  add_control(&reports, 0, &report, sizeof report);
  report = (ring_pmi_report){.code = 24, .rank = 0, .problem = "no server"};
  add_control(&reports, 1, &report, sizeof report);
  save("fuzz_links", "reports", reports.bytes, reports.length);
  add_number(&all, 1, 2);
  add_control(&all, 0, &report, sizeof report);
  save("fuzz_links", "all", all.bytes, all.length);
}

/* Colors, keys and ports of the other ranks: a child of this rank alone, of all ranks, a rank that cannot listen. */
static void save_splits(void) {
  static const char *const names[] = {"alone", "all", "deaf"};
  for (unsigned which = 0; which < 3; which++) {
    seed made = {.length = 0};
    add_byte(&made, which);
    add_byte(&made, 1); /* color 0 */
    add_byte(&made, 5);
    for (unsigned other = 0; other < 2; other++) {
      add_number(&made, which == 0, 4);
      add_number(&made, 7 - other, 4);
      add_number(&made, 25000 + other, 2);
      add_byte(&made, which == 2 && other == 1);
    }
    save("fuzz_split", names[which], made.bytes, made.length);
  }
}

/* ---- Record batches ---------------------------------------------------------------------------- */

enum { VALIDITY = 1, OFFSETS = 16 }; /* bytes of a buffer that is one */

/* A record batch of three rows, of which the second is null in every column, as Spark writes it.
 * `asked` are the kinds of the columns, as the target reads them. A list column has two nodes. */
static void save_batch(const char *name, const char *asked, int nodes, const uint8_t *sizes,
                       int buffers) {
  static const uint8_t head[] = {16, 0, 12, 20, 18, 16, 4,  8,  12, 0,  32, 0, 0, 0, 0, 0,  3,
                                 4,  0, 0,  10, 20, 4,  12, 16, 0,  12, 0,  3, 0, 0, 0, 12, 0};
  seed made = {.length = 0};
  int end = 0;
  add(&made, asked, strlen(asked));
  add_number(&made, 0xff00, 2); /* from the first row to the last */
  add_number(&made, UINT32_MAX, 4);
  add_number(&made, 88 + 16 * (uint64_t)(nodes + buffers), 4);
  for (size_t i = 0; i < sizeof head; i++) add_number(&made, head[i], 2);
  add_number(&made, 16 + 16 * (uint64_t)nodes, 8); /* where the buffers are */
  add_number(&made, (uint64_t)nodes, 4);
  for (int i = 0; i < nodes; i++) {
    add_number(&made, 3, 8);
    add_number(&made, 1, 8);
  }
  add_number(&made, 0, 4);
  add_number(&made, (uint64_t)buffers, 4);
  for (int i = 0; i < buffers; end += (sizes[i++] + 7) / 8 * 8) {
    add_number(&made, (uint64_t)end, 8);
    add_number(&made, sizes[i], 8);
  }
  for (int i = 0; i < buffers; i++) {
    seed buffer = {.length = 0};
    if (sizes[i] == VALIDITY) add_byte(&buffer, 5);
    if (sizes[i] == OFFSETS) add(&buffer, "\0\0\0\0\1\0\0\0\1\0\0\0\3", 13);
    add(&made, buffer.bytes, (size_t)(sizes[i] + 7) / 8 * 8);
  }
  save("fuzz_record_batch", name, made.bytes, made.length);
}

static void save_batches(void) {
  static const uint8_t fixed[] = {VALIDITY, 24, VALIDITY, 12, VALIDITY, 2, VALIDITY, 24};
  static const uint8_t variable[] = {VALIDITY, OFFSETS,  3,       VALIDITY, OFFSETS,
                                     3,        VALIDITY, OFFSETS, VALIDITY, 24};
  static const uint8_t strings[] = {VALIDITY, OFFSETS, VALIDITY, OFFSETS, 3};
  save_batch("fixed", "\3\16\1\2\5", 4, fixed, 8);     /* d i l t */
  save_batch("variable", "\2\3\6\7", 4, variable, 10); /* c r [d */
  save_batch("strings", "\4\x0b", 2, strings, 5);      /* [c */
}

int main(int count, char **arguments) {
  if (count != 2) {
    fprintf(stderr, "usage: fuzz_seeds FOLDER\n");
    return 2;
  }
  folder = arguments[1];
  mkdir(folder, 0777);
  save_texts();
  save_frames();
  save_messages();
  save_pmi();
  save_pmix();
  save_notices();
  save_joining();
  save_meeting();
  save_exchange();
  save_handshakes();
  save_streams();
  save_gathered();
  save_reducer();
  save_envelopes();
  save_device();
  save_hub();
  save_links();
  save_splits();
  save_batches();
  return 0;
}
