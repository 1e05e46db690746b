/* Preloaded into a node under test: a disk that can be full, slow or broken, and that remembers what was synced.

   What it does is said at run time in the file $QUORATE_DISK_CONTROL, which it maps (see `struct control`; the Python side is
   disk.py). Only files below $QUORATE_DISK_ROOT are touched, so that the node's log and its sockets work as ever.

   After each sync the size of the file goes into a table in the same file, by the hash of its path. So whoever kills the
   process can do what a power loss does: cut every file back to there. The table survives the process. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define SLOTS (1 << 16)
#define HEAD_BYTES 4096

struct control {
    volatile int64_t slow_sync_ms; /* every sync takes at least so long */
    volatile int64_t sync_errno;   /* every sync fails with this */
    volatile int64_t write_errno;  /* every write fails with this; with ENOSPC nothing is free either */
    volatile int64_t syncs;        /* how many syncs were asked for */
    volatile int64_t refused;      /* how many calls were made to fail */
    volatile int64_t overflow;     /* how many files found no place in the table */
};

struct slot {
    volatile uint64_t path; /* FNV-1a of the path, never 0; 0: free */
    volatile int64_t synced;
};

static struct control *control;
static struct slot *table;
static char root[PATH_MAX];
static size_t root_length;

static ssize_t (*real_write)(int, const void *, size_t);
static ssize_t (*real_pwrite)(int, const void *, size_t, off_t);
static ssize_t (*real_writev)(int, const struct iovec *, int);
static int (*real_fsync)(int);
static int (*real_fdatasync)(int);
static int (*real_rename)(const char *, const char *);
static int (*real_statvfs)(const char *, struct statvfs *);
static int (*real_fstatvfs)(int, struct statvfs *);

static void find_real(void) {
    if (real_write) return;
    *(void **)&real_pwrite = dlsym(RTLD_NEXT, "pwrite64");
    *(void **)&real_writev = dlsym(RTLD_NEXT, "writev");
    *(void **)&real_fsync = dlsym(RTLD_NEXT, "fsync");
    *(void **)&real_fdatasync = dlsym(RTLD_NEXT, "fdatasync");
    *(void **)&real_rename = dlsym(RTLD_NEXT, "rename");
    *(void **)&real_statvfs = dlsym(RTLD_NEXT, "statvfs64");
    *(void **)&real_fstatvfs = dlsym(RTLD_NEXT, "fstatvfs64");
    *(void **)&real_write = dlsym(RTLD_NEXT, "write");
}

__attribute__((constructor)) static void begin(void) {
    const char *file = getenv("QUORATE_DISK_CONTROL"), *below = getenv("QUORATE_DISK_ROOT");
    find_real();
    if (!file || !below) return;
    int fd = open(file, O_RDWR | O_CLOEXEC);
    if (fd < 0) return;
    void *map = mmap(NULL, HEAD_BYTES + SLOTS * sizeof(struct slot), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    syscall(SYS_close, fd);
    if (map == MAP_FAILED || !realpath(below, root)) return;
    root_length = strlen(root);
    table = (struct slot *)((char *)map + HEAD_BYTES);
    control = map;
}

/* Whether the path is below the root. */
static int is_ours(const char *path) {
    return strncmp(path, root, root_length) == 0 && (path[root_length] == '/' || path[root_length] == 0);
}

/* The path of an open file below the root; 0 for everything else. */
static int path_of(int fd, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    if (length <= 0) return 0;
    path[length] = 0;
    return is_ours(path);
}

static uint64_t hash_of(const char *path) {
    uint64_t hash = 14695981039346656037ull;
    for (; *path; path++) hash = (hash ^ (unsigned char)*path) * 1099511628211ull;
    return hash ? hash : 1;
}

static struct slot *slot_of(uint64_t hash, int make) {
    for (uint64_t tried = 0; tried < SLOTS; tried++) {
        struct slot *slot = &table[(hash + tried) % SLOTS];
        if (slot->path == hash) return slot;
        if (slot->path == 0) {
            if (!make) return NULL;
            if (__sync_bool_compare_and_swap(&slot->path, 0, hash) || slot->path == hash) return slot;
        }
    }
    if (make) __sync_fetch_and_add(&control->overflow, 1);
    return NULL;
}

static int refuse(int64_t code) {
    __sync_fetch_and_add(&control->refused, 1);
    errno = (int)code;
    return -1;
}

static void pause_ms(int64_t ms) {
    struct timespec left = {ms / 1000, ms % 1000 * 1000000};
    while (nanosleep(&left, &left) != 0 && errno == EINTR) {}
}

static int synced(int (*real)(int), int fd) {
    char path[PATH_MAX];
    struct stat before;
    if (!control || !path_of(fd, path)) return real(fd);
    __sync_fetch_and_add(&control->syncs, 1);
    if (control->slow_sync_ms > 0) pause_ms(control->slow_sync_ms);
    if (control->sync_errno) return refuse(control->sync_errno);
    /* What is written while the sync runs may have missed it: only the size from before it counts. */
    int known = fstat(fd, &before) == 0 && S_ISREG(before.st_mode);
    int result = real(fd);
    if (result == 0 && known) {
        struct slot *slot = slot_of(hash_of(path), 1);
        if (slot) slot->synced = before.st_size;
    }
    return result;
}

int fsync(int fd) { find_real(); return synced(real_fsync, fd); }
int fdatasync(int fd) { find_real(); return synced(real_fdatasync, fd); }

int rename(const char *from, const char *to) {
    char old_path[PATH_MAX], folder[PATH_MAX], new_path[2 * PATH_MAX];
    find_real();
    /* Before it happens: a kill between the two must not make a file that was synced under its old name count as lost. */
    if (control && realpath(from, old_path) && is_ours(old_path)) {
        const char *name = strrchr(to, '/');
        snprintf(folder, sizeof folder, "%.*s", name ? (int)(name - to) : 1, name ? to : ".");
        char *resolved = realpath(folder, NULL);
        struct slot *old = slot_of(hash_of(old_path), 0);
        if (resolved) {
            snprintf(new_path, sizeof new_path, "%s/%s", resolved, name ? name + 1 : to);
            struct slot *fresh = slot_of(hash_of(new_path), 1);
            if (fresh) fresh->synced = old ? old->synced : 0;
            free(resolved);
        }
    }
    return real_rename(from, to);
}

/* Whether a write to this file has to fail. */
static int must_fail(int fd) {
    char path[PATH_MAX];
    return control && control->write_errno && path_of(fd, path);
}

ssize_t write(int fd, const void *data, size_t size) {
    find_real();
    return must_fail(fd) ? refuse(control->write_errno) : real_write(fd, data, size);
}

ssize_t pwrite64(int fd, const void *data, size_t size, off_t at) {
    find_real();
    return must_fail(fd) ? refuse(control->write_errno) : real_pwrite(fd, data, size, at);
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t at) { return pwrite64(fd, data, size, at); }

ssize_t writev(int fd, const struct iovec *parts, int count) {
    find_real();
    return must_fail(fd) ? refuse(control->write_errno) : real_writev(fd, parts, count);
}

static int show_full(int result, struct statvfs *said) {
    if (result == 0 && control && control->write_errno == ENOSPC) said->f_bfree = said->f_bavail = 0;
    return result;
}

static int statvfs_ours(const char *path, struct statvfs *said) {
    char resolved[PATH_MAX];
    int result = real_statvfs(path, said);
    return control && realpath(path, resolved) && is_ours(resolved) ? show_full(result, said) : result;
}

int statvfs64(const char *path, struct statvfs64 *said) { find_real(); return statvfs_ours(path, (struct statvfs *)said); }
int statvfs(const char *path, struct statvfs *said) { find_real(); return statvfs_ours(path, said); }

int fstatvfs64(int fd, struct statvfs64 *said) {
    char path[PATH_MAX];
    find_real();
    int result = real_fstatvfs(fd, (struct statvfs *)said);
    return control && path_of(fd, path) ? show_full(result, (struct statvfs *)said) : result;
}

int fstatvfs(int fd, struct statvfs *said) { return fstatvfs64(fd, (struct statvfs64 *)said); }
