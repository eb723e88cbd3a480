/* SPDX-License-Identifier: Apache-2.0
 *
 * A program of PMIx. The argument chooses what it does between PMIx_Init and PMIx_Finalize. It exits with the line in
 * which something was wrong.
 */
#include <pmix.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHECK(condition)                                                                           \
  do {                                                                                             \
    if (!(condition)) fail(__LINE__, #condition);                                                  \
  } while (0)

static pmix_proc_t me;
static uint32_t size;

static void fail(int line, const char *what) {
  fprintf(stderr, "line %d, rank %u: %s\n", line, me.rank, what);
  _exit(100);
}

static pmix_proc_t program(pmix_rank_t rank) {
  pmix_proc_t proc;
  PMIX_LOAD_PROCID(&proc, me.nspace, rank);
  return proc;
}

static void put(const char *key, const char *text) {
  pmix_value_t value = {.type = PMIX_STRING, .data.string = (char *)(uintptr_t)text};
  CHECK(PMIx_Put(PMIX_GLOBAL, key, &value) == PMIX_SUCCESS);
  CHECK(PMIx_Commit() == PMIX_SUCCESS);
}

static void expect(pmix_rank_t rank, const char *key, const char *text) {
  pmix_value_t *value = NULL;
  pmix_proc_t proc = program(rank);
  CHECK(PMIx_Get(&proc, key, NULL, 0, &value) == PMIX_SUCCESS);
  CHECK(value->type == PMIX_STRING && strcmp(value->data.string, text) == 0);
  PMIX_VALUE_RELEASE(value);
}

static void fence(bool collects) {
  pmix_proc_t all = program(PMIX_RANK_WILDCARD);
  pmix_info_t info;
  PMIX_INFO_LOAD(&info, PMIX_COLLECT_DATA, &collects, PMIX_BOOL);
  CHECK(PMIx_Fence(&all, 1, &info, 1) == PMIX_SUCCESS);
  PMIX_INFO_DESTRUCT(&info);
}

/* Each program puts a card, which all get: from the fence, or from where it is. */
static void exchange_cards(bool collects) {
  char key[32], text[4000]; /* PMIx 5 compresses longer ones, and leaves them so */
  for (int round = 0; round < 10; round++) {
    snprintf(key, sizeof key, "card-%d", round);
    memset(text, 'a' + round, sizeof text);
    snprintf(text + 2048, 64, "rank %u", me.rank);
    put(key, text);
    fence(collects);
    for (uint32_t rank = 0; rank < size; rank++) {
      snprintf(text + 2048, 64, "rank %u", rank);
      expect(rank, key, text);
    }
  }
}

/* Even programs and odd ones have fences of their own, as often as they like. */
static void fence_halves(void) {
  pmix_proc_t half[64];
  size_t count = 0;
  for (pmix_rank_t rank = me.rank % 2; rank < size; rank += 2) half[count++] = program(rank);
  for (uint32_t round = 0; round < 3 + 5 * (me.rank % 2); round++)
    CHECK(PMIx_Fence(half, count, NULL, 0) == PMIX_SUCCESS);
  fence(false);
}

static void use_names(void) {
  pmix_info_t info;
  pmix_pdata_t found;
  char *keys[] = {"ocean", NULL};
  PMIX_INFO_LOAD(&info, "ocean", "tag#0$1.2.3.4$ a", PMIX_STRING);
  if (me.rank == 0) CHECK(PMIx_Publish(&info, 1) == PMIX_SUCCESS);
  fence(false);
  CHECK(PMIx_Publish(&info, 1) != PMIX_SUCCESS);
  PMIX_PDATA_CONSTRUCT(&found);
  PMIX_LOAD_KEY(found.key, "ocean");
  CHECK(PMIx_Lookup(&found, 1, NULL, 0) == PMIX_SUCCESS);
  CHECK(strcmp(found.value.data.string, "tag#0$1.2.3.4$ a") == 0);
  PMIX_LOAD_KEY(found.key, "sea");
  CHECK(PMIx_Lookup(&found, 1, NULL, 0) == PMIX_ERR_NOT_FOUND);
  fence(false);
  if (me.rank == 0) CHECK(PMIx_Unpublish(keys, NULL, 0) == PMIX_SUCCESS);
  fence(false);
  PMIX_LOAD_KEY(found.key, "ocean");
  CHECK(PMIx_Lookup(&found, 1, NULL, 0) == PMIX_ERR_NOT_FOUND);
}

static const pmix_value_t *result_of(const pmix_info_t *results, size_t count, const char *key) {
  for (size_t i = 0; i < count; i++)
    if (PMIX_CHECK_KEY(&results[i], key)) return &results[i].value;
  CHECK(false);
  return NULL;
}

/* A group of some programs, ascending. Returns its context. */
static size_t use_group(const char *name, const pmix_proc_t *members, size_t count) {
  pmix_info_t assign, *results = NULL;
  size_t found = 0;
  PMIX_INFO_LOAD(&assign, PMIX_GROUP_ASSIGN_CONTEXT_ID, NULL, PMIX_BOOL);
  CHECK(PMIx_Group_construct(name, members, count, &assign, 1, &results, &found) == PMIX_SUCCESS);
  size_t context = result_of(results, found, PMIX_GROUP_CONTEXT_ID)->data.size;
  const pmix_data_array_t *all = result_of(results, found, PMIX_GROUP_MEMBERSHIP)->data.darray;
  CHECK(context > UINT32_MAX / 2 && context <= UINT32_MAX);
  CHECK(all->size == count);
  for (size_t i = 0; i < count; i++)
    CHECK(((const pmix_proc_t *)all->array)[i].rank == members[i].rank);
  PMIX_INFO_FREE(results, found);
  CHECK(PMIx_Group_destruct(name, NULL, 0) == PMIX_SUCCESS);
  return context;
}

/* A server of PMIx 4 refuses groups: programs of PMIx 5 could not read its answer. */
static void expect_no_groups(void) {
  size_t count = 0;
  pmix_info_t *results = NULL;
  CHECK(PMIx_Group_construct("mine", &me, 1, NULL, 0, &results, &count) == PMIX_ERR_NOT_SUPPORTED);
}

/* Groups of all programs, and of even and odd ones, which are constructed at the same time. */
static void use_groups(void) {
  pmix_proc_t all[64], half[64];
  size_t count = 0;
  for (pmix_rank_t rank = 0; rank < size; rank++) all[rank] = program(rank);
  for (pmix_rank_t rank = me.rank % 2; rank < size; rank += 2) half[count++] = program(rank);
  size_t first = use_group("all", all, size);
  CHECK(use_group("all", all, size) != first);
  CHECK(use_group(me.rank % 2 == 0 ? "even" : "odd", half, count) != first);
  fence(false);
}

static uint32_t number(const char *key, pmix_rank_t rank) {
  pmix_value_t *value = NULL;
  uint32_t result;
  pmix_proc_t proc = program(rank);
  pmix_status_t status = PMIx_Get(&proc, key, NULL, 0, &value);
  if (status != PMIX_SUCCESS)
    fprintf(stderr, "%s of %u: %s\n", key, rank, PMIx_Error_string(status));
  CHECK(status == PMIX_SUCCESS);
  CHECK(value->type == PMIX_UINT32 || value->type == PMIX_UINT16);
  result = value->type == PMIX_UINT32 ? value->data.uint32 : value->data.uint16;
  PMIX_VALUE_RELEASE(value);
  return result;
}

/* HOSTS has a character for each rank: its host. */
static void check_job(void) {
  const char *hosts = getenv("HOSTS");
  uint32_t here = 0, local_rank = 0, most = 0;
  for (uint32_t rank = 0; rank < size; rank++) {
    if (hosts[rank] == hosts[me.rank]) here++;
    if (hosts[rank] == hosts[me.rank] && rank < me.rank) local_rank++;
    if ((uint32_t)(hosts[rank] - '0') > most) most = (uint32_t)(hosts[rank] - '0');
  }
  CHECK(size == strlen(hosts));
  CHECK(number(PMIX_NODEID, me.rank) == (uint32_t)(hosts[me.rank] - '0'));
  CHECK(number(PMIX_LOCAL_SIZE, PMIX_RANK_WILDCARD) == here);
  CHECK(number(PMIX_NUM_NODES, PMIX_RANK_WILDCARD) == most + 1);
  CHECK(number(PMIX_LOCAL_RANK, me.rank) == local_rank);
  CHECK(number(PMIX_UNIV_SIZE, PMIX_RANK_WILDCARD) == size);
}

static void go_last(const char *what) {
  fence(false);
  if (me.rank == size - 1) {
    if (strcmp(what, "abort") == 0) _exit(PMIx_Abort(7, "no", NULL, 0) == PMIX_SUCCESS ? 7 : 97);
    if (strcmp(what, "leave") == 0) _exit(0);
    if (strcmp(what, "kill") == 0) abort();
    if (strcmp(what, "finalize") == 0) return;
  }
  fence(false);
}

int main(int argc, char **argv) {
  const char *what = argc > 1 ? argv[1] : "work";
  if (PMIx_Init(&me, NULL, 0) != PMIX_SUCCESS) return 99;
  size = number(PMIX_JOB_SIZE, PMIX_RANK_WILDCARD);
  if (strcmp(what, "work") == 0) {
    check_job();
    exchange_cards(true);
    fence_halves();
    use_names();
    if (atoi(strpbrk(PMIx_Get_version(), "0123456789")) < 5)
      expect_no_groups();
    else
      use_groups();
  } else if (strcmp(what, "fetch") == 0) {
    exchange_cards(false);
  } else {
    go_last(what);
  }
  return PMIx_Finalize(NULL, 0) == PMIX_SUCCESS ? 0 : 98;
}
