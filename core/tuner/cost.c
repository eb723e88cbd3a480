/* SPDX-License-Identifier: Apache-2.0 */
#include "tuner/cost.h"

#include "base/bytes.h"
#include "schedule/builder.h"
#include "tuner/cost_table.h"

typedef struct cost_tier {
  const char *name;
  uint64_t latency, message, busy; /* ps */
  uint64_t path, shared, reduce;   /* ps a byte */
} cost_tier;

static const cost_tier cost_tiers[] = {
#define COST_TIER(tier, name, latency, message, busy, path, shared, reduce)                        \
  [RING_TIER_##tier] = {name,                                                                      \
                        UINT64_C(1000) * latency,                                                  \
                        UINT64_C(1000) * message,                                                  \
                        UINT64_C(1000) * busy,                                                     \
                        path,                                                                      \
                        shared,                                                                    \
                        reduce},
    RING_COST_TIER_MAP(COST_TIER)
#undef COST_TIER
};

/* The distance of an algorithm from the numbers of its tier, in percent; 0 stands for 100. */
typedef struct cost_row {
  uint16_t messages, bytes;
} cost_row;

enum {
  COST_TIERS = sizeof cost_tiers / sizeof cost_tiers[0],
  COST_COLLECTIVES = RING_COLLECTIVE_LAST + 1
};

static const cost_row cost_rows[COST_TIERS][COST_COLLECTIVES][RING_ALGORITHMS] = {
#define COST_ROW(tier, collective, algorithm, messages, bytes)                                     \
  [RING_TIER_##tier][RING_COLLECTIVE_##collective][RING_ALGORITHM_##algorithm] = {messages, bytes},
    RING_COST_ROW_MAP(COST_ROW)
#undef COST_ROW
};

const char *ring_tier_name(ring_tier tier) {
  return cost_tiers[tier].name;
}

/* ---- Arithmetic that ends at UINT64_MAX ----------------------------------------------------- */

static uint64_t cost_times(uint64_t a, uint64_t b) {
  uint64_t product;
  return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

static uint64_t cost_plus(uint64_t a, uint64_t b) {
  uint64_t sum;
  return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

/* bytes * of / parts, rounded up to whole parts. */
static uint64_t cost_share(uint64_t bytes, uint64_t of, uint64_t parts) {
  return cost_times(bytes / parts + (bytes % parts > 0 ? 1 : 0), of);
}

/* ---- Effort ------------------------------------------------------------------------------- */

/* The sum of the sizes of all subtrees below the root. Subtrees of places whose lowest set bit
 * is 2^k have 2^k ranks, except that the last one may end early. */
static uint64_t cost_subtrees(uint64_t size) {
  uint64_t sum = 0;
  for (uint64_t reach = 1; reach < size; reach *= 2) {
    uint64_t places = (size - 1 - reach) / (2 * reach) + 1;
    uint64_t last = reach + (places - 1) * 2 * reach;
    uint64_t rest = size - last;
    sum += (places - 1) * reach + (rest < reach ? rest : reach);
  }
  return sum;
}

/* The bits set in all numbers below size. */
static uint64_t cost_bits(uint64_t size) {
  uint64_t bits = 0;
  for (uint64_t bit = 1; bit < size; bit *= 2) {
    uint64_t rest = size % (2 * bit);
    bits += size / (2 * bit) * bit + (rest > bit ? rest - bit : 0);
  }
  return bits;
}

static uint64_t cost_rounds(uint64_t size) {
  return (uint64_t)schedule_rounds((int)size);
}

/* The pieces that the root of a gather receives: of each child its part, and the blocks of its
 * children. */
static uint64_t cost_pieces(uint64_t size) {
  uint64_t pieces = 0;
  for (uint64_t reach = 1; reach < size; reach *= 2)
    pieces += 1 + cost_rounds(reach < size - reach ? reach : size - reach);
  return pieces;
}

/* floor(log2 size) */
static uint64_t cost_floor(uint64_t size) {
  return (size & (size - 1)) != 0 ? cost_rounds(size) - 1 : cost_rounds(size);
}

static ring_effort cost_doubling(uint64_t n, uint64_t bytes, bool halving) {
  uint64_t d = cost_floor(n), p = UINT64_C(1) << d;
  uint64_t q = n - p, f = q > 0 ? 1 : 0, fold = f * bytes;
  if (!halving)
    return (ring_effort){.rounds = d + 2 * f,
                         .messages = d + f,
                         .all_messages = p * d + 2 * q,
                         .bytes = cost_times(bytes, d + f),
                         .all_bytes = cost_times(bytes, p * d + 2 * q),
                         .reduced = cost_times(bytes, d + f)};
  uint64_t kept = cost_share(bytes, p - 1, p);
  return (ring_effort){.rounds = 2 * (d + f),
                       .messages = 2 * d + f,
                       .all_messages = 2 * p * d + 2 * q,
                       .bytes = cost_plus(cost_times(kept, 2), fold),
                       .all_bytes = cost_times(bytes, 2 * (p - 1 + q)),
                       .reduced = cost_plus(kept, fold)};
}

static ring_effort cost_allreduce(ring_algorithm algorithm, uint64_t n, uint64_t bytes) {
  uint64_t kept = cost_share(bytes, n - 1, n);
  switch (algorithm) {
  case RING_ALGORITHM_DIRECT:
    return (ring_effort){.rounds = 1,
                         .messages = n - 1,
                         .all_messages = n * (n - 1),
                         .bytes = cost_times(bytes, n - 1),
                         .all_bytes = cost_times(bytes, n * (n - 1)),
                         .reduced = cost_times(bytes, n - 1)};
  case RING_ALGORITHM_DOUBLING:
  case RING_ALGORITHM_HALVING:
    return cost_doubling(n, bytes, algorithm == RING_ALGORITHM_HALVING);
  default:
    return (ring_effort){.rounds = 2 * (n - 1),
                         .messages = 2 * (n - 1),
                         .all_messages = 2 * n * (n - 1),
                         .bytes = cost_times(kept, 2),
                         .all_bytes = cost_times(bytes, 2 * (n - 1)),
                         .reduced = kept};
  }
}

/* The builder of the hierarchy decides its shape. */
ring_nested_effort ring_effort_of_hierarchical(const ring_topology *topology, uint64_t count,
                                               uint64_t bytes) {
  ring_hierarchy shape = ring_hierarchy_choose(count, topology->hosts, topology->smallest);
  uint64_t shards = (uint64_t)shape.shards, hosts = (uint64_t)topology->hosts;
  uint64_t others = (uint64_t)topology->largest - 1, given = 1, results = 1;
  ring_algorithm algorithm = RING_ALGORITHM_DOUBLING;
  if (shape.inter_host == RING_INTER_HOST_RING) {
    algorithm = RING_ALGORITHM_RING;
    given = results = hosts;
  } else if (shape.inter_host == RING_INTER_HOST_HALVING) {
    algorithm = RING_ALGORITHM_HALVING;
    given = 2;
    results = cost_floor(hosts) + 1;
  }
  ring_effort inter_host = cost_allreduce(algorithm, hosts, cost_share(bytes, 1, shards));
  inter_host.all_messages *= shards;
  inter_host.all_bytes = cost_times(inter_host.all_bytes, shards);
  ring_effort inside = {.rounds = 2,
                        .messages = (shards - 1) * given + others * results,
                        .all_messages = shards * others * (given + results),
                        .bytes = cost_share(bytes, shards - 1 + others, shards),
                        .all_bytes = cost_times(bytes, 2 * others),
                        .reduced = cost_share(bytes, others, shards)};
  return (ring_nested_effort){shape.shards, inside, inter_host};
}

/* Broadcast, and reduce, which is its mirror image. */
static ring_effort cost_rooted(ring_algorithm algorithm, uint8_t collective, uint64_t n,
                               uint64_t bytes) {
  bool chain = algorithm == RING_ALGORITHM_CHAIN;
  uint64_t rounds = cost_rounds(n), deep = cost_times(bytes, chain ? 1 : rounds);
  uint64_t chunk = bytes < RING_CHUNK_BYTES ? bytes : RING_CHUNK_BYTES;
  return (ring_effort){.rounds = chain ? n - 1 : rounds,
                       .messages = chain ? 1 : rounds,
                       .all_messages = n - 1,
                       .bytes = chain ? cost_plus(bytes, (n - 2) * chunk) : deep,
                       .all_bytes = cost_times(bytes, n - 1),
                       .reduced = collective == RING_COLLECTIVE_REDUCE ? deep : 0};
}

/* In round k of the doubling all ranks send but the last 2^k. */
static ring_effort cost_scan(ring_algorithm algorithm, uint64_t n, uint64_t bytes) {
  uint64_t rounds = cost_rounds(n), pairs = rounds * n - ((UINT64_C(1) << rounds) - 1);
  uint64_t chunk = bytes < RING_CHUNK_BYTES ? bytes : RING_CHUNK_BYTES;
  if (algorithm == RING_ALGORITHM_CHAIN)
    return (ring_effort){.rounds = n - 1,
                         .messages = 1,
                         .all_messages = n - 1,
                         .bytes = cost_plus(bytes, (n - 2) * chunk),
                         .all_bytes = cost_times(bytes, n - 1),
                         .reduced = bytes};
  return (ring_effort){.rounds = rounds,
                       .messages = rounds,
                       .all_messages = pairs,
                       .bytes = cost_times(bytes, rounds),
                       .all_bytes = cost_times(bytes, pairs),
                       .reduced = cost_times(bytes, rounds)};
}

/* Collectives in which every rank exchanges K/n bytes with every other rank. */
static ring_effort cost_all_to_all(ring_algorithm algorithm, uint8_t collective, uint64_t n,
                                   uint64_t bytes) {
  uint64_t rounds = cost_rounds(n), most = cost_share(bytes, n - 1, n);
  ring_effort effort = {.rounds = algorithm == RING_ALGORITHM_RING ? n - 1 : 1,
                        .messages = n - 1,
                        .all_messages = n * (n - 1),
                        .bytes = most,
                        .all_bytes = cost_times(bytes, n - 1)};
  if (ring_collective_reduces(collective)) effort.reduced = most;
  if (algorithm != RING_ALGORITHM_BRUCK) return effort;
  effort.rounds = effort.messages = rounds;
  effort.all_messages = n * rounds;
  if (collective != RING_COLLECTIVE_ALLTOALL) {
    effort.messages = 2 * rounds - 1;
    effort.all_messages += n - 1 - rounds;
  } else {
    effort.bytes = cost_share(bytes, cost_bits(n), n);
    effort.all_bytes = cost_times(bytes, cost_bits(n));
  }
  return effort;
}

static ring_effort cost_parts(ring_algorithm algorithm, uint64_t n, uint64_t bytes) {
  uint64_t rounds = cost_rounds(n), most = cost_share(bytes, n - 1, n);
  if (algorithm == RING_ALGORITHM_DIRECT)
    return (ring_effort){
        .rounds = 1, .messages = n - 1, .all_messages = n - 1, .bytes = most, .all_bytes = most};
  return (ring_effort){.rounds = rounds,
                       .messages = cost_pieces(n),
                       .all_messages = 2 * (n - 1) - rounds,
                       .bytes = most,
                       .all_bytes = cost_share(bytes, cost_subtrees(n), n)};
}

ring_effort ring_effort_of(ring_algorithm algorithm, uint8_t collective, int size, uint64_t bytes) {
  uint64_t n = (uint64_t)size;
  if (size < 2) return (ring_effort){0};
  switch (collective) {
  case RING_COLLECTIVE_ALLREDUCE:
    return cost_allreduce(algorithm, n, bytes);
  case RING_COLLECTIVE_REDUCE:
  case RING_COLLECTIVE_BROADCAST:
    return cost_rooted(algorithm, collective, n, bytes);
  case RING_COLLECTIVE_SCAN:
  case RING_COLLECTIVE_EXSCAN:
    return cost_scan(algorithm, n, bytes);
  case RING_COLLECTIVE_GATHER:
  case RING_COLLECTIVE_GATHERV:
  case RING_COLLECTIVE_SCATTER:
  case RING_COLLECTIVE_SCATTERV:
    return cost_parts(algorithm, n, bytes);
  case RING_COLLECTIVE_BARRIER:
    return (ring_effort){
        .rounds = cost_rounds(n), .messages = cost_rounds(n), .all_messages = n * cost_rounds(n)};
  default:
    return cost_all_to_all(algorithm, collective, n, bytes);
  }
}

/* ---- Cost --------------------------------------------------------------------------------- */

/* Collectives with counts cost the same as those without. */
static uint8_t cost_even(uint8_t collective) {
  switch (collective) {
  case RING_COLLECTIVE_ALLGATHERV:
    return RING_COLLECTIVE_ALLGATHER;
  case RING_COLLECTIVE_GATHERV:
    return RING_COLLECTIVE_GATHER;
  case RING_COLLECTIVE_SCATTERV:
    return RING_COLLECTIVE_SCATTER;
  case RING_COLLECTIVE_ALLTOALLV:
    return RING_COLLECTIVE_ALLTOALL;
  case RING_COLLECTIVE_REDUCE_SCATTERV:
    return RING_COLLECTIVE_REDUCE_SCATTER;
  default:
    return collective;
  }
}

static uint64_t cost_begun(ring_tier tier, const ring_effort *effort) {
  const cost_tier *row = &cost_tiers[tier];
  uint64_t messages = cost_times(row->latency, effort->rounds);
  messages = cost_plus(messages, cost_times(row->message, effort->messages));
  return cost_plus(messages, cost_times(row->busy, effort->all_messages));
}

static uint64_t cost_moved(ring_tier tier, const ring_effort *effort) {
  const cost_tier *row = &cost_tiers[tier];
  uint64_t moved = cost_times(row->path, effort->bytes);
  moved = cost_plus(moved, cost_times(row->shared, effort->all_bytes));
  return cost_plus(moved, cost_times(row->reduce, effort->reduced));
}

/* Moving takes `least` at least. */
static uint64_t cost_sum(ring_tier tier, ring_algorithm algorithm, uint8_t collective,
                         const ring_effort *effort, uint64_t least) {
  uint64_t messages = cost_begun(tier, effort), moved = cost_moved(tier, effort);
  const cost_row *away = &cost_rows[tier][cost_even(collective)][algorithm];
  if (away->messages > 0) {
    messages = cost_times(messages, away->messages) / 100;
    moved = cost_times(moved, away->bytes) / 100;
  }
  return cost_plus(messages, moved > least ? moved : least);
}

uint64_t ring_cost_of(ring_tier tier, ring_algorithm algorithm, uint8_t collective, int size,
                      uint64_t bytes) {
  ring_effort effort = ring_effort_of(algorithm, collective, size, bytes);
  return cost_sum(tier, algorithm, collective, &effort, 0);
}

uint64_t ring_cost_over(const ring_topology *topology, ring_algorithm algorithm, uint8_t collective,
                        uint64_t bytes) {
  uint64_t size = (uint64_t)topology->size, most = (uint64_t)topology->largest;
  bool neighbours = algorithm == RING_ALGORITHM_RING || algorithm == RING_ALGORITHM_CHAIN;
  ring_effort effort = ring_effort_of(algorithm, collective, topology->size, bytes);
  uint64_t sent = cost_share(effort.all_bytes, most, size);
  uint64_t leaving = neighbours ? cost_share(effort.all_bytes, (uint64_t)topology->leaving, size)
                                : cost_share(sent, size - most, size - 1);
  uint64_t memory = cost_times(sent, cost_tiers[topology->inside].shared);
  if (leaving > effort.bytes) effort.bytes = leaving;
  return cost_sum(RING_TIER_NETWORK, algorithm, collective, &effort, memory);
}

uint64_t ring_cost_of_hierarchical(const ring_topology *topology, uint64_t count, uint64_t bytes) {
  ring_nested_effort effort = ring_effort_of_hierarchical(topology, count, bytes);
  uint64_t messages = cost_plus(cost_begun(topology->inside, &effort.inside),
                                cost_begun(RING_TIER_NETWORK, &effort.inter_host));
  effort.inter_host.bytes = cost_times(effort.inter_host.bytes, (uint64_t)effort.shards);
  uint64_t inside = cost_moved(topology->inside, &effort.inside);
  uint64_t inter_host = cost_moved(RING_TIER_NETWORK, &effort.inter_host);
  uint64_t slower = inside > inter_host ? inside : inter_host,
           faster = inside > inter_host ? inter_host : inside;
  uint64_t shard = cost_share(bytes, 1, (uint64_t)effort.shards);
  if (shard > RING_CHUNK_BYTES) faster = cost_share(faster, RING_CHUNK_BYTES, shard);
  return cost_plus(messages, cost_plus(slower, faster));
}

uint64_t ring_cost_digest(void) {
  uint64_t digest = RING_DIGEST_EMPTY;
  for (int i = 0; i < COST_TIERS; i++) {
    const cost_tier *tier = &cost_tiers[i];
    const uint64_t values[] = {tier->latency, tier->message, tier->busy,
                               tier->path,    tier->shared,  tier->reduce};
    for (int j = 0; j < 6; j++) digest = bytes_digest(digest, values[j]);
  }
  for (int i = 0; i < COST_TIERS * COST_COLLECTIVES * RING_ALGORITHMS; i++) {
    const cost_row *row = &cost_rows[0][0][0] + i;
    digest = bytes_digest(digest, (uint64_t)row->messages << 16 | row->bytes);
  }
  return digest;
}
