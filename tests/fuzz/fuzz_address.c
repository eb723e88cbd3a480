/* SPDX-License-Identifier: Apache-2.0
 *
 * Addresses, as text and on the wire: a host that was read can be read again, and is the same.
 */
#include "base/address.h"
#include "input.h"

static void check_host(const char *host, int port) {
  char again[RING_HOST_BYTES];
  int none;
  FUZZ_PROMISE(host[0] != '\0' && strlen(host) < RING_HOST_BYTES);
  FUZZ_PROMISE(port == -1 || (port >= 1 && port <= 65535));
  FUZZ_PROMISE(ring_address_parse(host, again, sizeof again, &none, NULL) == RING_OK);
  FUZZ_PROMISE(strcmp(host, again) == 0 && none == -1);
}

static void try_wire(const uint8_t *bytes, size_t length) {
  char host[RING_HOST_BYTES];
  const uint8_t *from = bytes, *end = bytes + length;
  while (ring_address_unpack(&from, end, host)) {
    FUZZ_PROMISE(from <= end);
    check_host(host, -1);
  }
  FUZZ_PROMISE(from <= end);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
  input from = {bytes, length};
  char host[RING_HOST_BYTES], small[16], *text;
  ring_error error;
  int port;
  uint8_t *wire = malloc(length == 0 ? 1 : length); /* of just its size, for the sanitizer */
  FUZZ_PROMISE(wire != NULL);
  if (length > 0) memcpy(wire, bytes, length);
  try_wire(wire, length);
  free(wire);
  text = input_text(&from);
  ring_quoted quoted = ring_quote(text);
  FUZZ_PROMISE(strlen(quoted.text) < sizeof quoted.text);
  if (ring_address_parse(text, host, sizeof host, &port, &error) == RING_OK)
    check_host(host, port);
  else
    FUZZ_PROMISE(error.status == RING_INVALID && error.message[0] != '\0');
  if (ring_address_parse(text, small, sizeof small, &port, &error) == RING_OK)
    FUZZ_PROMISE(strlen(small) < sizeof small);
  free(text);
  return 0;
}
