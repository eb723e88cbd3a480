/* SPDX-License-Identifier: Apache-2.0
 *
 * Seeds of links: frames, messages, wait reports, streams, the hub of a device.
 */
#include "base/checksum.h"
#include "peers/frame.h"
#include "peers/wait_report.h"
#include "seeds.h"
#include "shrink/generation.h"

static void add_frame(seed *to, uint8_t kind, const void *payload, uint32_t length,
                      ring_call call) {
  ring_frame frame = {
      .kind = kind, .length = length, .call = call, .check = ring_checksum(payload, length)};
  ring_frame_pack(&frame, to->bytes + to->length);
  to->length += RING_HEADER_BYTES;
}

/* A broadcast of 40 int8 from rank 0 to rank 1, and the same with a failure in its place. */
static void save_frames(void) {
  static const char why[] = "rank 0 (a) aborted the communicator";
  static const uint8_t zeros[40];
  ring_call call = {.collective = RING_COLLECTIVE_BROADCAST, .sequence = 1, .count = 40};
  seed good = {.length = 0}, bad = {.length = 0}, data = {.length = 0}, fail_note = {.length = 0};
  add_frame(&data, RING_FRAME_DATA, zeros, sizeof zeros, call);
  seed_save("fuzz_frame", "data", data.bytes, data.length);
  seed_add(&data, zeros, sizeof zeros);
  add_frame(&fail_note, RING_FRAME_FAIL, why, sizeof why - 1,
            (ring_call){.op = RING_ABORTED, .root = 0});
  seed_save("fuzz_frame", "fail", fail_note.bytes, fail_note.length);
  seed_add(&fail_note, why, sizeof why - 1);
  seed_add_number(&good, 0x080101, 3); /* twice a broadcast; rank 1 of 2 */
  seed_add_piece(&good, &data);
  seed_save("fuzz_link", "broadcast", good.bytes, good.length);
  good.bytes[2] =
      0x48; /* over two connections, the second one silent; over TLS, where it is nonsense */
  seed_save("fuzz_link", "connections", good.bytes, good.length);
  good.bytes[2] = 0x88;
  seed_save("fuzz_link", "tls", good.bytes, good.length);
  seed_add_number(&bad, 0x080101, 3);
  seed_add_piece(&bad, &fail_note);
  seed_save("fuzz_link", "failure", bad.bytes, bad.length);
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
  seed_save("fuzz_messages", "some", fields, sizeof fields);
}

/* A call as a wait report has it. */
static void add_call(seed *to, const ring_call *call) {
  seed_add_number(to, call->collective, 1);
  seed_add_number(to, call->op, 1);
  seed_add_number(to, call->dtype, 1);
  seed_add_number(to, call->sequence, 4);
  seed_add_number(to, (uint32_t)call->root, 4);
  seed_add_number(to, call->count, 8);
  seed_add_number(to, call->digest, 8);
}

/* The sender waits in a call, for ranks whose last reports came from the same one. */
static void add_notice(seed *to, const ring_call *call, unsigned first, unsigned count) {
  seed made = {.length = 0};
  add_call(&made, call);
  seed_add_number(&made, count, 4);
  seed_add_number(&made, 900, 4); /* ms */
  for (unsigned i = 0; i < count; i++) {
    seed_add_number(&made, first + i, 4);
    seed_add_number(&made, i, 4); /* steps */
    seed_add_number(&made, RING_SUSPECT_WAITS | RING_SUSPECT_NEEDED, 1);
    add_call(&made, call);
  }
  seed_add_piece(to, &made);
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
    seed_add_byte(&made, cases[i].which);
    seed_add_byte(&made, 2 + 1 * 8); /* size 4, rank 1 */
    for (unsigned other = 0; other < 3; other++) {
      seed_add_byte(&made, 2);   /* wait reports */
      seed_add_byte(&made, 100); /* bytes of them that have come */
      add_notice(&made, &cases[i].call, other, 2);
      add_notice(&made, &cases[i].call, 1, 1);
    }
    seed_save("fuzz_wait_report", cases[i].name, made.bytes, made.length);
  }
}

/* Both send and receive, in every kind of link. */
static void save_streams(void) {
  static const uint8_t acts[] = {0,  20, 0, 1,  90, 0, 28, 90, 0, 13, 20, 0,
                                 16, 90, 0, 14, 0,  8, 5,  90, 0, 28, 90, 0};
  char name[2] = "0";
  for (unsigned shape = 0; shape < 6; shape++, name[0]++) {
    seed made = {.length = 0};
    seed_add_byte(&made, shape);
    seed_add_byte(&made, shape * 8);
    seed_add(&made, acts, sizeof acts);
    seed_save("fuzz_stream", name, made.bytes, made.length);
  }
}

/* A rank is late, and is asked; a report of each rank; a report of this rank that another has made. */
static void save_device(void) {
  seed late = {.length = 0}, report = {.length = 0}, forged = {.length = 0};
  const ring_call call = {.collective = RING_COLLECTIVE_ALLREDUCE, .sequence = 3, .count = 8};
  seed_add_byte(&late, 0); /* the hub of rank 0 */
  seed_add_byte(&late, 3);
  for (unsigned kind = 2; kind <= 5; kind++) {
    seed_add_byte(&late, 4 * kind);
    seed_add_byte(&late, kind);
    seed_add_number(&late, 1500, 8);
    late.length = (size_t)(ring_call_pack(&call, late.bytes + late.length) - late.bytes);
    late.length += 40 - 36;
  }
  seed_save("fuzz_device", "hub", late.bytes, late.length);
  seed_add_byte(&report, 1 + 4); /* the open of rank 2 */
  seed_add_byte(&report, 0);
  for (int rank = 0; rank < 2; rank++) {
    seed_add_number(&report, 0, 4);
    seed_add_number(&report, 22300, 4);
    report.length += 256;
    seed_add(&report, "no NCCL", 7);
    report.length += 256 - 7 + 256;
  }
  seed_save("fuzz_device", "open", report.bytes, report.length);
  seed_add_byte(&forged, 1 + 2); /* the open of rank 1 */
  seed_add_byte(&forged, 0);
  forged.length += 8 + 3 * 256; /* rank 0 has all */
  seed_add_byte(&forged, 7);    /* as this one, which has not */
  seed_save("fuzz_device", "forged", forged.bytes, forged.length);
}

/* A generation as rank 1 sends it to rank 0, or rank 0 to rank 1, of four. */
static void save_shrink(void) {
  for (int rank = 0; rank < 2; rank++) {
    uint8_t message[64];
    ring_peers peers = {0};
    seed made = {.length = 0}, piece = {.length = 0}, none = {.length = 0};
    if (ring_peers_init(&peers, 1 - rank, 4) != RING_OK) seed_fail("peers");
    for (int other = 0; other < 4; other++)
      if (ring_peers_place(&peers, other, "fuzz", 4242) != RING_OK) seed_fail("places");
    ring_roster *roster = ring_roster_make(&peers);
    ring_generation_kind kind = rank == 0 ? RING_GENERATION_STATE : RING_GENERATION_FORM;
    if (roster != NULL) roster->generation.number = (uint32_t)rank;
    if (roster == NULL || !ring_generation_pack(roster, kind, rank, message))
      seed_fail("a generation");
    seed_add(&piece, message, ring_generation_message_bytes(&peers));
    seed_add_byte(&made, (unsigned)rank);
    seed_add_byte(&made, 1u << (1 - rank));
    seed_add_piece(&made, &piece);
    seed_add_piece(&made, &none);
    seed_save("fuzz_shrink", rank == 0 ? "state" : "form", made.bytes, made.length);
    ring_roster_free(roster);
    ring_peers_fini(&peers);
  }
}

void seeds_links(void) {
  save_frames();
  save_messages();
  save_notices();
  save_streams();
  save_device();
  save_shrink();
}
