/* SPDX-License-Identifier: Apache-2.0 */
#include "base/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"

enum { ADDRESS_QUOTED_MAX = 64, ADDRESS_HOST_MAX = RING_HOST_BYTES - 1 };

ring_quoted ring_quote(const char *text) {
  ring_quoted quoted;
  size_t length = strnlen(text, ADDRESS_QUOTED_MAX + 1);
  size_t shown = length > ADDRESS_QUOTED_MAX ? ADDRESS_QUOTED_MAX : length;
  char *next = quoted.text;
  *next++ = '"';
  for (size_t i = 0; i < shown; i++) *next++ = text[i] >= ' ' && text[i] <= '~' ? text[i] : '?';
  strcpy(next, length > shown ? "...\"" : "\"");
  return quoted;
}

static ring_status address_bad(ring_error *error, const char *text, const char *why) {
  return ring_error_set(error, RING_INVALID, -1, 0, "the address %s %s", ring_quote(text).text,
                        why);
}

/* True for whitespace, control characters and all that is not ASCII. */
static int address_has_unprintable(const char *text) {
  for (; *text != '\0'; text++)
    if (*text <= ' ' || *text > '~') return 1;
  return 0;
}

static ring_status address_port(const char *text, const char *digits, int *port,
                                ring_error *error) {
  if (*digits == '\0') return address_bad(error, text, "has a colon but no port after it");
  if (digits[strspn(digits, "0123456789")] != '\0')
    return address_bad(error, text, "has a port that is not a number");
  long value = 0;
  for (; *digits != '\0' && value <= 65535; digits++) value = value * 10 + (*digits - '0');
  if (value < 1 || value > 65535) return address_bad(error, text, "has a port outside 1 to 65535");
  *port = (int)value;
  return RING_OK;
}

static ring_status address_host(const char *text, const char *start, size_t length, char *host,
                                size_t host_size, ring_error *error) {
  if (length == 0) return address_bad(error, text, "has no host");
  if (length > ADDRESS_HOST_MAX || length >= host_size)
    return address_bad(error, text, "has a host name of more than 253 bytes");
  memcpy(host, start, length);
  host[length] = '\0';
  return RING_OK;
}

/* An IPv6 address, perhaps with a zone ("fe80::1%eth0"). */
static ring_status address_host6(const char *text, const char *start, size_t length, char *host,
                                 size_t host_size, ring_error *error) {
  ring_status status = address_host(text, start, length, host, host_size, error);
  if (status != RING_OK) return status;
  struct in6_addr ignored;
  char *zone = strchr(host, '%');
  if (zone != NULL) *zone = '\0';
  int named = zone == NULL || (zone[1] != '\0' && strpbrk(zone + 1, "[]") == NULL);
  int valid = named && inet_pton(AF_INET6, host, &ignored) == 1;
  if (zone != NULL) *zone = '%';
  if (!valid)
    return address_bad(error, text, "is not host, host:port, [IPv6]:port or an IPv6 address");
  return RING_OK;
}

static ring_status address_bracketed(const char *text, char *host, size_t host_size, int *port,
                                     ring_error *error) {
  const char *end = strchr(text, ']');
  if (end == NULL) return address_bad(error, text, "has a [ without a ]");
  if (end[1] != '\0' && end[1] != ':')
    return address_bad(error, text, "has something other than :port after the ]");
  ring_status status =
      address_host6(text, text + 1, (size_t)(end - text - 1), host, host_size, error);
  if (status != RING_OK || end[1] == '\0') return status;
  return address_port(text, end + 2, port, error);
}

ring_status ring_address_parse(const char *text, char *host, size_t host_size, int *port,
                               ring_error *error) {
  *port = -1;
  if (text == NULL || *text == '\0')
    return ring_error_set(error, RING_INVALID, -1, 0, "an address is empty");
  if (address_has_unprintable(text))
    return address_bad(error, text, "has whitespace, control or non-ASCII characters inside");
  if (*text == '[') return address_bracketed(text, host, host_size, port, error);
  if (strpbrk(text, "[]") != NULL)
    return address_bad(error, text, "has a bracket that is not around an IPv6 address");
  const char *colon = strchr(text, ':');
  if (colon == NULL) return address_host(text, text, strlen(text), host, host_size, error);
  if (strchr(colon + 1, ':') != NULL)
    return address_host6(text, text, strlen(text), host, host_size, error);
  ring_status status = address_host(text, text, (size_t)(colon - text), host, host_size, error);
  if (status != RING_OK) return status;
  return address_port(text, colon + 1, port, error);
}

uint8_t *ring_address_pack(uint8_t *to, const char *host) {
  size_t length = strlen(host);
  to = bytes_put(to, length, 1);
  memcpy(to, host, length);
  return to + length;
}

bool ring_address_unpack(const uint8_t **from, const uint8_t *end, char host[RING_HOST_BYTES]) {
  char text[RING_HOST_BYTES] = {0};
  int port;
  if (*from >= end) return false;
  size_t length = (size_t)bytes_get(from, 1);
  if (length >= sizeof text || length > (size_t)(end - *from)) return false;
  memcpy(text, *from, length);
  *from += length;
  return ring_address_parse(text, host, RING_HOST_BYTES, &port, NULL) == RING_OK;
}
