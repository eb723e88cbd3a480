/* SPDX-License-Identifier: Apache-2.0
 *
 * The encrypted transport, beyond the promises of every link (test_link.c): nothing can be read on the
 * way, a peer without the key or a changed bit ends the link, and the network may cut the stream
 * anywhere.
 */
#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"
#include "pairs.h"

enum { LENGTH = 200000, SEEN = 1 << 20 };

/* Two links with somebody between them, who moves what both send, and sees it. */
typedef struct between {
  ring_link *links[2];
  int fd[2];      /* towards each of them */
  size_t most;    /* bytes that are moved at a time */
  size_t seen;    /* bytes so far, from side 0 */
  size_t flipped; /* of these, that a bit of which is changed */
  uint8_t bytes[SEEN];
} between;

static between *between_open(const char *key, const char *other_key) {
  between *of = calloc(1, sizeof *of);
  const char *keys[2] = {key, other_key};
  of->most = 65536;
  of->flipped = SIZE_MAX;
  for (int side = 0; side < 2; side++) {
    int fd[2];
    ring_secret secret = {{0}};
    memcpy(secret.bytes, keys[side], strlen(keys[side]));
    CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
    CHECK_INT(fcntl(fd[0], F_SETFL, O_NONBLOCK), 0);
    CHECK_INT(fcntl(fd[1], F_SETFL, O_NONBLOCK), 0);
    of->links[side] = ring_link_tls(ring_link_tcp(fd[0]), side == 0, &secret);
    CHECK(of->links[side] != NULL);
    of->fd[side] = fd[1];
  }
  return of;
}

static void between_close(between *of) {
  for (int side = 0; side < 2; side++) {
    of->links[side]->ops->close(of->links[side]);
    close(of->fd[side]);
  }
  free(of);
}

/* Moves what came from a side. */
static void between_move(between *of, int side) {
  uint8_t bytes[65536];
  ssize_t got = recv(of->fd[side], bytes, of->most, 0);
  if (got <= 0) return;
  if (side == 0) {
    if (of->flipped >= of->seen && of->flipped < of->seen + (size_t)got)
      bytes[of->flipped - of->seen] ^= 16;
    CHECK(of->seen + (size_t)got <= SEEN);
    memcpy(of->bytes + of->seen, bytes, (size_t)got);
    of->seen += (size_t)got;
  }
  for (ssize_t sent = 0, part; sent < got; sent += part) {
    part = send(of->fd[1 - side], bytes + sent, (size_t)(got - sent), 0);
    CHECK(part > 0);
  }
}

/* Sends from side 0 to side 1 until all has come, or until an error, which is returned. */
static ssize_t between_run(between *of, const uint8_t *out, uint8_t *in, size_t length) {
  size_t sent = 0, received = 0;
  for (int turns = 0; received < length; turns++) {
    CHECK(turns < 10000000);
    ssize_t moved = 0;
    if (sent < length) moved = link_send(of->links[0], out + sent, length - sent);
    if (moved < 0) return moved;
    sent += (size_t)moved;
    between_move(of, 0);
    moved = link_receive(of->links[1], in + received, length - received);
    if (moved < 0) return moved;
    received += (size_t)moved;
    between_move(of, 1);
  }
  return 0;
}

static uint8_t *text_of(const char *words, size_t length) {
  uint8_t *text = malloc(length);
  for (size_t i = 0; i < length; i++) text[i] = (uint8_t)words[i % strlen(words)];
  return text;
}

static void test_nothing_can_be_read_on_the_way(void) {
  between *of = between_open("key", "key");
  uint8_t *out = text_of("a gradient nobody else may see ", LENGTH), *in = calloc(1, LENGTH);
  CHECK_INT(between_run(of, out, in, LENGTH), 0);
  CHECK_INT(memcmp(out, in, LENGTH), 0);
  CHECK(of->seen > LENGTH);
  CHECK(memmem(of->bytes, of->seen, "gradient", 8) == NULL);
  CHECK(memmem(of->bytes, of->seen, "key", 4) == NULL);
  between_close(of);
  free(out);
  free(in);
}

static void test_streams_cut_into_single_bytes(void) {
  between *of = between_open("key", "key");
  uint8_t *out = text_of("one by one ", 40000), *in = calloc(1, 40000);
  of->most = 1;
  CHECK_INT(between_run(of, out, in, 40000), 0);
  CHECK_INT(memcmp(out, in, 40000), 0);
  between_close(of);
  free(out);
  free(in);
}

static void test_another_key_is_refused(void) {
  between *of = between_open("key", "another key");
  uint8_t *out = text_of("secret ", 1000), *in = calloc(1, 1000);
  CHECK_INT(between_run(of, out, in, 1000), -EPROTO);
  CHECK(memmem(of->bytes, of->seen, "secret", 6) == NULL);
  between_close(of);
  free(out);
  free(in);
}

/* Wherever a bit is changed, in the TLS handshake or behind it, nothing wrong is received. */
static void test_a_changed_bit_is_an_error(void) {
  uint8_t *out = text_of("exact ", 3000), *in = malloc(3000);
  size_t all = 3000;
  for (size_t at = 0; at < all; at += at < 600 ? 7 : 101) {
    between *of = between_open("key", "key");
    of->flipped = at;
    memset(in, 0, 3000);
    ssize_t result = 0;
    size_t sent = 0, received = 0;
    for (int turns = 0; turns < 50 && result >= 0 && received < 3000; turns++) {
      if (sent < 3000) result = link_send(of->links[0], out + sent, 3000 - sent);
      if (result > 0) sent += (size_t)result;
      between_move(of, 0);
      if (result >= 0) result = link_receive(of->links[1], in + received, 3000 - received);
      if (result > 0) received += (size_t)result;
      between_move(of, 1);
    }
    CHECK(received < 3000 || of->flipped >= of->seen);
    CHECK_INT(memcmp(in, out, received), 0);
    between_close(of);
  }
  free(out);
  free(in);
}

/* A peer that does not use TLS at all. */
static void test_plain_bytes_are_refused(void) {
  between *of = between_open("key", "key");
  char byte;
  CHECK_INT(send(of->fd[1], "GET / HTTP/1.1\r\n\r\n", 18, 0), 18);
  CHECK_INT(link_receive(of->links[1], &byte, 1), -EPROTO);
  CHECK(ERR_peek_error() == 0); /* the thread's, which others who use OpenSSL look at */
  between_close(of);
}

/* A TLS server with a certificate that it made itself, as anybody can who stands between. */
static SSL *impostor_make(int fd) {
  EVP_PKEY_CTX *maker = EVP_PKEY_CTX_new_id(EVP_PKEY_ED25519, NULL);
  EVP_PKEY *key = NULL;
  CHECK(EVP_PKEY_keygen_init(maker) == 1 && EVP_PKEY_keygen(maker, &key) == 1);
  EVP_PKEY_CTX_free(maker);
  X509 *certificate = X509_new();
  X509_gmtime_adj(X509_getm_notBefore(certificate), 0);
  X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
  CHECK(X509_set_pubkey(certificate, key) == 1 && X509_sign(certificate, key, NULL) > 0);
  SSL_CTX *context = SSL_CTX_new(TLS_method());
  CHECK(SSL_CTX_use_certificate(context, certificate) == 1);
  CHECK(SSL_CTX_use_PrivateKey(context, key) == 1);
  SSL *ssl = SSL_new(context);
  CHECK(SSL_set_fd(ssl, fd) == 1);
  SSL_set_accept_state(ssl);
  SSL_CTX_free(context);
  X509_free(certificate);
  EVP_PKEY_free(key);
  return ssl;
}

/* The key is what proves: a server that passes it over for a certificate is refused. */
static void test_a_certificate_is_no_key(void) {
  between *of = between_open("key", "key");
  SSL *impostor = impostor_make(of->fd[0]);
  char bytes[64];
  ssize_t sent = 0;
  for (int turns = 0; turns < 20 && sent == 0; turns++) {
    CHECK(SSL_read(impostor, bytes, sizeof bytes) <= 0);
    sent = link_send(of->links[0], "gradient", 8);
  }
  CHECK_INT(sent, -EPROTO);
  CHECK(SSL_read(impostor, bytes, sizeof bytes) <= 0);
  SSL_free(impostor);
  between_close(of);
}

/* A link that takes only so many bytes. */
typedef struct narrow {
  ring_link base;
  ring_link *under;
  size_t capacity;
} narrow;

static ssize_t narrow_send(ring_link *base, const struct iovec *pieces, int count) {
  narrow *link = (narrow *)base;
  struct iovec piece = {pieces->iov_base, pieces->iov_len};
  CHECK_INT(count, 1);
  if (piece.iov_len > link->capacity) piece.iov_len = link->capacity;
  if (piece.iov_len == 0) return 0;
  ssize_t sent = link->under->ops->send(link->under, &piece, 1);
  if (sent > 0) link->capacity -= (size_t)sent;
  return sent;
}

static ssize_t narrow_receive(ring_link *base, const struct iovec *pieces, int count) {
  ring_link *under = ((narrow *)base)->under;
  return under->ops->receive(under, pieces, count);
}

static void narrow_close(ring_link *base) {
  ring_link *under = ((narrow *)base)->under;
  under->ops->close(under);
}

static const ring_link_ops narrow_ops = {
    .name = "tcp", .send = narrow_send, .receive = narrow_receive, .close = narrow_close};

static int given_key(SSL *ssl, const unsigned char *identity, size_t length,
                     SSL_SESSION **session) {
  static const unsigned char suite[] = {0x13, 0x01}, key[32] = "key";
  (void)identity, (void)length;
  *session = SSL_SESSION_new();
  CHECK(SSL_SESSION_set1_master_key(*session, key, sizeof key) == 1);
  CHECK(SSL_SESSION_set_cipher(*session, SSL_CIPHER_find(ssl, suite)) == 1);
  CHECK(SSL_SESSION_set_protocol_version(*session, TLS1_3_VERSION) == 1);
  return 1;
}

/* A server of OpenSSL's own that has the key, once the TLS handshake with a link is over. */
static SSL *keyed_peer(ring_link *link, int fd) {
  uint8_t in;
  SSL_CTX *context = SSL_CTX_new(TLS_method());
  SSL_CTX_set_psk_find_session_callback(context, given_key);
  SSL_CTX_set_num_tickets(context, 0);
  SSL *peer = SSL_new(context);
  SSL_CTX_free(context);
  CHECK(SSL_set_fd(peer, fd) == 1);
  SSL_set_accept_state(peer);
  for (int turns = 0; turns < 4; turns++) {
    CHECK(SSL_do_handshake(peer) == 1 || turns < 2);
    CHECK_INT(link_receive(link, &in, 1), 0);
  }
  return peer;
}

/* A peer that has the key and asks for new keys while a record is half sent: the answer goes before
 * the next record, and the peer's bytes are read, although the network takes neither now. */
static void test_new_keys_come_before_the_next_record(void) {
  int fd[2];
  uint8_t *out = text_of("a tensor ", 2000), in[2048];
  ring_secret key = {.bytes = "key"};
  CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
  for (int side = 0; side < 2; side++) CHECK_INT(fcntl(fd[side], F_SETFL, O_NONBLOCK), 0);
  narrow under = {{&narrow_ops, fd[0]}, ring_link_tcp(fd[0]), SIZE_MAX};
  ring_link *link = ring_link_tls(&under.base, true, &key);
  SSL *peer = keyed_peer(link, fd[1]);
  under.capacity = 100;
  CHECK_INT(link_send(link, out, 1000), 999);
  CHECK(SSL_key_update(peer, SSL_KEY_UPDATE_REQUESTED) == 1 && SSL_do_handshake(peer) == 1);
  CHECK_INT(link_receive(link, in, 1), 0);
  under.capacity = 1000 + 22 - 100 + 1;
  CHECK_INT(link_send(link, out + 999, 1001), 1000);
  CHECK_INT(SSL_write(peer, "both ways", 9), 9);
  CHECK_INT(link_receive(link, in, 9), 9);
  under.capacity = SIZE_MAX;
  CHECK_INT(link_send(link, out + 1999, 1), 1);
  CHECK_INT(SSL_read(peer, in, sizeof in), 1000);
  CHECK_INT(SSL_read(peer, in + 1000, 1048), 1000);
  CHECK_INT(memcmp(in, out, 2000), 0);
  SSL_free(peer);
  link->ops->close(link);
  close(fd[1]);
  free(out);
}

static void count_key_updates(int sent, int version, int kind, const void *bytes, size_t length,
                              SSL *ssl, void *updates) {
  (void)sent, (void)version, (void)ssl;
  if (kind == SSL3_RT_HANDSHAKE && length > 0 && *(const uint8_t *)bytes == SSL3_MT_KEY_UPDATE)
    ++*(int *)updates;
}

/* A key of AES-GCM is good for so many records (RFC 8446, 5.5), and jobs send more. */
static void test_keys_change_in_time(void) {
  int fd[2], updates = 0;
  ring_secret key = {.bytes = "key"};
  CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
  for (int side = 0; side < 2; side++) CHECK_INT(fcntl(fd[side], F_SETFL, O_NONBLOCK), 0);
  ring_link *link = ring_link_tls(ring_link_tcp(fd[0]), true, &key);
  SSL *peer = keyed_peer(link, fd[1]);
  SSL_set_msg_callback(peer, count_key_updates);
  SSL_set_msg_callback_arg(peer, &updates);
  for (int i = 0; i < 200000; i++) {
    uint8_t out = (uint8_t)(i * 7), in = 0;
    CHECK_INT(link_send(link, &out, 1), 1);
    CHECK_INT(SSL_read(peer, &in, 1), 1);
    CHECK_INT(in, out);
  }
  CHECK_INT(updates, 3);
  SSL_free(peer);
  link->ops->close(link);
  close(fd[1]);
}

int main(void) {
  RUN(test_nothing_can_be_read_on_the_way);
  RUN(test_streams_cut_into_single_bytes);
  RUN(test_another_key_is_refused);
  RUN(test_a_changed_bit_is_an_error);
  RUN(test_plain_bytes_are_refused);
  RUN(test_a_certificate_is_no_key);
  RUN(test_new_keys_come_before_the_next_record);
  RUN(test_keys_change_in_time);
  return 0;
}
