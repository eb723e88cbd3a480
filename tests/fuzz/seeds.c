/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes the seed corpus.
 *   fuzz_seeds FOLDER    makes FOLDER/<target>/<name>
 */
#include "seeds.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/address.h"
#include "base/bytes.h"

static const char *folder;

void seed_fail(const char *path) {
  perror(path);
  exit(1);
}

void seed_save(const char *target, const char *name, const void *bytes, size_t length) {
  char path[1024];
  snprintf(path, sizeof path, "%s/%s", folder, target);
  mkdir(path, 0777);
  snprintf(path, sizeof path, "%s/%s/%s", folder, target, name);
  FILE *file = fopen(path, "wb");
  if (file == NULL || fwrite(bytes, 1, length, file) != length || fclose(file) != 0)
    seed_fail(path);
}

static void save_text(const char *target, const char *name, const char *text) {
  seed_save(target, name, text, strlen(text));
}

void seed_add(seed *to, const void *bytes, size_t length) {
  memcpy(to->bytes + to->length, bytes, length);
  to->length += length;
}

void seed_add_byte(seed *to, unsigned byte) {
  to->bytes[to->length++] = (uint8_t)byte;
}

void seed_add_number(seed *to, uint64_t number, int width) {
  bytes_put(to->bytes + to->length, number, width);
  to->length += (size_t)width;
}

void seed_add_piece(seed *to, const seed *piece) {
  seed_add_number(to, piece->length, 2);
  seed_add(to, piece->bytes, piece->length);
}

static void save_texts(void) {
  static const char *const addresses[] = {"worker-1.example:7077", "[fe80::1%eth0]:9", "::1",
                                          "10.0.0.1"};
  static const char *const rules[] = {"allreduce:ring:64KiB-,broadcast:tree:-1MiB",
                                      "alltoall:bruck:1-2GiB, gatherv:direct"};
  static const char *const environments[] = {
      "SPARKRING_RANK=1\nSPARKRING_SIZE=2\nSPARKRING_ADDRESSES=a:1,[::1]:2\n"
      "SPARKRING_TOKEN=\x01\x02token\nSPARKRING_JOB=j\nSPARKRING_PORTS=1-9\nSPARKRING_TIMEOUT=2.5",
      "SLURM_STEP_ID=0\nSLURM_PROCID=1\nSLURM_NTASKS=4\nSLURM_JOB_ID=7\n"
      "SLURM_STEP_NODELIST=gpu[003-010,12],cpu1",
      "OMPI_COMM_WORLD_RANK=0\nOMPI_COMM_WORLD_SIZE=3\nOMPI_COMM_WORLD_LOCAL_SIZE=3\n"
      "PMIX_NAMESPACE=n",
      "RANK=0\nWORLD_SIZE=2\nMASTER_ADDR=h\nMASTER_PORT=1\nTORCHELASTIC_RUN_ID=r",
      "PMI_RANK=1\nPMI_SIZE=2\nMPI_LOCALNRANKS=1\nSPARKRING_ROOT_ADDRESS=h:5"};
  char name[2] = "a";
  for (size_t i = 0; i < sizeof addresses / sizeof *addresses; i++, name[0]++)
    save_text("fuzz_address", name, addresses[i]);
  for (size_t i = 0; i < sizeof rules / sizeof *rules; i++, name[0]++)
    save_text("fuzz_rules", name, rules[i]);
  for (size_t i = 0; i < sizeof environments / sizeof *environments; i++, name[0]++)
    save_text("fuzz_environment", name, environments[i]);
  uint8_t wire[64], *end = ring_address_pack(ring_address_pack(wire, "host-a"), "::1");
  seed_save("fuzz_address", "wire", wire, (size_t)(end - wire));
}

int main(int count, char **arguments) {
  if (count != 2) {
    fprintf(stderr, "usage: fuzz_seeds FOLDER\n");
    return 2;
  }
  folder = arguments[1];
  mkdir(folder, 0777);
  save_texts();
  seeds_links();
  seeds_pmi();
  seeds_rendezvous();
  seeds_values();
  seeds_batches();
  return 0;
}
