/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages of PMIx, in bytes: between a lead and its PMIx server, a process of its own, and between ranks. The lead of
 * a host is its first rank. The PMIx server includes this file, too, so it knows nothing of communicators. Bytes are
 * checked as those of an outsider.
 */
#ifndef RING_PMI_PMIX_MESSAGE_H
#define RING_PMI_PMIX_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RING_PMIX_VERSION 2                /* of the messages, which the first one has */
#define RING_PMIX_MOST (UINT32_C(1) << 30) /* bytes of a message */
#define RING_PMIX_PROBLEM 256              /* bytes of a reason, with its end */

/* The first byte of a message. */
enum {
  /* Between a lead and its PMIx server. */
  RING_PMIX_JOB = 'j', /* to the server, the first message: value: the version; a ring_pmix_job */
  RING_PMIX_ENVIRONMENT =
      'v',               /* rank: what its program needs in the environment, "NAME=value\0" each */
  RING_PMIX_READY = 'y', /* the server has sent all environments */
  RING_PMIX_REFUSED = 'x',   /* the server cannot serve: a reason */
  RING_PMIX_CONNECTED = 'c', /* rank: its program has called PMIx_Init */
  RING_PMIX_FINALIZED = 'z', /* rank: its program has called PMIx_Finalize */
  RING_PMIX_ABORTED = 'a',   /* rank: its program has called PMIx_Abort; value: the exit code */
  RING_PMIX_ANSWER = 'r',    /* to the server: value: good; what the request with the ticket gets */

  /* From a PMIx server to its lead, from there to the hub, and back with the same kind. */
  RING_PMIX_FENCE = 'F',   /* described below */
  RING_PMIX_MODEX = 'M',   /* rank: whose data; to its lead and server, value: the lead that asks */
  RING_PMIX_FETCHED = 'D', /* rank: the lead that asked; value: whether there is data */
  RING_PMIX_NAME = 'N',    /* value: a ring_pmix_name; key and value; its answer, value: good */

  /* Between ranks. */
  RING_PMIX_ACTIVE = 'A', /* to the hub: the program of this rank has called PMIx_Init */
  RING_PMIX_STATE = 'S',  /* to a rank: value: a ring_pmi_state; rank: the exit code */
  RING_PMIX_KNOWN = 'K'   /* to the lead: the rank has shown the state */
};

/* A fence has in `value` how many ranks take part, 0: all; and as bytes the ranks, ascending, the name of a group with
 * its '\0', which is empty for a plain fence, and the data of a host. To a lead it has in `value` how many hosts there
 * are, in `rank` a number that no other fence has, which the answer has, too; and as bytes the tickets of the hosts and
 * the data of all. */

typedef enum ring_pmix_name {
  RING_PMIX_PUBLISH,  /* "key\0value\0" */
  RING_PMIX_LOOKUP,   /* "key\0": the answer is the value */
  RING_PMIX_UNPUBLISH /* "key\0" */
} ring_pmix_name;

typedef struct ring_pmix_message {
  uint64_t ticket; /* of a request: the answer has the same */
  int32_t rank, value;
  const char *bytes;
  size_t length;
} ring_pmix_message;

/* ---- One message -------------------------------------------------------------------------- */

enum { RING_PMIX_FIELDS = 16, RING_PMIX_HEAD = 4 + 1 + RING_PMIX_FIELDS };

/* Writes and reads what stands between the kind and the bytes. Reading is false when there are too few bytes. */
uint8_t *ring_pmix_message_write(uint8_t *to, const ring_pmix_message *message);
bool ring_pmix_message_read(const char *bytes, size_t length, ring_pmix_message *message);

/* Writes the head of a message on a stream: length, kind, fields. The length of its bytes is at most RING_PMIX_MOST. */
void ring_pmix_message_head(uint8_t head[RING_PMIX_HEAD], char kind,
                            const ring_pmix_message *message);

/* Reads the message that a stream begins with. Its size; 0: there is not all of it yet; -1: it is invalid. */
long ring_pmix_message_next(const char *bytes, size_t length, char *kind,
                            ring_pmix_message *message);

/* Whether a message that a PMIx server sends is what its kind promises, in a job of `size` ranks. The hub checks what
 * leads pass on by it. */
bool ring_pmix_message_is_good(char kind, const ring_pmix_message *message, int size);

/* The rank at a place of a fence's list, which a good message has. */
int ring_pmix_message_rank(const char *ranks, int place);

/* The bytes before the data of a host in a fence, whose message is good: what all hosts of a fence have in common. */
size_t ring_pmix_message_fence_head(const ring_pmix_message *message);

/* ---- The job ------------------------------------------------------------------------------ */

typedef struct ring_pmix_job {
  const char *name;      /* of the run */
  const char *directory; /* of the server */
  int size, hosts, host; /* ranks, hosts, this host */
  int *nodes;         /* by rank: its host; hosts are numbered in the order of their first ranks */
  const char **names; /* by host: a name that no other host has */
} ring_pmix_job;

/* The bytes of the job's message, to be freed; NULL without memory. */
char *ring_pmix_job_write(const ring_pmix_job *job, size_t *length);

/* Reads them: strings stay in `bytes`, arrays are freed by ring_pmix_job_free. False when they are no job, or without
 * memory. */
bool ring_pmix_job_read(const char *bytes, size_t length, ring_pmix_job *job);
void ring_pmix_job_free(ring_pmix_job *job);

#endif
