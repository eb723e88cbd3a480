/* SPDX-License-Identifier: Apache-2.0
 *
 * Tells what allreduce would take on clusters of thousands of ranks, by simulating the schedules
 * that the core builds (simulation.h has the model), and which algorithm wins where. scripts/bench
 * --simulate builds and runs it.
 *
 * Vectors are cut evenly, as in closed forms: elements are a fraction of 4 bytes so short that each
 * rank's share has as many. What the core decides by the number of elements it decides by that of
 * float32.
 */
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"
#include "simulation.h"

enum { LIST_MOST = 32 };

typedef struct list {
  int ranks[LIST_MOST], counts;
  double bytes[LIST_MOST];
  int sizes;
} list;

typedef struct options {
  cluster cluster; /* without its ranks */
  list table, grid;
  bool json;
} options;

/* ---- Algorithms --------------------------------------------------------------------------- */

static ring_status build_ring(ring_schedule *s, int rank, const workload *w) {
  return ring_schedule_allreduce_ring(s, rank, w->ranks, w->count, false);
}

static ring_status build_doubling(ring_schedule *s, int rank, const workload *w) {
  return ring_schedule_allreduce_doubling(s, rank, w->ranks, w->count, false);
}

static ring_status build_halving(ring_schedule *s, int rank, const workload *w) {
  return ring_schedule_allreduce_halving(s, rank, w->ranks, w->count);
}

static ring_status build_hierarchical(ring_schedule *s, int rank, const workload *w) {
  return ring_schedule_allreduce_hierarchical(s, rank, w->ranks, w->node, w->count, false,
                                              w->shape);
}

enum { HIERARCHICAL = 3, ALGORITHMS };

static const struct {
  const char *name;
  ring_status (*build)(ring_schedule *schedule, int rank, const workload *w);
} algorithms[ALGORITHMS] = {{"ring", build_ring},
                            {"doubling", build_doubling},
                            {"halving", build_halving},
                            {"hierarchical", build_hierarchical}};

/* ---- One case ----------------------------------------------------------------------------- */

static const char *symmetry_name(symmetry s) {
  return s == SYMMETRY_ROTATE ? "rotate" : s == SYMMETRY_XOR ? "xor" : "none";
}

/* Of the cases that were simulated in longer frames than was asked for; 0: none was. */
static double longest_frame;

static void print_found(const options *o, int algorithm, const cluster *c, double bytes,
                        const outcome *found) {
  if (!o->json) return;
  printf("{\"algorithm\":\"%s\",\"ranks\":%d,\"per_host\":%d,\"bytes\":%.0f,\"us\":%.3f,"
         "\"frames\":%llu,\"frame_bytes\":%.0f,\"symmetry\":\"%s\"}\n",
         algorithms[algorithm].name, c->ranks, c->per_host, bytes, found->seconds * 1e6,
         (unsigned long long)found->frames, found->frame_bytes, symmetry_name(found->symmetry));
}

/* Simulates an algorithm with so many ranks on a host. Ends the program where that cannot be. */
static double cost(const options *o, int algorithm, int ranks, int per_host, double bytes) {
  cluster c = o->cluster;
  c.ranks = ranks;
  c.per_host = per_host < ranks ? per_host : ranks;
  int hosts = (ranks - 1) / c.per_host + 1, last = ranks - (hosts - 1) * c.per_host;
  int *node = malloc((size_t)ranks * sizeof *node);
  for (int i = 0; node != NULL && i < ranks; i++) node[i] = i / c.per_host;
  workload w = {.build = algorithms[algorithm].build, .ranks = ranks, .node = node};
  w.shape = ring_hierarchy_choose((uint64_t)ceil(bytes / 4), hosts, last);
  double unit = (double)ranks * (algorithm == HIERARCHICAL ? w.shape.shards : 1);
  double units = ceil(bytes / 4 / unit);
  w.count = (uint64_t)(unit * (units < 1 ? 1 : units));
  w.element_bytes = bytes / (double)w.count;
  outcome found = {.error = "out of memory"};
  if (node != NULL) found = simulate(&c, &w, false);
  free(node);
  if (found.error != NULL) {
    fprintf(stderr, "simulate: %s of %.0f bytes, %d ranks, %d a host: %s\n",
            algorithms[algorithm].name, bytes, ranks, c.per_host, found.error);
    exit(1);
  }
  print_found(o, algorithm, &c, bytes, &found);
  bool longer = found.frame_bytes > c.frame_bytes && c.frame_bytes < bytes;
  if (longer && found.frame_bytes > longest_frame) longest_frame = found.frame_bytes;
  return found.seconds;
}

/* ---- Tables ------------------------------------------------------------------------------- */

static const char *amount(double bytes, char text[32]) {
  if (bytes < 1e3)
    snprintf(text, 32, "%.0f B", bytes);
  else if (bytes < 1e6)
    snprintf(text, 32, "%.4g KB", bytes / 1e3);
  else
    snprintf(text, 32, "%.4g MB", bytes / 1e6);
  return text;
}

static const char *duration(double seconds, char text[32]) {
  if (seconds < 999.5e-6)
    snprintf(text, 32, "%.0f us", seconds * 1e6);
  else
    snprintf(text, 32, seconds < 99.5e-3 ? "%.3g ms" : "%.0f ms", seconds * 1e3);
  return text;
}

/* The seconds of each algorithm, simulated when first asked for. On hosts of one rank a
 * hierarchical one has nothing to add. */
static const double *costs(const options *o, const list *l, int n, int b, int per_host) {
  static struct known {
    int ranks, per_host;
    double bytes, seconds[ALGORITHMS];
  } known[4 * LIST_MOST * LIST_MOST];
  struct known *k = known;
  while (k->ranks != 0 &&
         !(k->ranks == l->ranks[n] && k->per_host == per_host && k->bytes == l->bytes[b]))
    k++;
  if (k->ranks != 0) return k->seconds;
  *k = (struct known){.ranks = l->ranks[n], .per_host = per_host, .bytes = l->bytes[b]};
  for (int a = 0; a < ALGORITHMS; a++)
    k->seconds[a] =
        a == HIERARCHICAL && per_host == 1 ? INFINITY : cost(o, a, k->ranks, per_host, k->bytes);
  return k->seconds;
}

static int least(const double *seconds) {
  int best = 0;
  for (int a = 1; a < ALGORITHMS; a++)
    if (seconds[a] < seconds[best]) best = a;
  return best;
}

static void print_times(const options *o, const list *l, int per_host) {
  char text[32];
  printf("\n%-10s%7s", "bytes", "ranks");
  for (int a = 0; a < ALGORITHMS; a++) printf("%14s", algorithms[a].name);
  printf("\n");
  for (int b = 0; b < l->sizes; b++)
    for (int n = 0; n < l->counts; n++) {
      const double *seconds = costs(o, l, n, b, per_host);
      printf("%-10s%7d", amount(l->bytes[b], text), l->ranks[n]);
      for (int a = 0; a < ALGORITHMS; a++)
        printf("%14s", isinf(seconds[a]) ? "-" : duration(seconds[a], text));
      printf("\n");
      fflush(stdout);
    }
}

static void print_winners(const options *o, const list *l, int per_host) {
  char text[32], cell[64];
  printf("\n%-10s", "fastest");
  for (int n = 0; n < l->counts; n++) {
    snprintf(cell, sizeof cell, "%d ranks", l->ranks[n]);
    printf("%22s", cell);
  }
  printf("\n");
  for (int b = 0; b < l->sizes; b++) {
    printf("%-10s", amount(l->bytes[b], text));
    for (int n = 0; n < l->counts; n++) {
      const double *seconds = costs(o, l, n, b, per_host);
      int best = least(seconds);
      snprintf(cell, sizeof cell, "%s %s", algorithms[best].name, duration(seconds[best], text));
      printf("%22s", cell);
    }
    printf("\n");
    fflush(stdout);
  }
}

static void print_longest(void) {
  char text[32];
  if (longest_frame > 0)
    printf("\nWhere whole machines had too many frames to simulate, they were made longer, up to "
           "%s.\n",
           amount(longest_frame, text));
}

static void print_json(const options *o, int per_host) {
  for (int b = 0; b < o->table.sizes; b++)
    for (int n = 0; n < o->table.counts; n++) costs(o, &o->table, n, b, per_host);
}

static void print_cluster(const options *o, int per_host) {
  const cluster *c = &o->cluster;
  printf("\n%d %s a host%s; between hosts %g us and %g GB/s, within %g us and %g GB/s, "
         "reducing %g ns/B\n",
         per_host, per_host == 1 ? "rank" : "ranks",
         per_host == 1 ? "" : ", which share its interface", c->alpha * 1e6, c->bandwidth / 1e9,
         c->local_alpha * 1e6, c->local_bandwidth / 1e9, c->gamma * 1e9);
}

/* ---- The command line --------------------------------------------------------------------- */

static const char usage[] =
    "usage: scripts/bench --simulate [OPTION]...\n"
    "Simulates allreduce on clusters of many ranks and prints what it takes, and what is fastest.\n"
    "  --alpha US              latency between hosts (20)\n"
    "  --bandwidth GB/S        of a host's interface, each way (12.5)\n"
    "  --gamma NS              to reduce a byte (0)\n"
    "  --local-alpha US        latency within a host (1.5)\n"
    "  --local-bandwidth GB/S  of a rank within its host, each way (20)\n"
    "  --per-host N            ranks that share a host (8)\n"
    "  --ranks N,...           up to 16384\n"
    "  --bytes N,...\n"
    "  --frame BYTES           the longest piece that is sent at once (262144)\n"
    "  --json                  one object a line instead of tables\n";

static void refuse(const char *option, const char *text, const char *want) {
  fprintf(stderr, "simulate: --%s %s: %s; --help explains the options\n", option, text, want);
  exit(2);
}

/* Reads numbers with commas between. */
static int read_numbers(const char *option, const char *text, double from, double to,
                        double *numbers, int most) {
  int count = 0;
  const char *at = text;
  for (;;) {
    char *end;
    if (count == most) refuse(option, text, "too many numbers");
    numbers[count] = strtod(at, &end);
    bool inside = numbers[count] >= from && numbers[count] <= to;
    if (end == at || !inside || (*end != '\0' && *end != ','))
      refuse(option, text, "not a number, or out of range");
    count++;
    if (*end == '\0') return count;
    at = end + 1;
  }
}

static double read_number(const char *option, const char *text, double from, double to) {
  double number;
  read_numbers(option, text, from, to, &number, 1);
  return number;
}

static void give_ranks(options *o, const char *text) {
  double numbers[LIST_MOST];
  int count = read_numbers("ranks", text, 2, 16384, numbers, LIST_MOST);
  o->table.counts = o->grid.counts = count;
  for (int i = 0; i < count; i++) o->table.ranks[i] = o->grid.ranks[i] = (int)numbers[i];
}

static void give_bytes(options *o, const char *text) {
  o->table.sizes = o->grid.sizes = read_numbers("bytes", text, 1, 1e12, o->table.bytes, LIST_MOST);
  memcpy(o->grid.bytes, o->table.bytes, sizeof o->grid.bytes);
}

static void read_options(options *o, int argc, char **argv) {
  static const struct option known[] = {{"alpha", 1, NULL, 'a'},
                                        {"bandwidth", 1, NULL, 'b'},
                                        {"gamma", 1, NULL, 'g'},
                                        {"local-alpha", 1, NULL, 'A'},
                                        {"local-bandwidth", 1, NULL, 'B'},
                                        {"per-host", 1, NULL, 'p'},
                                        {"ranks", 1, NULL, 'n'},
                                        {"bytes", 1, NULL, 's'},
                                        {"frame", 1, NULL, 'f'},
                                        {"json", 0, NULL, 'j'},
                                        {"help", 0, NULL, 'h'},
                                        {NULL, 0, NULL, 0}};
  int found, index;
  cluster *c = &o->cluster;
  while ((found = getopt_long(argc, argv, "h", known, &index)) != -1) {
    const char *name = known[index].name;
    switch (found) {
    case 'a':
      c->alpha = read_number(name, optarg, 0, 1e9) / 1e6;
      break;
    case 'b':
      c->bandwidth = read_number(name, optarg, 1e-9, 1e9) * 1e9;
      break;
    case 'g':
      c->gamma = read_number(name, optarg, 0, 1e9) / 1e9;
      break;
    case 'A':
      c->local_alpha = read_number(name, optarg, 0, 1e9) / 1e6;
      break;
    case 'B':
      c->local_bandwidth = read_number(name, optarg, 1e-9, 1e9) * 1e9;
      break;
    case 'p':
      c->per_host = (int)read_number(name, optarg, 1, 16384);
      break;
    case 'n':
      give_ranks(o, optarg);
      break;
    case 's':
      give_bytes(o, optarg);
      break;
    case 'f':
      c->frame_bytes = read_number(name, optarg, 1, 1e12);
      break;
    case 'j':
      o->json = true;
      break;
    case 'h':
      fputs(usage, stdout);
      exit(0);
    default:
      exit(2);
    }
  }
  if (optind < argc) {
    fprintf(stderr, "simulate: %s is no option\n%s", argv[optind], usage);
    exit(2);
  }
}

int main(int argc, char **argv) {
  options o = {.cluster = {.per_host = 8,
                           .alpha = 20e-6,
                           .bandwidth = 12.5e9,
                           .local_alpha = 1.5e-6,
                           .local_bandwidth = 20e9,
                           .frame_bytes = RING_CHUNK_BYTES},
               .table = {{64, 1024, 16384}, 3, {8, 1e5, 1e8}, 3},
               .grid = {{16, 64, 256, 1024, 4096, 16384}, 6, {8, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8}, 7}};
  read_options(&o, argc, argv);
  int machines[] = {1, o.cluster.per_host};
  for (int m = 0; m < (o.cluster.per_host > 1 ? 2 : 1); m++) {
    if (o.json) {
      print_json(&o, machines[m]);
      continue;
    }
    print_cluster(&o, machines[m]);
    print_times(&o, &o.table, machines[m]);
    print_winners(&o, &o.grid, machines[m]);
  }
  if (!o.json) print_longest();
  return 0;
}
