/* SPDX-License-Identifier: Apache-2.0
 *
 * Every form of an address, and the text of every complaint.
 */
#include "base/address.h"
#include "check.h"

static void check_parses(const char *text, const char *host, int port) {
  char parsed[RING_HOST_BYTES];
  int parsed_port = 0;
  ring_error error = {0};
  ring_status status = ring_address_parse(text, parsed, sizeof parsed, &parsed_port, &error);
  if (status != RING_OK) fprintf(stderr, "%s: %s\n", text, error.message);
  CHECK_INT(status, RING_OK);
  CHECK(strcmp(parsed, host) == 0);
  CHECK_INT(parsed_port, port);
}

static void check_fails(const char *text, const char *why) {
  char parsed[RING_HOST_BYTES];
  int port = 0;
  ring_error error = {0};
  CHECK_INT(ring_address_parse(text, parsed, sizeof parsed, &port, &error), RING_INVALID);
  CHECK_INT(error.status, RING_INVALID);
  CHECK_INT(error.rank, -1);
  CHECK_CONTAINS(error.message, why);
  CHECK_INT(ring_address_parse(text, parsed, sizeof parsed, &port, NULL), RING_INVALID);
}

static void test_hosts_with_and_without_port(void) {
  check_parses("localhost", "localhost", -1);
  check_parses("10.0.0.7:4040", "10.0.0.7", 4040);
  check_parses("gpu003.cluster.example:1", "gpu003.cluster.example", 1);
  check_parses("a:65535", "a", 65535);
  check_parses("a:000080", "a", 80);
}

static void test_ipv6(void) {
  check_parses("::1", "::1", -1);
  check_parses("[::1]", "::1", -1);
  check_parses("[fe80::1]:7337", "fe80::1", 7337);
  check_parses("fe80::1%eth0", "fe80::1%eth0", -1);
  check_parses("[fe80::1%eth0]:9", "fe80::1%eth0", 9);
  check_parses("::ffff:10.0.0.1", "::ffff:10.0.0.1", -1);
}

static void test_nothing(void) {
  check_fails(NULL, "an address is empty");
  check_fails("", "an address is empty");
  check_fails(":80", "the address \":80\" has no host");
  check_fails("[]:80", "the address \"[]:80\" has no host");
  check_fails("[::1%a[b]", "is not host, host:port, [IPv6]:port or an IPv6 address");
}

static void test_bad_ports(void) {
  check_fails("a:", "the address \"a:\" has a colon but no port after it");
  check_fails("a:x", "the address \"a:x\" has a port that is not a number");
  check_fails("a:-1", "not a number");
  check_fails("a:+1", "not a number");
  check_fails("a:0x10", "not a number");
  check_fails("a:0", "has a port outside 1 to 65535");
  check_fails("a:65536", "has a port outside 1 to 65535");
  check_fails("a:99999999999999999999999999", "has a port outside 1 to 65535");
  check_fails("[::1]:", "has a colon but no port after it");
  check_fails("[::1]:70000", "has a port outside 1 to 65535");
}

static void test_bad_brackets_and_ipv6(void) {
  check_fails("[::1", "has a [ without a ]");
  check_fails("[::1]80", "has something other than :port after the ]");
  check_fails("a[b]", "has a bracket that is not around an IPv6 address");
  check_fails("[host]:80", "is not host, host:port, [IPv6]:port or an IPv6 address");
  check_fails("host:80:90", "is not host, host:port, [IPv6]:port or an IPv6 address");
  check_fails("spark://host:7077", "is not host, host:port");
  check_fails("fe80::1%", "is not host, host:port");
}

static void test_bytes_that_no_host_has(void) {
  check_fails("a b:1", "the address \"a b:1\" has whitespace, control or non-ASCII characters");
  check_fails("a\n", "the address \"a?\" has whitespace");
  check_fails(" a", "has whitespace");
  check_fails("\x1b[31mred", "the address \"?[31mred\" has whitespace");
  check_fails("h\xc3\xb6st", "the address \"h??st\" has whitespace, control or non-ASCII");
}

static void test_lengths(void) {
  char text[400];
  memset(text, 'h', sizeof text);
  text[253] = '\0';
  check_parses(text, text, -1);
  text[253] = 'h';
  text[254] = '\0';
  check_fails(text, "has a host name of more than 253 bytes");
  CHECK_INT(strlen(ring_quote(text).text), 64 + 2 + 3);
  check_fails(text, "hhh...\" has a host name");
  char small[4];
  int port;
  CHECK_INT(ring_address_parse("abc", small, sizeof small, &port, NULL), RING_OK);
  CHECK_INT(ring_address_parse("abcd", small, sizeof small, &port, NULL), RING_INVALID);
}

static void test_quote(void) {
  CHECK(strcmp(ring_quote("").text, "\"\"") == 0);
  CHECK(strcmp(ring_quote("a\tb\x7f").text, "\"a?b?\"") == 0);
  char text[66];
  memset(text, 'q', sizeof text);
  text[64] = '\0';
  CHECK(strstr(ring_quote(text).text, "...") == NULL);
}

int main(void) {
  RUN(test_hosts_with_and_without_port);
  RUN(test_ipv6);
  RUN(test_nothing);
  RUN(test_bad_ports);
  RUN(test_bad_brackets_and_ipv6);
  RUN(test_bytes_that_no_host_has);
  RUN(test_lengths);
  RUN(test_quote);
  return 0;
}
