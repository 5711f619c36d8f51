/* A disk that fails once, for programs that are started with LD_PRELOAD:
 *
 *     FAULT_PATH=WORD     only files whose path contains the word are counted
 *     FAULT_COUNT=FILE    each write, fsync, rename, link, mkdir and creation of such a file appends a line to this file
 *     FAULT_AT=N          the Nth of these calls, over all processes, fails
 *     FAULT_HOW=ENOSPC|EIO|crash
 *     FAULT_MORE=K        for ENOSPC and EIO: the K calls after it fail, too (a disk that stays full for a while)
 *
 * The line says what the call was, so a test can tell which moment it hit. Appends of a few bytes are atomic, and the
 * number of a call is that of its line.
 *
 *     cc -shared -fPIC -o faults.so faults.c -ldl
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static ssize_t (*real_write)(int, const void *, size_t);
static ssize_t (*real_writev)(int, const struct iovec *, int);
static int (*real_fsync)(int);
static int (*real_rename)(const char *, const char *);
static int (*real_linkat)(int, const char *, int, const char *, int);
static int (*real_open64)(const char *, int, ...);
static int (*real_mkdir)(const char *, mode_t);
static ssize_t (*real_copy_file_range)(int, off64_t *, int, off64_t *, size_t, unsigned);

__attribute__((constructor)) static void find(void) {
    real_write = dlsym(RTLD_NEXT, "write");
    real_writev = dlsym(RTLD_NEXT, "writev");
    real_fsync = dlsym(RTLD_NEXT, "fsync");
    real_rename = dlsym(RTLD_NEXT, "rename");
    real_linkat = dlsym(RTLD_NEXT, "linkat");
    real_open64 = dlsym(RTLD_NEXT, "open64");
    real_mkdir = dlsym(RTLD_NEXT, "mkdir");
    real_copy_file_range = dlsym(RTLD_NEXT, "copy_file_range");
}

/* Counts a call; nonzero if it has to fail, with errno set. */
static int fails(const char *call, const char *path) {
    const char *word = getenv("FAULT_PATH"), *file = getenv("FAULT_COUNT");
    if (!word || !file || !path || !strstr(path, word)) return 0;
    int saved = errno;
    int count = real_open64(file, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (count < 0) return 0;
    char line[PATH_MAX + 64], buffer[4096];
    int length = snprintf(line, sizeof line, "%s %s\n", call, path);
    flock(count, LOCK_EX);
    long number = 1;
    ssize_t got;
    lseek(count, 0, SEEK_SET);
    while ((got = read(count, buffer, sizeof buffer)) > 0)
        for (ssize_t i = 0; i < got; i++) number += buffer[i] == '\n';
    if (real_write(count, line, (size_t)length) < 0) number = 0;
    flock(count, LOCK_UN);
    close(count);
    errno = saved;
    const char *at = getenv("FAULT_AT"), *how = getenv("FAULT_HOW"), *more = getenv("FAULT_MORE");
    long first = at ? atol(at) : 0, last = first + (more ? atol(more) : 0);
    if (!first || !how || number < first) return 0;
    if (strcmp(how, "crash") == 0) {
        if (number > first) return 0;
        kill(getpid(), SIGKILL);
        pause();
    }
    if (number > last) return 0;
    errno = strcmp(how, "EIO") == 0 ? EIO : strcmp(how, "EACCES") == 0 ? EACCES : ENOSPC;
    return 1;
}

/* The path of an open file. */
static const char *path_of(int descriptor, char *out) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, out, PATH_MAX - 1);
    if (length < 0) return NULL;
    out[length] = 0;
    return out;
}

ssize_t write(int descriptor, const void *bytes, size_t count) {
    char path[PATH_MAX];
    if (getenv("FAULT_PATH") && fails("write", path_of(descriptor, path))) return -1;
    return real_write(descriptor, bytes, count);
}

ssize_t writev(int descriptor, const struct iovec *parts, int count) {
    char path[PATH_MAX];
    if (getenv("FAULT_PATH") && fails("write", path_of(descriptor, path))) return -1;
    return real_writev(descriptor, parts, count);
}

ssize_t copy_file_range(int from, off64_t *at, int to, off64_t *there, size_t count, unsigned flags) {
    char path[PATH_MAX];
    if (getenv("FAULT_PATH") && fails("write", path_of(to, path))) return -1;
    return real_copy_file_range(from, at, to, there, count, flags);
}

int fsync(int descriptor) {
    char path[PATH_MAX];
    if (getenv("FAULT_PATH") && fails("fsync", path_of(descriptor, path))) return -1;
    return real_fsync(descriptor);
}

int rename(const char *old, const char *new) {
    if (fails("rename", new)) return -1;
    return real_rename(old, new);
}

int linkat(int from, const char *old, int to, const char *new, int flags) {
    if (fails("link", new)) return -1;
    return real_linkat(from, old, to, new, flags);
}

int mkdir(const char *path, mode_t mode) {
    if (fails("mkdir", path)) return -1;
    return real_mkdir(path, mode);
}

int open64(const char *path, int flags, ...) {
    mode_t mode = 0;
    if (flags & O_CREAT) {
        va_list more;
        va_start(more, flags);
        mode = va_arg(more, mode_t);
        va_end(more);
        if (fails("create", path)) return -1;
    }
    return real_open64(path, flags, mode);
}
