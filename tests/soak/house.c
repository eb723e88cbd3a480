/* SPDX-License-Identifier: Apache-2.0 */
#include "house.h"

#include <dirent.h>
#include <errno.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { HOUSE_TIME_WAIT = 6, HOUSE_TRIES = 200 };

/* ---- Moving in ---------------------------------------------------------------------------- */

/* Loopback of a new network namespace is down. */
static bool house_raise_loopback(void) {
  struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
  int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  bool raised = fd >= 0 && ioctl(fd, SIOCSIFFLAGS, &request) == 0;
  if (fd >= 0) close(fd);
  return raised;
}

static bool house_build(void) {
  const int spaces = CLONE_NEWNET | CLONE_NEWNS;
  if (unshare(spaces) != 0 && unshare(spaces | CLONE_NEWUSER) != 0) return false;
  if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0) return false;
  return mount("none", "/dev/shm", "tmpfs", 0, NULL) == 0;
}

bool house_enter(house *of) {
  snprintf(of->folder, sizeof of->folder, "/tmp/soak-XXXXXX");
  if (mkdtemp(of->folder) == NULL || setenv("TMPDIR", of->folder, 1) != 0) return false;
  if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) return false;
  of->own = house_build();
  if (!of->own)
    printf("soak: no namespaces of its own (%s): sockets and files in /dev/shm are not counted\n",
           strerror(errno));
  return !of->own || house_raise_loopback();
}

/* ---- Counting ----------------------------------------------------------------------------- */

/* Sockets of a list of /proc/net, which has a line of titles. */
static int house_sockets(const char *path, bool internet) {
  char line[512];
  int count = -1;
  FILE *list = fopen(path, "r");
  if (list == NULL) return 0; /* no IPv6 here */
  while (fgets(line, sizeof line, list) != NULL) {
    unsigned state = 0;
    bool waits =
        internet && sscanf(line, "%*s %*s %*s %x", &state) == 1 && state == HOUSE_TIME_WAIT;
    count += !waits;
  }
  fclose(list);
  return count;
}

static int house_files(const char *path) {
  int count = -2;
  DIR *folder = opendir(path);
  if (folder == NULL) return -1;
  while (readdir(folder) != NULL) count++;
  closedir(folder);
  return count;
}

house_things house_count(const house *of) {
  house_things things = {.temporary = house_files(of->folder)};
  if (!of->own) return things;
  things.internet = house_sockets("/proc/net/tcp", true) + house_sockets("/proc/net/tcp6", true) +
                    house_sockets("/proc/net/udp", false) + house_sockets("/proc/net/udp6", false);
  things.local = house_sockets("/proc/net/unix", false);
  things.shared = house_files("/dev/shm");
  return things;
}

bool house_is_clean(const house *of, const house_things *before) {
  const struct timespec moment = {.tv_nsec = 10000000};
  house_things now = house_count(of);
  for (int i = 0; i < HOUSE_TRIES && memcmp(&now, before, sizeof now) != 0; i++) {
    nanosleep(&moment, NULL);
    now = house_count(of);
  }
  if (memcmp(&now, before, sizeof now) == 0) return true;
  fprintf(stderr,
          "soak: %d internet sockets, %d local ones, %d files in /dev/shm and %d in TMPDIR, where "
          "there were %d, %d, %d and %d\n",
          now.internet, now.local, now.shared, now.temporary, before->internet, before->local,
          before->shared, before->temporary);
  return false;
}

/* ---- Moving out --------------------------------------------------------------------------- */

bool house_leave(house *of) {
  bool orphans = waitpid(-1, NULL, WNOHANG) != -1 || errno != ECHILD;
  bool empty = rmdir(of->folder) == 0;
  if (orphans) fprintf(stderr, "soak: ranks have left processes\n");
  if (!empty) fprintf(stderr, "soak: ranks have left files in %s\n", of->folder);
  return !orphans && empty;
}
