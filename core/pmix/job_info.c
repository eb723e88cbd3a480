/* SPDX-License-Identifier: Apache-2.0 */
#include "pmix/job_info.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { JOB_ENTRIES = 14, JOB_PROGRAM_ENTRIES = 9 };

/* A string that grows; NULL without memory, and then for ever. */
typedef struct job_text {
  char *text;
  FILE *stream;
  size_t length;
} job_text;

static bool job_text_begin(job_text *text) {
  *text = (job_text){0};
  text->stream = open_memstream(&text->text, &text->length);
  return text->stream != NULL;
}

/* The text, to be freed; NULL without memory. */
static char *job_text_end(job_text *text) {
  bool good = !ferror(text->stream);
  if (fclose(text->stream) == 0 && good) return text->text;
  free(text->text);
  return NULL;
}

/* "a,b,c": the names of the hosts. */
static char *job_names(const ring_pmix_job *job) {
  job_text text;
  if (!job_text_begin(&text)) return NULL;
  for (int host = 0; host < job->hosts; host++)
    fprintf(text.stream, "%s%s", host > 0 ? "," : "", job->names[host]);
  return job_text_end(&text);
}

/* Writes "0,2": the ranks of a host. Returns how many. */
static int job_write_ranks(const ring_pmix_job *job, int host, FILE *stream) {
  int count = 0;
  for (int rank = 0; rank < job->size; rank++)
    if (job->nodes[rank] == host) fprintf(stream, "%s%d", count++ > 0 ? "," : "", rank);
  return count;
}

/* "0,2;1,3": the ranks of all hosts. */
static char *job_ranks(const ring_pmix_job *job) {
  job_text text;
  if (!job_text_begin(&text)) return NULL;
  for (int host = 0; host < job->hosts; host++) {
    if (host > 0) fputc(';', text.stream);
    job_write_ranks(job, host, text.stream);
  }
  return job_text_end(&text);
}

/* The ranks of this host, and *count. */
static char *job_peers(const ring_pmix_job *job, int *count) {
  job_text text;
  if (!job_text_begin(&text)) return NULL;
  *count = job_write_ranks(job, job->host, text.stream);
  return job_text_end(&text);
}

/* The maps of hosts and ranks, in the form that PMIx has made of them. */
static bool job_load_maps(const ring_pmix_job *job, pmix_info_t *hosts, pmix_info_t *ranks) {
  char *names = job_names(job), *programs = job_ranks(job), *host_map = NULL, *rank_map = NULL;
  bool good = names != NULL && programs != NULL &&
              PMIx_generate_regex(names, &host_map) == PMIX_SUCCESS &&
              PMIx_generate_ppn(programs, &rank_map) == PMIX_SUCCESS;
  if (good) {
    PMIX_INFO_LOAD(hosts, PMIX_NODE_MAP, host_map, PMIX_REGEX);
    PMIX_INFO_LOAD(ranks, PMIX_PROC_MAP, rank_map, PMIX_REGEX);
  }
  free(names);
  free(programs);
  free(host_map);
  free(rank_map);
  return good;
}

/* The place of a rank among those of its host. */
static uint16_t job_local_rank(const ring_pmix_job *job, int rank) {
  uint16_t place = 0;
  for (int other = 0; other < rank; other++)
    if (job->nodes[other] == job->nodes[rank]) place++;
  return place;
}

static void job_load_program(const ring_pmix_job *job, int rank, pmix_info_t *entry) {
  pmix_data_array_t array;
  PMIX_DATA_ARRAY_CONSTRUCT(&array, JOB_PROGRAM_ENTRIES, PMIX_INFO);
  pmix_info_t *facts = array.array;
  if (facts == NULL) return;
  pmix_rank_t number = (pmix_rank_t)rank;
  uint32_t none = 0, node = (uint32_t)job->nodes[rank];
  uint16_t place = job_local_rank(job, rank);
  PMIX_INFO_LOAD(&facts[0], PMIX_RANK, &number, PMIX_PROC_RANK); /* has to be the first */
  PMIX_INFO_LOAD(&facts[1], PMIX_APPNUM, &none, PMIX_UINT32);
  PMIX_INFO_LOAD(&facts[2], PMIX_GLOBAL_RANK, &number, PMIX_PROC_RANK);
  PMIX_INFO_LOAD(&facts[3], PMIX_APP_RANK, &number, PMIX_PROC_RANK);
  PMIX_INFO_LOAD(&facts[4], PMIX_LOCAL_RANK, &place, PMIX_UINT16);
  PMIX_INFO_LOAD(&facts[5], PMIX_NODE_RANK, &place, PMIX_UINT16);
  PMIX_INFO_LOAD(&facts[6], PMIX_NODEID, &node, PMIX_UINT32);
  PMIX_INFO_LOAD(&facts[7], PMIX_HOSTNAME, job->names[node], PMIX_STRING);
  PMIX_INFO_LOAD(&facts[8], PMIX_REINCARNATION, &none, PMIX_UINT32);
  PMIX_INFO_LOAD(entry, PMIX_PROC_DATA, &array, PMIX_DATA_ARRAY);
  PMIX_DATA_ARRAY_DESTRUCT(&array);
}

static void job_load_sizes(const ring_pmix_job *job, int local, pmix_info_t *entries) {
  uint32_t size = (uint32_t)job->size, hosts = (uint32_t)job->hosts, here = (uint32_t)local;
  uint32_t one = 1;
  PMIX_INFO_LOAD(&entries[0], PMIX_JOB_SIZE, &size, PMIX_UINT32);
  PMIX_INFO_LOAD(&entries[1], PMIX_UNIV_SIZE, &size, PMIX_UINT32);
  PMIX_INFO_LOAD(&entries[2], PMIX_MAX_PROCS, &size, PMIX_UINT32);
  PMIX_INFO_LOAD(&entries[3], PMIX_NUM_NODES, &hosts, PMIX_UINT32);
  PMIX_INFO_LOAD(&entries[4], PMIX_LOCAL_SIZE, &here, PMIX_UINT32);
  PMIX_INFO_LOAD(&entries[5], PMIX_NODE_SIZE, &here, PMIX_UINT32);
  PMIX_INFO_LOAD(&entries[6], PMIX_JOB_NUM_APPS, &one, PMIX_UINT32);
}

pmix_info_t *ring_pmix_job_info_make(const ring_pmix_job *job, size_t *count, int *local) {
  pmix_info_t *entries;
  bool clean = true;
  char *peers = job_peers(job, local);
  *count = JOB_ENTRIES + (size_t)job->size;
  PMIX_INFO_CREATE(entries, *count);
  if (entries == NULL || peers == NULL || !job_load_maps(job, &entries[0], &entries[1])) {
    free(peers);
    if (entries != NULL) PMIX_INFO_FREE(entries, *count);
    return NULL;
  }
  PMIX_INFO_LOAD(&entries[2], PMIX_LOCAL_PEERS, peers, PMIX_STRING);
  PMIX_INFO_LOAD(&entries[3], PMIX_JOBID, job->name, PMIX_STRING);
  job_load_sizes(job, *local, &entries[4]);
  PMIX_INFO_LOAD(&entries[11], PMIX_TMPDIR, job->directory, PMIX_STRING);
  PMIX_INFO_LOAD(&entries[12], PMIX_NSDIR, job->directory, PMIX_STRING);
  PMIX_INFO_LOAD(&entries[13], PMIX_TDIR_RMCLEAN, &clean, PMIX_BOOL);
  for (int rank = 0; rank < job->size; rank++)
    job_load_program(job, rank, &entries[JOB_ENTRIES + rank]);
  free(peers);
  return entries;
}
