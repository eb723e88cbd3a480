/* SPDX-License-Identifier: Apache-2.0
 *
 * The encrypted transport: TLS 1.3 (RFC 8446) over another link, after the handshake of the core.
 * The key that the handshake derived is the pre-shared key, and there are no certificates: a process
 * without the key can neither be an end of the link nor stand between the ends. Fresh Diffie-Hellman shares
 * protect recorded traffic against a secret that leaks later. OpenSSL does all of it; this file
 * makes it a link.
 *
 * The TLS handshake advances inside every verb, so both ends have to be polled until it is done.
 *
 * A record that the socket takes only in part must be finished before any other record. All of it
 * but its last byte counts as sent, so that a rank that fails meanwhile sees that a frame is half
 * sent, and finishes it. The last byte counts as sent with the end of the record.
 */
#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "transport/link.h"

#define TLS_RECORD ((size_t)SSL3_RT_MAX_PLAIN_LENGTH)
#define TLS_IDENTITY "sparkring"
#define TLS_CIPHER "TLS_AES_128_GCM_SHA256"
#define TLS_RECORDS (1 << 16) /* under one key: far fewer than its limit (RFC 8446, 5.5) */

typedef struct tls_link {
  ring_link base;
  ring_link_ops ops;
  ring_link *under;
  int code; /* errno of the last call of `under`, or 0 */
  SSL *ssl;
  ring_secret key;
  unsigned records; /* sent under this key */
  size_t owed;      /* length of the record that the socket has taken only in part, or 0 */
  short wants;      /* POLLIN or POLLOUT that OpenSSL needs besides the events asked for */
  bool settled;     /* both ends have proved the key, which is wiped */
  bool found;       /* accepting side: the connecting side has named the key */
  bool lacked;      /* memory: the link is unusable */
  bool refused;     /* the peer's bytes: the link is unusable */
  size_t kept;      /* bytes of `turn` that the socket has not taken yet */
  uint8_t turn[64]; /* a KeyUpdate message */
  uint8_t record[SSL3_RT_MAX_PLAIN_LENGTH]; /* to gather pieces */
} tls_link;

/* ---- The key ------------------------------------------------------------------------------ */

static SSL_SESSION *tls_session(SSL *ssl) {
  static const unsigned char suite[] = {0x13, 0x01}; /* TLS_AES_128_GCM_SHA256 */
  const tls_link *link = SSL_get_app_data(ssl);
  SSL_SESSION *session = SSL_SESSION_new();
  if (session == NULL) return NULL;
  if (SSL_SESSION_set1_master_key(session, link->key.bytes, sizeof link->key.bytes) == 1 &&
      SSL_SESSION_set_cipher(session, SSL_CIPHER_find(ssl, suite)) == 1 &&
      SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1)
    return session;
  SSL_SESSION_free(session);
  return NULL;
}

static int tls_use_key(SSL *ssl, const EVP_MD *digest, const unsigned char **identity,
                       size_t *length, SSL_SESSION **session) {
  (void)digest;
  *identity = (const unsigned char *)TLS_IDENTITY;
  *length = strlen(TLS_IDENTITY);
  *session = tls_session(ssl);
  return *session != NULL;
}

static int tls_find_key(SSL *ssl, const unsigned char *identity, size_t length,
                        SSL_SESSION **session) {
  *session = NULL;
  if (length != strlen(TLS_IDENTITY) || memcmp(identity, TLS_IDENTITY, length) != 0) return 1;
  *session = tls_session(ssl);
  ((tls_link *)SSL_get_app_data(ssl))->found = *session != NULL;
  return *session != NULL;
}

/* Refuses every certificate: a server might ignore the key and show one, which any process can make. */
static int tls_refuse_certificate(X509_STORE_CTX *certificate, void *unused) {
  (void)certificate, (void)unused;
  return 0;
}

/* OpenSSL sends this alert when it fails without the peer's fault. Its own reasons are many, and
 * few of them name a lack of memory. */
static void tls_notice(const SSL *ssl, int where, int what) {
  tls_link *link = SSL_get_app_data(ssl);
  if ((where & SSL_CB_WRITE_ALERT) == SSL_CB_WRITE_ALERT && (what & 0xff) == SSL_AD_INTERNAL_ERROR)
    link->lacked = true;
}

/* One protocol and one cipher, whatever the system's openssl.cnf allows. Sessions are never
 * resumed. */
static SSL_CTX *tls_context(void) {
  SSL_CTX *context = SSL_CTX_new(TLS_method());
  if (context == NULL) return NULL;
  if (SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) != 1 ||
      SSL_CTX_set_max_proto_version(context, TLS1_3_VERSION) != 1 ||
      SSL_CTX_set_ciphersuites(context, TLS_CIPHER) != 1 ||
      SSL_CTX_set_num_tickets(context, 0) != 1) {
    SSL_CTX_free(context);
    return NULL;
  }
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION);
  SSL_CTX_clear_options(context, SSL_OP_ALLOW_NO_DHE_KEX);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_psk_use_session_callback(context, tls_use_key);
  SSL_CTX_set_psk_find_session_callback(context, tls_find_key);
  SSL_CTX_set_cert_verify_callback(context, tls_refuse_certificate, NULL);
  SSL_CTX_set_info_callback(context, tls_notice);
  return context;
}

/* ---- The link below ----------------------------------------------------------------------- */

/* Translates the result of the link below for OpenSSL. */
static int tls_moved(BIO *bio, ssize_t moved, int retry) {
  tls_link *link = BIO_get_data(bio);
  BIO_clear_retry_flags(bio);
  link->code = moved < 0 ? (int)-moved : 0;
  if (moved > 0) return (int)moved;
  if (moved == 0) BIO_set_flags(bio, retry | BIO_FLAGS_SHOULD_RETRY);
  return -1;
}

/* Sends the kept message. More than 0 when nothing is left of it. */
static ssize_t tls_send_kept(tls_link *link) {
  while (link->kept > 0) {
    struct iovec piece = {link->turn, link->kept};
    ssize_t moved = link->under->ops->send(link->under, &piece, 1);
    if (moved <= 0) return moved;
    link->kept -= (size_t)moved;
    memmove(link->turn, link->turn + moved, link->kept);
  }
  return 1;
}

/* OpenSSL reads nothing while it sends a KeyUpdate, so two ends with full sockets would block each
 * other. A KeyUpdate that the socket does not take is kept, and sent before the next record. */
static int tls_bio_write(BIO *bio, const char *bytes, int length) {
  tls_link *link = BIO_get_data(bio);
  struct iovec piece = {(void *)(uintptr_t)bytes, (size_t)length};
  ssize_t moved = tls_send_kept(link);
  if (moved > 0) moved = link->under->ops->send(link->under, &piece, 1);
  size_t left = moved > 0 ? (size_t)(length - moved) : (size_t)length;
  bool turns = link->settled && !SSL_is_init_finished(link->ssl);
  if (turns && moved >= 0 && left > 0 && link->kept == 0 && left <= sizeof link->turn) {
    memcpy(link->turn, bytes + (length - (int)left), left);
    link->kept = left;
    moved = length;
  }
  return tls_moved(bio, moved, BIO_FLAGS_WRITE);
}

static int tls_bio_read(BIO *bio, char *bytes, int length) {
  tls_link *link = BIO_get_data(bio);
  struct iovec piece = {bytes, (size_t)length};
  return tls_moved(bio, link->under->ops->receive(link->under, &piece, 1), BIO_FLAGS_READ);
}

static long tls_bio_control(BIO *bio, int command, long number, void *pointer) {
  (void)bio, (void)number, (void)pointer;
  return command == BIO_CTRL_FLUSH ? 1 : 0;
}

static pthread_once_t tls_once = PTHREAD_ONCE_INIT;
static BIO_METHOD *tls_method; /* for the life of the process; NULL without memory */

static void tls_make_method(void) {
  BIO_METHOD *method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "sparkring link");
  if (method == NULL) return;
  BIO_meth_set_write(method, tls_bio_write);
  BIO_meth_set_read(method, tls_bio_read);
  BIO_meth_set_ctrl(method, tls_bio_control);
  tls_method = method;
}

static bool tls_connect(tls_link *link) {
  pthread_once(&tls_once, tls_make_method);
  BIO *bio = tls_method != NULL ? BIO_new(tls_method) : NULL;
  if (bio == NULL) return false;
  BIO_set_data(bio, link);
  BIO_set_init(bio, 1);
  SSL_set_bio(link->ssl, bio, bio);
  return true;
}

/* ---- Moving ------------------------------------------------------------------------------- */

/* After both ends have proved the key: wipes it, also in OpenSSL's session. */
static void tls_forget_key(tls_link *link) {
  static const unsigned char nothing[RING_SECRET_BYTES];
  SSL_SESSION *session = SSL_get_session(link->ssl);
  if (session != NULL) SSL_SESSION_set1_master_key(session, nothing, sizeof nothing);
  ring_secret_wipe(&link->key, sizeof link->key);
  link->settled = true;
}

/* Whether an error is this side's own, mostly a lack of memory. Errors of the peer have reasons of
 * the TLS library. Reasons that all libraries of OpenSSL share mean that a part of OpenSSL failed,
 * and "missing fatal" means that a step failed without a reason. Without memory OpenSSL also
 * ignores a key that it has found, and then lacks a signature. */
static bool tls_is_own(const tls_link *link, unsigned long code) {
  int reason = ERR_GET_REASON(code);
#if OPENSSL_VERSION_NUMBER >= 0x30000000L
  bool shared = ERR_COMMON_ERROR(code);
#else
  bool shared = reason < 100;
#endif
  bool passed_over = link->found && reason == SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM;
  return shared ||
         (ERR_GET_LIB(code) == ERR_LIB_SSL && (passed_over || reason == SSL_R_MISSING_FATAL));
}

/* Empties OpenSSL's error queue. True when it holds an error of this side. */
static bool tls_lacked(const tls_link *link) {
  bool lacked = false;
  for (unsigned long code = ERR_get_error(); code != 0; code = ERR_get_error())
    lacked = tls_is_own(link, code) || lacked;
  return lacked;
}

/* Translates the result of OpenSSL for a link. The error queue belongs to the thread, so it is
 * emptied: other code that uses OpenSSL would take errors left in it for its own. */
static ssize_t tls_result(tls_link *link, int done, size_t moved) {
  if (!link->settled && SSL_is_init_finished(link->ssl)) tls_forget_key(link);
  link->wants = 0;
  if (done == 1) return (ssize_t)moved;
  int reason = SSL_get_error(link->ssl, done);
  link->lacked = tls_lacked(link) || link->lacked;
  switch (reason) {
  case SSL_ERROR_WANT_READ:
    link->wants = POLLIN;
    return 0;
  case SSL_ERROR_WANT_WRITE:
    link->wants = POLLOUT;
    return 0;
  case SSL_ERROR_ZERO_RETURN:
    return -EPIPE;
  case SSL_ERROR_SYSCALL:
    if (link->code != 0) return -link->code;
    /* Neither the link below nor the peer failed: a step of OpenSSL failed without a reason. */
    link->lacked = link->lacked || !link->refused;
    return link->lacked ? -ENOMEM : -EPROTO;
  default:
    link->refused = !link->lacked;
    return link->lacked ? -ENOMEM : -EPROTO;
  }
}

/* The bytes of the pieces from `at` on, at most one record, contiguous. */
static const void *tls_gather(tls_link *link, const struct iovec *pieces, int count, size_t at,
                              size_t *length) {
  *length = 0;
  for (int i = 0; i < count && *length < TLS_RECORD; i++) {
    size_t whole = pieces[i].iov_len, skip = at < whole ? at : whole;
    const uint8_t *from = (const uint8_t *)pieces[i].iov_base + skip;
    size_t part = whole - skip, capacity = TLS_RECORD - *length;
    at -= skip;
    if (part > capacity) part = capacity;
    if (*length == 0 && (part == capacity || i == count - 1)) {
      *length = part;
      return from;
    }
    if (part > 0) memcpy(link->record + *length, from, part);
    *length += part;
  }
  return link->record;
}

/* Sends one record. A record that is half sent is owed (see above). No record begins before the TLS
 * handshake, or the answer to a KeyUpdate, has been sent. */
static ssize_t tls_send_record(tls_link *link, const void *bytes, size_t length) {
  size_t written = 0;
  bool begun = link->owed > 0;
  ERR_clear_error();
  if (!begun && link->records >= TLS_RECORDS &&
      SSL_key_update(link->ssl, SSL_KEY_UPDATE_NOT_REQUESTED) == 1)
    link->records = 0;
  int done = SSL_write_ex(link->ssl, bytes, begun ? link->owed : length, &written);
  ssize_t result = tls_result(link, done, begun ? 1 : written);
  if (result > 0) {
    link->owed = 0;
    link->records++;
  }
  if (result != 0 || begun || !SSL_is_init_finished(link->ssl)) return result;
  link->owed = length;
  return (ssize_t)length - 1;
}

static ssize_t tls_send(ring_link *base, const struct iovec *pieces, int count) {
  tls_link *link = (tls_link *)base;
  size_t sent = 0;
  for (;;) {
    size_t length;
    const void *bytes = tls_gather(link, pieces, count, sent, &length);
    if (length == 0) return (ssize_t)sent;
    ssize_t result = tls_send_record(link, bytes, length);
    if (result <= 0) return sent > 0 ? (ssize_t)sent : result;
    sent += (size_t)result;
    if (link->owed > 0) return (ssize_t)sent;
  }
}

static ssize_t tls_receive(ring_link *base, const struct iovec *pieces, int count) {
  tls_link *link = (tls_link *)base;
  size_t moved = 0;
  for (int i = 0; i < count; i++)
    for (size_t done = 0, got; done < pieces[i].iov_len; done += got, moved += got) {
      ERR_clear_error();
      int well = SSL_read_ex(link->ssl, (uint8_t *)pieces[i].iov_base + done,
                             pieces[i].iov_len - done, &got);
      ssize_t result = tls_result(link, well, got);
      if (result <= 0) return moved > 0 ? (ssize_t)moved : result;
    }
  return (ssize_t)moved;
}

static ssize_t tls_peek(ring_link *base, void *bytes, size_t length) {
  tls_link *link = (tls_link *)base;
  size_t got = 0;
  ERR_clear_error();
  int done = SSL_peek_ex(link->ssl, bytes, length, &got);
  return tls_result(link, done, got);
}

/* A poll does not see bytes that are decrypted already. POLLOUT makes it return at once, nearly
 * always. */
static short tls_arm(ring_link *base, short events) {
  const tls_link *link = (const tls_link *)base;
  if (events != 0 && !SSL_is_init_finished(link->ssl)) events = POLLIN;
  if ((events & POLLIN) && SSL_pending(link->ssl) > 0) events |= POLLOUT;
  return link->under->ops->arm(link->under, events != 0 ? (short)(events | link->wants) : 0);
}

/* ---- Ending ------------------------------------------------------------------------------- */

static void tls_finish(ring_link *base) {
  tls_link *link = (tls_link *)base;
  ERR_clear_error();
  if (SSL_is_init_finished(link->ssl)) SSL_shutdown(link->ssl);
  ERR_clear_error();
  link->under->ops->finish(link->under);
}

static uint32_t tls_silence(ring_link *base) {
  const tls_link *link = (const tls_link *)base;
  return link->under->ops->silence(link->under);
}

static bool tls_arrived(ring_link *base) {
  const tls_link *link = (const tls_link *)base;
  return link->under->ops->arrived(link->under);
}

static void tls_free(tls_link *link) {
  SSL_free(link->ssl);
  ring_secret_wipe(link, sizeof *link);
  free(link);
}

static void tls_close(ring_link *base) {
  tls_link *link = (tls_link *)base;
  link->under->fd = base->fd; /* -1: another link owns it */
  link->under->ops->close(link->under);
  tls_free(link);
}

/* The name of the link below, with "tls" for "tcp". */
static const char *tls_name(const ring_link *under) {
  static const char *const names[] = {
      "tls",    "tls x2",  "tls x3",  "tls x4",  "tls x5",  "tls x6",  "tls x7",  "tls x8",
      "tls x9", "tls x10", "tls x11", "tls x12", "tls x13", "tls x14", "tls x15", "tls x16"};
  size_t at = sizeof names / sizeof names[0] - 1, kind = strlen("tls");
  while (at > 0 && strcmp(names[at] + kind, under->ops->name + kind) != 0) at--;
  return names[at];
}

ring_link *ring_link_tls(ring_link *under, bool connecting, const ring_secret *key) {
  tls_link *link = calloc(1, sizeof *link);
  SSL_CTX *context = tls_context();
  if (link == NULL) {
    SSL_CTX_free(context);
    return NULL;
  }
  link->ops = (ring_link_ops){tls_name(under), tls_send,  tls_receive, tls_peek,    tls_arm,
                              tls_finish,      tls_close, tls_silence, tls_arrived, false};
  link->base = (ring_link){.ops = &link->ops, .fd = under->fd};
  link->under = under;
  link->key = *key;
  link->ssl = context != NULL ? SSL_new(context) : NULL; /* holds a reference to the context */
  SSL_CTX_free(context);
  if (link->ssl == NULL || SSL_set_app_data(link->ssl, link) != 1 || !tls_connect(link)) {
    tls_free(link);
    return NULL;
  }
  SSL_set_verify(link->ssl, connecting ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, NULL);
  if (!connecting) SSL_set_accept_state(link->ssl);
  ERR_clear_error();
  /* The connecting side sends its hello at once, so that the other side's poll returns. */
  if (connecting && tls_result(link, SSL_connect(link->ssl), 1) == -ENOMEM) {
    tls_free(link);
    return NULL;
  }
  return &link->base;
}
