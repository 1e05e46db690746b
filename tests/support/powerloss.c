/* Preloaded into a process, notes in $POWERLOSS_LOG how much of each file has reached the disk: "S size path" after each
   sync, "R old<TAB>new" for each rename. With it a test can do what a power loss does: cut every file back to there.
   While the file $POWERLOSS_FAIL exists, every sync fails, as on a dying disk. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static void note(const char *text, size_t length) {
    const char *path = getenv("POWERLOSS_LOG");
    if (!path) return;
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0) abort();
    if (syscall(SYS_write, fd, text, length) != (long)length) abort();
    syscall(SYS_close, fd);
}

static int synced(const char *name, int fd) {
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    struct stat before;
    const char *fail = getenv("POWERLOSS_FAIL");
    if (fail && access(fail, F_OK) == 0) {
        errno = EIO;
        return -1;
    }
    /* What is written while the sync runs may have missed it: only the size from before it counts. */
    int known = fstat(fd, &before) == 0 && S_ISREG(before.st_mode);
    int result = real(fd);
    if (result == 0 && known) {
        char link[64], path[PATH_MAX], line[PATH_MAX + 64];
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        ssize_t length = readlink(link, path, sizeof path - 1);
        if (length > 0) {
            path[length] = 0;
            int size = snprintf(line, sizeof line, "S\t%lld\t%s\n", (long long)before.st_size, path);
            note(line, (size_t)size);
        }
    }
    return result;
}

int fsync(int fd) { return synced("fsync", fd); }
int fdatasync(int fd) { return synced("fdatasync", fd); }

int rename(const char *from, const char *to) {
    int (*real)(const char *, const char *) = (int (*)(const char *, const char *))dlsym(RTLD_NEXT, "rename");
    /* Before it happens: a kill between the two must not make a file that was synced under its old name count as lost. */
    char line[2 * PATH_MAX + 64];
    int size = snprintf(line, sizeof line, "R\t%s\t%s\n", from, to);
    note(line, (size_t)size);
    return real(from, to);
}
