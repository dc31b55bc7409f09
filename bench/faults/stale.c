/* Preloaded into processes: some calls on files below a folder fail with ESTALE or EIO, as on a network file
 * system whose server was replaced. Reading, listing, opening, writing, flushing and renaming are concerned.
 *
 * STALE_BELOW   the folder, an absolute path
 * STALE_ONE_IN  one call in so many fails
 * STALE_WHILE   calls fail while this file exists
 * STALE_COUNT   gets a byte for each call that failed
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MOST 65536

static atomic_char below_fd[MOST];
static atomic_ulong state;
static atomic_int owner;

static uint64_t drawn(void) {
  if (owner != getpid()) { /* a forked process draws its own numbers */
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    owner = getpid();
    state = (uint64_t)now.tv_nsec << 20 ^ (uint64_t)owner;
  }
  uint64_t x = (state += 0x9E3779B97F4A7C15ull);
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

static int is_below(const char *path) {
  const char *folder = getenv("STALE_BELOW");
  if (!folder || !path) return 0;
  size_t length = strlen(folder);
  return !strncmp(path, folder, length) && (path[length] == '/' || !path[length]);
}

static int fails(void) {
  const char *one_in = getenv("STALE_ONE_IN"), *switched = getenv("STALE_WHILE"), *count = getenv("STALE_COUNT");
  uint64_t draw = drawn();
  if (!one_in || draw % strtoul(one_in, NULL, 10)) return 0;
  if (switched && syscall(SYS_access, switched, F_OK)) return 0;
  if (count) {
    int file = (int)syscall(SYS_openat, AT_FDCWD, count, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (file >= 0) {
      syscall(SYS_write, file, "x", 1);
      syscall(SYS_close, file);
    }
  }
  errno = draw >> 40 & 1 ? ESTALE : EIO;
  return 1;
}

static int marked(int fd) { return fd >= 0 && fd < MOST && below_fd[fd]; }

static int mark(int fd, const char *path) {
  if (fd >= 0 && fd < MOST) below_fd[fd] = (char)is_below(path);
  return fd;
}

#define REAL(name) \
  static __typeof__(name) *real; \
  if (!real) real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

#define OPEN(name) \
  int name(const char *path, int flags, ...) { \
    va_list more; \
    va_start(more, flags); \
    mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(more, mode_t) : 0; \
    va_end(more); \
    REAL(name); \
    if (is_below(path) && fails()) return -1; \
    return mark(real(path, flags, mode), path); \
  }
OPEN(open)
OPEN(open64)

#define OPENAT(name) \
  int name(int folder, const char *path, int flags, ...) { \
    va_list more; \
    va_start(more, flags); \
    mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(more, mode_t) : 0; \
    va_end(more); \
    REAL(name); \
    if (is_below(path) && fails()) return -1; \
    return mark(real(folder, path, flags, mode), path); \
  }
OPENAT(openat)
OPENAT(openat64)

int close(int fd) {
  REAL(close);
  if (fd >= 0 && fd < MOST) below_fd[fd] = 0;
  return real(fd);
}

ssize_t read(int fd, void *buffer, size_t size) {
  REAL(read);
  return marked(fd) && fails() ? -1 : real(fd, buffer, size);
}

ssize_t write(int fd, const void *buffer, size_t size) {
  REAL(write);
  return marked(fd) && fails() ? -1 : real(fd, buffer, size);
}

#define AT(name, constness) \
  ssize_t name(int fd, constness void *buffer, size_t size, off_t place) { \
    REAL(name); \
    return marked(fd) && fails() ? -1 : real(fd, buffer, size, place); \
  }
AT(pread, )
AT(pread64, )
AT(pwrite, const)
AT(pwrite64, const)

int fsync(int fd) {
  REAL(fsync);
  return marked(fd) && fails() ? -1 : real(fd);
}

#define STAT(name, kind) \
  int name(const char *path, struct kind *found) { \
    REAL(name); \
    return is_below(path) && fails() ? -1 : real(path, found); \
  }
STAT(stat, stat)
STAT(lstat, stat)
STAT(stat64, stat64)
STAT(lstat64, stat64)

int fstat(int fd, struct stat *found) {
  REAL(fstat);
  return marked(fd) && fails() ? -1 : real(fd, found);
}

int fstat64(int fd, struct stat64 *found) {
  REAL(fstat64);
  return marked(fd) && fails() ? -1 : real(fd, found);
}

int fstatat(int folder, const char *path, struct stat *found, int flags) {
  REAL(fstatat);
  return is_below(path) && fails() ? -1 : real(folder, path, found, flags);
}

int fstatat64(int folder, const char *path, struct stat64 *found, int flags) {
  REAL(fstatat64);
  return is_below(path) && fails() ? -1 : real(folder, path, found, flags);
}

DIR *opendir(const char *path) {
  REAL(opendir);
  return is_below(path) && fails() ? NULL : real(path);
}

int rename(const char *from, const char *to) {
  REAL(rename);
  return (is_below(from) || is_below(to)) && fails() ? -1 : real(from, to);
}

int mkdir(const char *path, mode_t mode) {
  REAL(mkdir);
  return is_below(path) && fails() ? -1 : real(path, mode);
}

int unlink(const char *path) {
  REAL(unlink);
  return is_below(path) && fails() ? -1 : real(path);
}
