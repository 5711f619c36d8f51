/* The manners of Linux's NFS client, for programs that are started with LD_PRELOAD and NFS_ROOT=DIRECTORY:
 *
 * - rename flags are refused with EINVAL;
 * - a file that any process has open is not deleted but renamed to .nfsNNNN, also when another file takes its name,
 *   and such a file cannot be deleted (EBUSY) until it is closed, which is when it goes by itself;
 * - so a directory with such a file cannot be removed (ENOTEMPTY).
 *
 * Only calls through the C library are seen. Paths outside of NFS_ROOT are left alone.
 *
 *     cc -shared -fPIC -o manners.so manners.c -ldl
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int (*real_unlinkat)(int, const char *, int);
static int (*real_renameat)(int, const char *, int, const char *);

__attribute__((constructor)) static void find(void) {
    real_unlinkat = dlsym(RTLD_NEXT, "unlinkat");
    real_renameat = dlsym(RTLD_NEXT, "renameat");
}

/* The absolute path of a name that is relative to a directory. */
static int resolve(int at, const char *name, char *out) {
    char base[PATH_MAX], link[64];
    if (name[0] == '/') return snprintf(out, PATH_MAX, "%s", name) < PATH_MAX ? 0 : -1;
    if (at == AT_FDCWD) {
        if (!getcwd(base, sizeof base)) return -1;
    } else {
        snprintf(link, sizeof link, "/proc/self/fd/%d", at);
        ssize_t length = readlink(link, base, sizeof base - 1);
        if (length < 0) return -1;
        base[length] = 0;
    }
    return snprintf(out, PATH_MAX, "%s/%s", base, name) < PATH_MAX ? 0 : -1;
}

static int on_volume(const char *path) {
    const char *root = getenv("NFS_ROOT");
    return root && *root && strncmp(path, root, strlen(root)) == 0;
}

static int is_number(const char *text) { return *text && strspn(text, "0123456789") == strlen(text); }

/* Whether any process has the file open. */
static int is_open(const struct stat *file) {
    DIR *processes = opendir("/proc");
    int found = 0;
    for (struct dirent *process; processes && !found && (process = readdir(processes));) {
        char path[PATH_MAX];
        if (!is_number(process->d_name)) continue;
        snprintf(path, sizeof path, "/proc/%s/fd", process->d_name);
        DIR *descriptors = opendir(path);
        for (struct dirent *one; descriptors && !found && (one = readdir(descriptors));) {
            struct stat other;
            if (!is_number(one->d_name) || fstatat(dirfd(descriptors), one->d_name, &other, 0)) continue;
            found = other.st_dev == file->st_dev && other.st_ino == file->st_ino;
        }
        if (descriptors) closedir(descriptors);
    }
    if (processes) closedir(processes);
    return found;
}

static int is_left_over(const char *path) {
    const char *name = strrchr(path, '/');
    return strncmp(name ? name + 1 : path, ".nfs", 4) == 0;
}

/* Renames an open file out of the way. */
static int keep(const char *path) {
    static unsigned number;
    char aside[PATH_MAX];
    const char *name = strrchr(path, '/');
    int length = name ? (int)(name - path) : 0;
    int written = snprintf(aside, sizeof aside, "%.*s/.nfs%08x%08x", length, path, (unsigned)getpid(), ++number);
    if (written < 0 || written >= (int)sizeof aside) return -1;
    return real_renameat(AT_FDCWD, path, AT_FDCWD, aside);
}

/* Left-overs that nobody has open any more are not there. */
static void sweep(const char *path) {
    DIR *entries = opendir(path);
    for (struct dirent *entry; entries && (entry = readdir(entries));) {
        struct stat file;
        if (strncmp(entry->d_name, ".nfs", 4) != 0) continue;
        if (fstatat(dirfd(entries), entry->d_name, &file, AT_SYMLINK_NOFOLLOW) == 0 && !is_open(&file))
            real_unlinkat(dirfd(entries), entry->d_name, 0);
    }
    if (entries) closedir(entries);
}

int unlinkat(int at, const char *name, int flags) {
    char path[PATH_MAX];
    struct stat file;
    if (resolve(at, name, path) || !on_volume(path)) return real_unlinkat(at, name, flags);
    if (flags & AT_REMOVEDIR) {
        sweep(path);
        return real_unlinkat(at, name, flags);
    }
    if (lstat(path, &file) || !S_ISREG(file.st_mode) || !is_open(&file)) return real_unlinkat(at, name, flags);
    if (is_left_over(path)) {
        errno = EBUSY;
        return -1;
    }
    return keep(path);
}

int unlink(const char *name) { return unlinkat(AT_FDCWD, name, 0); }
int rmdir(const char *name) { return unlinkat(AT_FDCWD, name, AT_REMOVEDIR); }

int renameat(int from, const char *old, int to, const char *new) {
    char path[PATH_MAX];
    struct stat file;
    if (resolve(to, new, path) == 0 && on_volume(path) && lstat(path, &file) == 0) {
        if (S_ISREG(file.st_mode) && is_open(&file) && keep(path)) return -1;
        if (S_ISDIR(file.st_mode)) sweep(path);
    }
    return real_renameat(from, old, to, new);
}

int rename(const char *old, const char *new) { return renameat(AT_FDCWD, old, AT_FDCWD, new); }

int renameat2(int from, const char *old, int to, const char *new, unsigned flags) {
    if (flags) {
        errno = EINVAL;
        return -1;
    }
    return renameat(from, old, to, new);
}
