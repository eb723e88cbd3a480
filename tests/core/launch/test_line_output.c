/* SPDX-License-Identifier: Apache-2.0
 *
 * The output of the ranks: whole lines in order, whatever the pieces in which bytes come and go.
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "check.h"
#include "launch/line_output.h"

enum { LINES = 20000, KEPT = 1 << 21 };

static void make_pipe(int ends[2]) {
  CHECK(pipe(ends) == 0);
  for (int i = 0; i < 2; i++) fcntl(ends[i], F_SETFL, O_NONBLOCK);
}

/* Reads all that a pipe has; returns the new length. */
static size_t read_present(int fd, char *text, size_t length) {
  for (ssize_t got; (got = read(fd, text + length, KEPT - length)) > 0;) length += (size_t)got;
  return length;
}

static void test_many_lines(void) {
  static char expected[KEPT], found[KEPT], given[KEPT];
  int in[2], out[2];
  make_pipe(in), make_pipe(out);
  ring_line_output to = {.descriptor = out[1]};
  ring_line_stream from = {.descriptor = in[0], .rank = 12, .to = &to};
  size_t whole = 0, wanted = 0, sent = 0, length = 0;
  for (int i = 0; i < LINES; i++) {
    whole += (size_t)sprintf(given + whole, "line %d of %*d\n", i, i % 50, LINES);
    wanted += (size_t)sprintf(expected + wanted, "[12] line %d of %*d\n", i, i % 50, LINES);
  }
  for (size_t piece = 1; sent < whole; piece = piece * 7 % 9973) {
    ssize_t put = write(in[1], given + sent, piece < whole - sent ? piece : whole - sent);
    if (put > 0) sent += (size_t)put;
    ring_line_output_read(&from);
    if (piece % 3 != 0) CHECK_INT(ring_line_output_write(&to), 0);
    length = read_present(out[0], found, length);
  }
  while (ring_line_output_read(&from)) continue;
  while (to.unwritten.length > 0) {
    CHECK_INT(ring_line_output_write(&to), 0);
    length = read_present(out[0], found, length);
  }
  CHECK_INT(length, wanted);
  CHECK(memcmp(found, expected, wanted) == 0);
  CHECK(!ring_line_output_out_of_memory());
  free(to.unwritten.data), free(from.begun.data);
  for (int i = 0; i < 2; i++) close(in[i]), close(out[i]);
}

/* A process that has escaped writes for ever: the rest of a pipe is read, and no more. */
static void test_drain(void) {
  int in[2];
  ring_line_output to = {.descriptor = -1};
  ring_line_stream from = {.rank = 0, .to = &to};
  make_pipe(in);
  from.descriptor = in[0];
  CHECK(write(in[1], "first\nlast", 10) == 10);
  ring_line_output_drain(&from);
  CHECK_INT(from.descriptor, -1);
  CHECK_INT(to.unwritten.length, strlen("[0] first\n[0] last\n"));
  from.descriptor = open("/dev/zero", O_RDONLY);
  ring_line_output_drain(&from);
  CHECK_INT(from.descriptor, -1);
  CHECK(to.unwritten.length < 64 << 17);
  free(to.unwritten.data), free(from.begun.data);
  close(in[1]);
}

static void test_lost_output(void) {
  ring_line_output to = {.descriptor = open("/dev/full", O_WRONLY)};
  ring_line_output_put(&to, "text");
  CHECK_INT(ring_line_output_write(&to), ENOSPC);
  CHECK_INT(to.unwritten.length, 0);
  ring_line_output_put(&to, "text");
  CHECK_INT(ring_line_output_write(&to), 0);
  CHECK_INT(to.unwritten.length, 0);
  free(to.unwritten.data);
  close(to.descriptor);
}

int main(void) {
  RUN(test_many_lines);
  RUN(test_drain);
  RUN(test_lost_output);
  return 0;
}
