/* SPDX-License-Identifier: Apache-2.0
 *
 * Allreduce over ranks that share hosts, in three parts that flow into each other. The buffer is
 * cut into shards. On every host shard s has a driver, the rank of place s there: all ranks of the
 * host send it their piece, and it adds them up. The drivers of a shard, one a host, reduce it
 * across the hosts, by a ring or by recursive doubling, and each gives the result to its host.
 *
 * Hosts may differ in ranks. There are as many shards as the smallest host has ranks, so that each
 * host has a driver for each; ranks of higher places only give and get. More shards would save no
 * traffic between hosts, since all hosts send the same in any case. But a driver keeps what every
 * rank of its host sends it, so where one host is far smaller than the others it needs much memory.
 *
 * A driver adds what comes from the next place of its host first, and so on around; across hosts
 * the order depends on the hosts alone. So each element is reduced once, in one order, or, by
 * doubling, by all drivers alike. In place, what overwrites an input contains it already; only in
 * doubling, and only a rank alone on its host, has to wait until its input was sent.
 */
#include <stdlib.h>

#include "schedule_build.h"

/* In elements. Shorter shards cost more in messages than they save in time on the links. */
#define HIERARCHICAL_SHARD UINT64_C(1024)
/* What a driver sends in the time that a message takes to the other host: 20 us of an eighth of an
 * interface of 100 Gbit/s, as float32. */
#define HIERARCHICAL_LATENCY UINT64_C(8192)
/* Longer vectors are as good as infinite: their products with hosts and rounds fit 64 bits. */
#define HIERARCHICAL_LONG (UINT64_C(1) << 36)

/* Hosts are numbered in the order of their labels, places in the order of ranks. */
typedef struct hierarchical {
  ring_schedule *schedule;
  ring_hierarchy shape;
  bool widen, drives;
  int hosts, host, places, place;
  int *here;    /* by place: the ranks of this host */
  int *drivers; /* by host: its rank of this place */
  int *ranks;   /* by host: how many */
  uint64_t count;
  uint64_t begin, length;             /* of this rank's shard */
  uint64_t sum, came, result;         /* in scratch, behind what comes from this host */
  int32_t heard, local;               /* lanes: the first from another host, and the combines */
  int inside, rounds, partner, folds; /* doubling among hosts; folds: 1 with a partner */
} hierarchical;

static void hierarchical_send(const hierarchical *h, ring_space space, uint64_t from,
                              uint64_t count, int32_t after, uint64_t mark) {
  ring_schedule_step(h->schedule, (ring_step){.op = RING_STEP_SEND,
                                              .source = (uint8_t)space,
                                              .after = after,
                                              .mark = mark,
                                              .from = from,
                                              .count = count});
}

static void hierarchical_receive(const hierarchical *h, ring_space space, uint64_t to,
                                 uint64_t count, bool wide) {
  ring_schedule_step(h->schedule, (ring_step){.op = RING_STEP_RECV,
                                              .destination = (uint8_t)space,
                                              .flags = h->widen && wide ? RING_STEP_WIDE : 0,
                                              .after = RING_STEP_FREE,
                                              .to = to,
                                              .count = count});
}

/* Adds a combine, of which all but op, destination and flags of widths are given. */
static void hierarchical_combine(const hierarchical *h, ring_step step, bool source_wide, bool wide,
                                 bool last) {
  step.op = RING_STEP_COMBINE;
  step.destination = last ? RING_SPACE_OUTPUT : RING_SPACE_SCRATCH;
  if (h->widen && source_wide) step.flags |= RING_STEP_SOURCE_WIDE;
  if (h->widen && wide) step.flags |= RING_STEP_WIDE;
  if (last) step.flags |= RING_STEP_LAST;
  ring_schedule_step(h->schedule, step);
}

/* ---- Who is where ------------------------------------------------------------------------- */

/* `work` has room for four numbers a rank. */
static void hierarchical_survey(hierarchical *h, int rank, int size, const int *node, int *work) {
  int *number = work + 3 * (size_t)size; /* of the host with a label, plus one */
  h->here = work;
  h->drivers = work + size;
  h->ranks = work + 2 * (size_t)size;
  for (int i = 0; i < size; i++) number[node[i]] = 1;
  for (int label = 0; label < size; label++)
    if (number[label] > 0) number[label] = h->hosts++;
  h->host = number[node[rank]];
  for (int i = 0; i < rank; i++) h->place += node[i] == node[rank];
  for (int i = 0; i < size; i++) {
    int host = number[node[i]], place = h->ranks[host]++;
    if (host == h->host) h->here[place] = i;
    if (place == h->place) h->drivers[host] = i;
  }
  h->places = h->ranks[h->host];
}

static int hierarchical_smallest(const hierarchical *h) {
  int smallest = h->places;
  for (int host = 0; host < h->hosts; host++)
    if (h->ranks[host] < smallest) smallest = h->ranks[host];
  return smallest;
}

/* Whether a ring takes less time. Doubling's rounds, two more where hosts are folded, send all of a
 * shard one after the other; a ring's parts are under way while others wait, so that either its
 * rounds or its traffic tell. In integers, so that all ranks find the same. */
static bool hierarchical_rings(uint64_t count, uint64_t shards, uint64_t hosts) {
  uint64_t folds = (hosts & (hosts - 1)) != 0 ? 1 : 0, rounds = 2 * (hosts - 1);
  uint64_t doubling = (uint64_t)schedule_rounds((int)hosts) + folds;
  uint64_t all = count < HIERARCHICAL_LONG ? count : HIERARCHICAL_LONG;
  uint64_t latency = HIERARCHICAL_LATENCY * shards; /* times are in elements of all shards */
  uint64_t one = latency * hosts, waiting = rounds * one, traffic = rounds * all; /* by host */
  return doubling * (one + all * hosts) > one + (waiting > traffic ? waiting : traffic);
}

ring_hierarchy ring_hierarchy_choose(uint64_t count, int hosts, int smallest) {
  uint64_t most = count / HIERARCHICAL_SHARD;
  ring_hierarchy shape = {.shards = most < (uint64_t)smallest ? (int)most : smallest};
  if (shape.shards == 0) shape.shards = 1;
  shape.ring = hosts > 1 && hierarchical_rings(count, (uint64_t)shape.shards, (uint64_t)hosts);
  return shape;
}

static void hierarchical_choose(hierarchical *h) {
  int smallest = hierarchical_smallest(h);
  if (h->shape.shards == 0) h->shape = ring_hierarchy_choose(h->count, h->hosts, smallest);
  if (h->shape.shards > smallest) h->shape.shards = smallest;
  if (h->hosts == 1) h->shape.ring = false;
}

/* Where a shard begins; and its length. */
static uint64_t hierarchical_shard(const hierarchical *h, int shard, uint64_t *length) {
  *length = schedule_share_count(h->count, h->shape.shards, shard);
  return schedule_share_begin(h->count, h->shape.shards, shard);
}

/* ---- Within a host ------------------------------------------------------------------------ */

/* Where the sum of this host lies: a rank alone there adds nothing up. */
static ring_space hierarchical_sum_space(const hierarchical *h) {
  return h->places > 1 ? RING_SPACE_SCRATCH : RING_SPACE_INPUT;
}

static uint64_t hierarchical_sum(const hierarchical *h) {
  return h->places > 1 ? h->sum : h->begin;
}

static void hierarchical_send_sum(const hierarchical *h, uint64_t offset, uint64_t count) {
  bool adds = h->places > 1;
  uint64_t mark = adds ? (uint64_t)(h->places - 2) * (count + 1) : 0;
  hierarchical_send(h, hierarchical_sum_space(h), hierarchical_sum(h) + offset, count,
                    adds ? h->local : RING_STEP_FREE, mark);
}

/* The combines' watermark when all ranks of this host are added up. */
static uint64_t hierarchical_added(const hierarchical *h) {
  return (uint64_t)(h->places - 1) * (h->length + 1);
}

/* Pieces. For a ring across the hosts a shard is cut into one part a host. It is given and added up
 * in the order in which this host's rounds need it: the own part, which round 0 sends, then what
 * comes in each round. Its result goes around the host as the ring completes it. */
static int hierarchical_pieces(const hierarchical *h) {
  return h->shape.ring ? h->hosts : 1;
}

static uint64_t hierarchical_given(const hierarchical *h, uint64_t shard, int piece,
                                   uint64_t *length) {
  int pieces = hierarchical_pieces(h), part = schedule_wrap(h->host - piece, pieces);
  *length = schedule_share_count(shard, pieces, part);
  return schedule_share_begin(shard, pieces, part);
}

/* The elements of so many pieces of the own shard, and their steps; the last is followed by the
 * first. */
static uint64_t hierarchical_mark(const hierarchical *h, int pieces) {
  int top = h->host + 1, rest = pieces % h->hosts, bottom = schedule_wrap(top - rest, h->hosts);
  uint64_t around = h->length * (uint64_t)(pieces / h->hosts) + (uint64_t)pieces;
  if (rest == 0) return around;
  if (rest > top) around += h->length;
  return around + schedule_share_begin(h->length, h->hosts, top) -
         schedule_share_begin(h->length, h->hosts, bottom);
}

static void hierarchical_add_up(const hierarchical *h, int piece) {
  uint64_t length, offset = hierarchical_given(h, h->length, piece, &length);
  for (int away = 1; away < h->places; away++) {
    bool first = away == 1, last = away == h->places - 1 && h->hosts == 1;
    ring_step step = {.source = first ? RING_SPACE_INPUT : RING_SPACE_SCRATCH,
                      .after = away - 1,
                      .mark = hierarchical_mark(h, piece),
                      .from = (first ? h->begin : h->sum) + offset,
                      .to = (last ? h->begin : h->sum) + offset,
                      .with = (uint64_t)(away - 1) * h->length + offset,
                      .count = length};
    hierarchical_combine(h, step, !first, false, last);
  }
}

static uint64_t hierarchical_piece(const hierarchical *h, uint64_t shard, int piece,
                                   uint64_t *length) {
  int pieces = hierarchical_pieces(h), part = schedule_wrap(h->host + 1 - piece, pieces);
  *length = schedule_share_count(shard, pieces, part);
  return schedule_share_begin(shard, pieces, part);
}

static void hierarchical_receive_here(const hierarchical *h) {
  for (int away = 1; away < h->places; away++) {
    int place = schedule_wrap(h->place + away, h->places);
    bool gives = place < h->shape.shards;
    if (!h->drives && !gives) continue;
    ring_schedule_lane(h->schedule, RING_LANE_RECV, h->here[place]);
    uint64_t shard, piece, slot = (uint64_t)(away - 1) * h->length;
    for (int i = 0; h->drives && i < hierarchical_pieces(h); i++) {
      uint64_t offset = hierarchical_given(h, h->length, i, &piece);
      hierarchical_receive(h, RING_SPACE_SCRATCH, slot + offset, piece, false);
    }
    if (!gives) continue;
    uint64_t begin = hierarchical_shard(h, place, &shard);
    for (int i = 0; i < hierarchical_pieces(h); i++) {
      uint64_t offset = hierarchical_piece(h, shard, i, &piece);
      hierarchical_receive(h, RING_SPACE_OUTPUT, begin + offset, piece, false);
    }
  }
}

static void hierarchical_send_result(const hierarchical *h);

static void hierarchical_send_here(const hierarchical *h) {
  for (int away = 1; away < h->places; away++) {
    int place = schedule_wrap(h->place - away, h->places);
    bool takes = place < h->shape.shards;
    if (!h->drives && !takes) continue;
    ring_schedule_lane(h->schedule, RING_LANE_SEND, h->here[place]);
    uint64_t shard, piece, begin = hierarchical_shard(h, place, &shard);
    for (int i = 0; takes && i < hierarchical_pieces(h); i++) {
      uint64_t offset = hierarchical_given(h, shard, i, &piece);
      hierarchical_send(h, RING_SPACE_INPUT, begin + offset, piece, RING_STEP_FREE, 0);
    }
    if (h->drives) hierarchical_send_result(h);
  }
}

/* ---- Across hosts: a ring ----------------------------------------------------------------- */

/* Round s brings part host-1-s of the shard, first to be reduced, then complete. */
static uint64_t hierarchical_part(const hierarchical *h, int round, uint64_t *length) {
  int part = schedule_wrap(h->host - 1 - round, h->hosts);
  *length = schedule_share_count(h->length, h->hosts, part);
  return schedule_share_begin(h->length, h->hosts, part);
}

/* The watermark before a round: all parts but the own that came before. */
static uint64_t hierarchical_ring_mark(const hierarchical *h, int round) {
  return hierarchical_mark(h, round + 1) - hierarchical_mark(h, 1);
}

static void hierarchical_ring_receives(const hierarchical *h) {
  int previous = schedule_wrap(h->host - 1, h->hosts);
  ring_schedule_lane(h->schedule, RING_LANE_RECV, h->drivers[previous]);
  for (int s = 0; s < 2 * (h->hosts - 1); s++) {
    uint64_t length, offset = hierarchical_part(h, s, &length);
    if (s < h->hosts - 1)
      hierarchical_receive(h, RING_SPACE_SCRATCH, h->came + offset, length,
                           s > 0 || h->ranks[previous] > 1);
    else
      hierarchical_receive(h, RING_SPACE_OUTPUT, h->begin + offset, length, false);
  }
}

/* The combines' watermark before what a round brings is combined: piece 0 and those of all rounds
 * so far have been added up. */
static uint64_t hierarchical_ring_before(const hierarchical *h, int round) {
  return (uint64_t)(h->places - 1) * hierarchical_mark(h, round + 2) +
         hierarchical_ring_mark(h, round);
}

static void hierarchical_ring_combines(const hierarchical *h) {
  int previous = schedule_wrap(h->host - 1, h->hosts);
  hierarchical_add_up(h, 0);
  for (int s = 0; s < h->hosts - 1; s++) {
    hierarchical_add_up(h, s + 1);
    bool last = s == h->hosts - 2;
    uint64_t length, offset = hierarchical_part(h, s, &length);
    ring_step step = {.source = (uint8_t)hierarchical_sum_space(h),
                      .after = h->heard,
                      .mark = hierarchical_ring_mark(h, s),
                      .from = hierarchical_sum(h) + offset,
                      .to = (last ? h->begin : h->sum) + offset,
                      .with = h->came + offset,
                      .count = length};
    hierarchical_combine(h, step, h->places > 1, s > 0 || h->ranks[previous] > 1, last);
  }
}

/* Sends what a round brought, as it was combined or as it came; first of all, this host's sum. */
static void hierarchical_ring_send(const hierarchical *h, int round) {
  uint64_t length, offset = hierarchical_part(h, round, &length);
  if (round < 0) {
    hierarchical_send_sum(h, offset, length);
    return;
  }
  if (round < h->hosts - 2)
    hierarchical_send(h, RING_SPACE_SCRATCH, h->sum + offset, length, h->local,
                      hierarchical_ring_before(h, round));
  else if (round == h->hosts - 2)
    hierarchical_send(h, RING_SPACE_OUTPUT, h->begin + offset, length, h->local,
                      hierarchical_ring_before(h, round));
  else
    hierarchical_send(h, RING_SPACE_OUTPUT, h->begin + offset, length, h->heard,
                      hierarchical_ring_mark(h, round));
}

static void hierarchical_ring_sends(const hierarchical *h) {
  ring_schedule_lane(h->schedule, RING_LANE_SEND, h->drivers[schedule_wrap(h->host + 1, h->hosts)]);
  for (int s = 0; s < 2 * (h->hosts - 1); s++) hierarchical_ring_send(h, s - 1);
}

/* ---- Across hosts: doubling --------------------------------------------------------------- */

/* As in schedule_doubling.c, among hosts: exchange e is the fold, if there is one, then the rounds.
 * It receives at `came`, and leaves its result at `result`, e shards on; the last in the output. */
static void hierarchical_pair(hierarchical *h) {
  h->inside = 1;
  while (h->inside <= h->hosts / 2) {
    h->inside *= 2;
    h->rounds++;
  }
  h->partner = h->host >= h->inside ? h->host - h->inside : h->host + h->inside;
  h->folds = h->partner < h->hosts;
}

static bool hierarchical_folded(const hierarchical *h) {
  return h->host >= h->inside;
}

static int hierarchical_exchanges(const hierarchical *h) {
  return hierarchical_folded(h) ? 1 : h->rounds + h->folds;
}

static int hierarchical_peer(const hierarchical *h, int exchange) {
  return exchange < h->folds ? h->partner : h->host ^ (1 << (exchange - h->folds));
}

/* Whether what the other host sends in an exchange was combined from several ranks' inputs. */
static bool hierarchical_combined(const hierarchical *h, int exchange) {
  int peer = hierarchical_peer(h, exchange);
  if (h->ranks[peer] > 1 || exchange > h->folds) return true;
  return exchange == h->folds && peer + h->inside < h->hosts;
}

static void hierarchical_doubling_receives(const hierarchical *h) {
  for (int e = 0; e < hierarchical_exchanges(h); e++) {
    ring_schedule_lane(h->schedule, RING_LANE_RECV, h->drivers[hierarchical_peer(h, e)]);
    if (hierarchical_folded(h))
      hierarchical_receive(h, RING_SPACE_OUTPUT, h->begin, h->length, false);
    else
      hierarchical_receive(h, RING_SPACE_SCRATCH, h->came + (uint64_t)e * h->length, h->length,
                           hierarchical_combined(h, e));
  }
}

/* The combines' watermark before that of an exchange. */
static uint64_t hierarchical_before(const hierarchical *h, int exchange) {
  bool waits = exchange == hierarchical_exchanges(h) - 1 && h->places == 1 && !h->folds;
  return hierarchical_added(h) + (uint64_t)exchange * (h->length + 1) + (waits ? 1 : 0);
}

static void hierarchical_doubling_combines(const hierarchical *h) {
  int exchanges = hierarchical_folded(h) ? 0 : hierarchical_exchanges(h);
  for (int e = 0; e < exchanges; e++) {
    bool first = e == 0, last = e == exchanges - 1;
    uint64_t before = h->result + (uint64_t)(e - 1) * h->length;
    ring_step step = {.source = first ? (uint8_t)hierarchical_sum_space(h) : RING_SPACE_SCRATCH,
                      .flags = hierarchical_peer(h, e) < h->host ? RING_STEP_SWAPPED : 0,
                      .after = h->heard + e,
                      .from = first ? hierarchical_sum(h) : before,
                      .to = last ? h->begin : h->result + (uint64_t)e * h->length,
                      .with = h->came + (uint64_t)e * h->length,
                      .count = h->length};
    /* An input that was sent as it is has to have left before, in place, it is overwritten. */
    if (last && h->places == 1 && !h->folds)
      ring_schedule_fence(h->schedule, h->local + 1, h->length + 1);
    hierarchical_combine(h, step, !first || h->places > 1, hierarchical_combined(h, e), last);
  }
}

static void hierarchical_doubling_sends(const hierarchical *h) {
  int exchanges = hierarchical_exchanges(h);
  for (int e = hierarchical_folded(h) ? 0 : h->folds; e < exchanges; e++) {
    ring_schedule_lane(h->schedule, RING_LANE_SEND, h->drivers[hierarchical_peer(h, e)]);
    if (e == 0)
      hierarchical_send_sum(h, 0, h->length);
    else
      hierarchical_send(h, RING_SPACE_SCRATCH, h->result + (uint64_t)(e - 1) * h->length, h->length,
                        h->local, hierarchical_before(h, e - 1));
  }
  if (hierarchical_folded(h) || !h->folds) return;
  ring_schedule_lane(h->schedule, RING_LANE_SEND, h->drivers[h->partner]);
  hierarchical_send(h, RING_SPACE_OUTPUT, h->begin, h->length, h->local,
                    hierarchical_before(h, exchanges - 1));
}

/* ---- Together ----------------------------------------------------------------------------- */

static void hierarchical_send_result(const hierarchical *h) {
  if (h->hosts == 1) {
    hierarchical_send(h, RING_SPACE_OUTPUT, h->begin, h->length, h->local,
                      hierarchical_added(h) - h->length - 1);
  } else if (h->shape.ring) {
    for (int s = h->hosts - 2; s < 2 * (h->hosts - 1); s++) hierarchical_ring_send(h, s);
  } else if (hierarchical_folded(h)) {
    hierarchical_send(h, RING_SPACE_OUTPUT, h->begin, h->length, h->heard, 0);
  } else {
    hierarchical_send(h, RING_SPACE_OUTPUT, h->begin, h->length, h->local,
                      hierarchical_before(h, hierarchical_exchanges(h) - 1));
  }
}

static void hierarchical_drive(hierarchical *h) {
  uint64_t others = (uint64_t)(h->places - 1);
  h->sum = others * h->length;
  h->came = h->sum + h->length;
  h->heard = (int32_t)h->schedule->lane_count;
  bool across = h->hosts > 1, ring = h->shape.ring;
  if (across && ring) hierarchical_ring_receives(h);
  if (across && !ring) hierarchical_doubling_receives(h);
  uint64_t exchanges = ring ? 1 : (uint64_t)hierarchical_exchanges(h);
  h->result = h->came + exchanges * h->length;
  h->schedule->scratch = h->result + (ring ? 0 : exchanges * h->length);
  bool idle = h->places == 1 && !ring && hierarchical_folded(h);
  if (!idle) h->local = ring_schedule_lane(h->schedule, RING_LANE_LOCAL, -1);
  if (!ring) hierarchical_add_up(h, 0);
  if (across && ring) hierarchical_ring_combines(h);
  if (across && !ring) hierarchical_doubling_combines(h);
  if (across && ring) hierarchical_ring_sends(h);
  if (across && !ring) hierarchical_doubling_sends(h);
}

static ring_status hierarchical_build(hierarchical *h) {
  size_t others = (size_t)(h->places - 1), hosts = (size_t)h->hosts;
  size_t lanes = 2 * others + (h->shape.ring ? 3 : 2 * (size_t)h->rounds + 4);
  size_t steps = 5 * others * (size_t)hierarchical_pieces(h);
  steps += h->shape.ring ? 5 * hosts : 3 * (size_t)h->rounds + 6;
  ring_status status = ring_schedule_reserve(h->schedule, lanes, steps);
  if (status != RING_OK) return status;
  hierarchical_receive_here(h);
  if (h->drives) hierarchical_drive(h);
  hierarchical_send_here(h);
  return RING_OK;
}

ring_status ring_schedule_allreduce_hierarchical(ring_schedule *schedule, int rank, int size,
                                                 const int *node, uint64_t count, bool widen,
                                                 ring_hierarchy shape) {
  if (size == 1) {
    ring_status status = ring_schedule_reserve(schedule, 1, 1);
    if (status == RING_OK) ring_schedule_copy_lane(schedule, 0, 0, count);
    return status;
  }
  int *work = calloc(4 * (size_t)size, sizeof *work);
  if (work == NULL) return RING_NO_MEMORY;
  hierarchical h = {.schedule = schedule, .shape = shape, .widen = widen, .count = count};
  hierarchical_survey(&h, rank, size, node, work);
  hierarchical_choose(&h);
  h.drives = h.place < h.shape.shards;
  if (h.drives) h.begin = hierarchical_shard(&h, h.place, &h.length);
  if (!h.shape.ring) hierarchical_pair(&h);
  ring_status status = hierarchical_build(&h);
  free(work);
  return status;
}
