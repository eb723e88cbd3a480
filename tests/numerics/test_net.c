/* SPDX-License-Identifier: Apache-2.0
 *
 * Penalized regressions: the bits of passes do not depend on blocks of rows, a minimum satisfies its conditions, and a
 * path ends with its caller's failure.
 */
#include <math.h>

#include "check.h"
#include "net_descent.h"
#include "net_path.h"
#include "random.h"

enum { ROWS = 500, COLUMNS = 7, CLASSES = 3, WIDTH = CLASSES * (COLUMNS + 1) };

static double x[ROWS * COLUMNS], y[ROWS * CLASSES], weights[ROWS], offset[ROWS];
static double center[COLUMNS], scale[COLUMNS];

static double draw(uint64_t index) {
  const num_random random = {.seed = 1};
  return num_random_uniform(&random, index);
}

/* Rows one after another, of which some have no weight. */
static num_net_model open_rows(char family) {
  size_t classes = family == 'm' ? CLASSES : 1;
  for (size_t k = 0; k < COLUMNS; k++) center[k] = 0.1 * (double)k, scale[k] = 1 + (double)k;
  for (size_t i = 0; i < ROWS * COLUMNS; i++) x[i] = draw(i) - draw(i + 10000);
  for (size_t i = 0; i < ROWS; i++) {
    double numbers = x[i * COLUMNS] - x[i * COLUMNS + 1] + draw(i + 20000);
    size_t label = numbers < 0 ? 0 : numbers < 0.7 ? 1 : 2;
    y[i] = family == 'g' ? numbers : family == 'p' ? (double)label : (double)(label > 0);
    weights[i] = (double)(i % 4) / ROWS, offset[i] = family == 'g' ? 0 : 0.1 * (double)(i % 3);
  }
  for (size_t i = 0; i < ROWS && family == 'm'; i++)
    for (size_t label = 0; label < CLASSES; label++) y[i * CLASSES + label] = i % 3 == label;
  return (num_net_model){family, true, COLUMNS, classes, center, scale};
}

/* A pass over rows in blocks of `block`. */
static void pass_in(const num_net_model *model, const num_net_point *point, size_t block,
                    double *sums) {
  double *state = malloc(num_net_state(model, point) * sizeof *state);
  num_net_open(model, point, state, sums);
  for (size_t from = 0; from < ROWS; from += block) {
    num_net_rows rows = {.count = ROWS - from < block ? ROWS - from : block,
                         .x = x + from * COLUMNS,
                         .y = y + from * model->classes,
                         .weights = weights + from,
                         .offset = offset + from,
                         .row_step = COLUMNS,
                         .column_step = 1,
                         .y_row_step = model->classes,
                         .y_class_step = 1};
    num_net_add(model, point, &rows, state, sums);
  }
  num_net_close(model, point, state, sums);
  free(state);
}

static void blocks_do_not_count(void) {
  static double whole[1 + WIDTH + WIDTH * WIDTH], parts[1 + WIDTH + WIDTH * WIDTH];
  for (const char *family = "gbpm"; *family; family++) {
    num_net_model model = open_rows(*family);
    size_t width = num_net_width(&model) * model.classes;
    int32_t active[WIDTH];
    double b[WIDTH];
    num_net_point point = {0, active, b, true};
    for (size_t k = 0; k < width; k++)
      if (k % 3 != 1) b[point.count] = sin((double)k), active[point.count++] = (int32_t)k;
    pass_in(&model, &point, ROWS, whole);
    CHECK(whole[0] > 0 && whole[1 + width] > 0);
    for (size_t block = 1; block < 200; block += 33) {
      pass_in(&model, &point, block, parts);
      CHECK(memcmp(whole, parts, num_net_sums(&model, &point) * sizeof *whole) == 0);
    }
  }
}

/* The largest violation of the conditions of a minimum. */
static double violation(const double *gram, const double *linear, const double *b, double first,
                        double second) {
  double worst = 0;
  for (size_t j = 0; j < COLUMNS; j++) {
    double slope = linear[j] - second * b[j];
    for (size_t k = 0; k < COLUMNS; k++) slope -= gram[j * COLUMNS + k] * b[k];
    double gap = b[j] == 0 ? fabs(slope) - first : fabs(slope - (b[j] > 0 ? first : -first));
    worst = fmax(worst, gap);
  }
  return worst;
}

/* The last two columns are equal. */
static void a_minimum_satisfies_its_conditions(void) {
  double gram[COLUMNS * COLUMNS] = {0}, linear[COLUMNS];
  double *scratch = malloc(num_net_minimize_scratch(COLUMNS) * sizeof *scratch);
  open_rows('g');
  for (size_t i = 0; i < ROWS; i++) x[i * COLUMNS + 6] = x[i * COLUMNS + 5];
  for (size_t j = 0; j < COLUMNS; j++) {
    linear[j] = 3 * (draw(j + 30000) - 0.5);
    for (size_t k = 0; k < COLUMNS; k++)
      for (size_t i = 0; i < ROWS; i++)
        gram[j * COLUMNS + k] += x[i * COLUMNS + j] * x[i * COLUMNS + k] / ROWS;
  }
  linear[6] = linear[5];
  for (int step = 0; step < 6; step++) {
    double copy[COLUMNS * COLUMNS], firsts[COLUMNS], seconds[COLUMNS], b[COLUMNS] = {0};
    memcpy(copy, gram, sizeof gram);
    for (size_t k = 0; k < COLUMNS; k++) firsts[k] = 0.3 * step, seconds[k] = step % 2;
    num_net_minimize(COLUMNS, copy, linear, firsts, seconds, b, scratch);
    CHECK(violation(gram, linear, b, 0.3 * step, step % 2) < 1e-7);
  }
  free(scratch);
}

/* A rank whose pass number `fails` fails. */
typedef struct {
  const num_net_model *model;
  double sums[1 + WIDTH + WIDTH * WIDTH];
  int passes, fails;
} rank;

static double *look(void *context, const num_net_point *point) {
  rank *own = context;
  if (++own->passes == own->fails) return NULL;
  pass_in(own->model, point, 50, own->sums);
  return own->sums;
}

static bool share(void *context, double *numbers, size_t count) {
  (void)context;
  return count > 0 && numbers[0] > 0;
}

static void a_path_ends_with_a_failure(void) {
  num_net_model model = open_rows('b');
  double penalty[COLUMNS + 1] = {0}, numbers[4][5], coefficients[5 * (COLUMNS + 1)];
  double *scratch = malloc(num_net_follow_scratch(&model) * sizeof *scratch);
  for (size_t k = 1; k <= COLUMNS; k++) penalty[k] = k == 7 ? INFINITY : 1;
  num_net_problem problem = {.model = &model,
                             .penalty = penalty,
                             .alpha = 1,
                             .spread = 1,
                             .tolerance = 1e-9,
                             .ratio = 0.05,
                             .steps = 50,
                             .count = 5};
  static rank own;
  own.model = &model;
  num_net_ranks ranks = {look, share, &own};
  num_net_path path = {numbers[0], coefficients, numbers[1], numbers[2], numbers[3], 0, 0};
  CHECK(num_net_follow(&problem, &ranks, &path, scratch));
  CHECK_INT(path.count, 5);
  for (size_t step = 0; step < 5; step++) CHECK(path.violation[step] <= 1e-9);
  CHECK(coefficients[4 * 8 + 1] > 0.1 && coefficients[4 * 8 + 2] < -0.1);
  CHECK(coefficients[1] == 0 && coefficients[4 * 8 + 7] == 0);
  for (int fails = own.passes; fails > 0; fails--) {
    own.fails = fails, own.passes = 0;
    CHECK(!num_net_follow(&problem, &ranks, &path, scratch));
    CHECK_INT(own.passes, fails);
  }
  free(scratch);
}

int main(void) {
  RUN(blocks_do_not_count);
  RUN(a_minimum_satisfies_its_conditions);
  RUN(a_path_ends_with_a_failure);
  return 0;
}
