/* Counts the calls that change files below some folders, and lets the Nth one fail or kill.
 *
 * Preloaded into every process of a trial; the counter lives in a mapping that they share
 * (LASTGOOD_FAULT_MAP), so that N counts over all of them. The Python side (injector.py) writes the
 * same structure. What only looks, at the first of the folders, is counted where that is asked for.
 * Children that are started with an emptied environment get the two variables back.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { ROOTS = 4, ROOT_SIZE = 512, HIT_SIZE = 1024, TRACE_SIZE = 1 << 18, KINDS = 20001 };
/* What a call does: it takes no room, takes some, takes as much as it writes, or changes nothing that a reader sees. */
enum { STAYS = 0, GROWS = 1, WRITES = 2, SYNCS = 3, AFTER_OTHERS = 16 };
enum { KILL = 0, FAIL = 1, FAIL_FROM = 2, SHORT = 3, PAUSE = 4, STOP = 5 };

struct plan {
    int64_t armed;
    int64_t count;
    int64_t at;
    int64_t mode;
    int64_t error;
    int64_t reached;
    int64_t tracing;
    int64_t traced;
    int64_t looks;
    char roots[ROOTS][ROOT_SIZE];
    char hit[HIT_SIZE];
    char trace[TRACE_SIZE];
    unsigned char kinds[KINDS]; /* of each call by its number; AFTER_OTHERS: since the one before, files elsewhere changed */
    unsigned char others;       /* of that, what is still to be said */
};

static struct plan *plan;
static char map_variable[PATH_MAX + 32];
static char preload_variable[PATH_MAX + 32];

__attribute__((constructor)) static void attach(void) {
    const char *path = getenv("LASTGOOD_FAULT_MAP");
    const char *preload = getenv("LD_PRELOAD");
    if (!path || !preload) return;
    snprintf(map_variable, sizeof map_variable, "LASTGOOD_FAULT_MAP=%s", path);
    snprintf(preload_variable, sizeof preload_variable, "LD_PRELOAD=%s", preload);
    int descriptor = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC);
    if (descriptor < 0) return;
    void *map = mmap(NULL, sizeof *plan, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    syscall(SYS_close, descriptor);
    if (map != MAP_FAILED) plan = map;
}

static int below(const char *path, int root) {
    size_t length = strlen(plan->roots[root]);
    return length && !strncmp(path, plan->roots[root], length) && (path[length] == '/' || !path[length]);
}

static int inside(const char *path) {
    for (int i = 0; i < ROOTS; i++) {
        if (below(path, i)) return 1;
    }
    return 0;
}

static void of_descriptor(int descriptor, char *out) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, out, PATH_MAX - 1);
    out[length < 0 ? 0 : length] = 0;
}

static void of_path(int directory, const char *path, char *out) {
    char base[PATH_MAX];
    if (!path) path = "";
    if (path[0] == '/') {
        snprintf(out, PATH_MAX, "%s", path);
        return;
    }
    if (directory == AT_FDCWD) {
        if (!getcwd(base, sizeof base)) base[0] = 0;
    } else {
        of_descriptor(directory, base);
    }
    snprintf(out, PATH_MAX, "%.2000s/%.2000s", base, path);
}

/* Returns 0 to go on, -1 with errno set to fail, 1 to write short. */
static int reached(const char *call, const char *path, int kind) {
    if (!inside(path)) {
        if (kind != SYNCS && path[0] == '/') __atomic_store_n(&plan->others, AFTER_OTHERS, __ATOMIC_SEQ_CST);
        return 0;
    }
    int64_t number = __atomic_add_fetch(&plan->count, 1, __ATOMIC_SEQ_CST);
    int grows = kind == GROWS || kind == WRITES;
    if (number < KINDS) {
        unsigned char others = __atomic_exchange_n(&plan->others, 0, __ATOMIC_SEQ_CST);
        plan->kinds[number] = (unsigned char)(kind | others);
    }
    if (plan->tracing) {
        char line[PATH_MAX + 64];
        int length = snprintf(line, sizeof line, "%ld %s %s\n", (long)number, call, path);
        int64_t offset = __atomic_fetch_add(&plan->traced, length, __ATOMIC_SEQ_CST);
        if (offset + length < TRACE_SIZE) memcpy(plan->trace + offset, line, (size_t)length);
    }
    if (plan->mode == FAIL_FROM && number > plan->at && plan->at > 0 && grows) {
        errno = (int)plan->error;
        return -1;
    }
    if (number != plan->at) return 0;
    snprintf(plan->hit, HIT_SIZE, "%s %s", call, path);
    if (plan->mode == STOP) { /* as by Ctrl-Z; whoever looks learns which process it is */
        __atomic_store_n(&plan->reached, (int64_t)getpid(), __ATOMIC_SEQ_CST);
        kill(getpid(), SIGSTOP);
        return 0;
    }
    __atomic_store_n(&plan->reached, 1, __ATOMIC_SEQ_CST);
    switch (plan->mode) {
    case KILL:
        kill(0, SIGKILL);
        for (;;) pause();
    case PAUSE:
        while (__atomic_load_n(&plan->reached, __ATOMIC_SEQ_CST) == 1) usleep(500);
        if (plan->mode == KILL) kill(0, SIGKILL); /* it was changed meanwhile */
        return 0;
    case SHORT:
        return kind == WRITES ? 1 : 0;
    case FAIL_FROM:
        if (!grows) return 0; /* a full disk does not stop what needs no space */
        errno = (int)plan->error;
        return -1;
    default:
        errno = (int)plan->error;
        return -1;
    }
}

static int at_path(const char *call, int directory, const char *path, int kind) {
    char full[PATH_MAX];
    if (!plan || !plan->armed) return 0;
    int saved = errno;
    of_path(directory, path, full);
    errno = saved;
    return reached(call, full, kind);
}

static int at_descriptor(const char *call, int descriptor, int kind) {
    char full[PATH_MAX];
    if (!plan || !plan->armed) return 0;
    int saved = errno;
    of_descriptor(descriptor, full);
    errno = saved;
    return reached(call, full, kind);
}

static int looks_at(const char *call, int directory, const char *path) {
    char full[PATH_MAX];
    if (!plan || !plan->armed || !plan->looks) return 0;
    int saved = errno;
    if (path && path[0]) {
        of_path(directory, path, full);
    } else {
        of_descriptor(directory, full);
    }
    errno = saved;
    return below(full, 0) ? reached(call, full, SYNCS) : 0;
}

#define NEXT(result, name, ...) \
    static result (*next)(__VA_ARGS__); \
    if (!next) next = (result(*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

static int changes(int flags) { return (flags & (O_CREAT | O_TRUNC)) != 0 || (flags & O_TMPFILE) == O_TMPFILE; }

#define OPEN(name) \
    int name(const char *path, int flags, ...) { \
        va_list rest; va_start(rest, flags); int mode = va_arg(rest, int); va_end(rest); \
        NEXT(int, #name, const char *, int, ...); \
        int verdict = changes(flags) ? at_path(#name, AT_FDCWD, path, GROWS) : looks_at(#name, AT_FDCWD, path); \
        if (verdict < 0) return -1; \
        return next(path, flags, mode); \
    }
OPEN(open)
OPEN(open64)

#define OPENAT(name) \
    int name(int directory, const char *path, int flags, ...) { \
        va_list rest; va_start(rest, flags); int mode = va_arg(rest, int); va_end(rest); \
        NEXT(int, #name, int, const char *, int, ...); \
        int verdict = changes(flags) ? at_path(#name, directory, path, GROWS) : looks_at(#name, directory, path); \
        if (verdict < 0) return -1; \
        return next(directory, path, flags, mode); \
    }
OPENAT(openat)
OPENAT(openat64)

#define CREAT(name) \
    int name(const char *path, mode_t mode) { \
        NEXT(int, #name, const char *, mode_t); \
        return at_path(#name, AT_FDCWD, path, GROWS) < 0 ? -1 : next(path, mode); \
    }
CREAT(creat)
CREAT(creat64)

ssize_t write(int descriptor, const void *bytes, size_t count) {
    NEXT(ssize_t, "write", int, const void *, size_t);
    int verdict = at_descriptor("write", descriptor, WRITES);
    if (verdict < 0) return -1;
    return next(descriptor, bytes, verdict && count > 1 ? count / 2 : count);
}

#define PWRITE(name, offset_type) \
    ssize_t name(int descriptor, const void *bytes, size_t count, offset_type offset) { \
        NEXT(ssize_t, #name, int, const void *, size_t, offset_type); \
        int verdict = at_descriptor(#name, descriptor, WRITES); \
        if (verdict < 0) return -1; \
        return next(descriptor, bytes, verdict && count > 1 ? count / 2 : count, offset); \
    }
PWRITE(pwrite, off_t)
PWRITE(pwrite64, off64_t)

ssize_t writev(int descriptor, const struct iovec *parts, int count) {
    NEXT(ssize_t, "writev", int, const struct iovec *, int);
    int verdict = at_descriptor("writev", descriptor, WRITES);
    if (verdict < 0) return -1;
    if (!verdict || count < 1) return next(descriptor, parts, count);
    struct iovec first = parts[0];
    if (first.iov_len > 1) first.iov_len /= 2;
    return next(descriptor, &first, 1);
}

#define PWRITEV(name, offset_type) \
    ssize_t name(int descriptor, const struct iovec *parts, int count, offset_type offset) { \
        NEXT(ssize_t, #name, int, const struct iovec *, int, offset_type); \
        return at_descriptor(#name, descriptor, GROWS) < 0 ? -1 : next(descriptor, parts, count, offset); \
    }
PWRITEV(pwritev, off_t)
PWRITEV(pwritev64, off64_t)

ssize_t copy_file_range(int from, off64_t *from_at, int to, off64_t *to_at, size_t count, unsigned flags) {
    NEXT(ssize_t, "copy_file_range", int, off64_t *, int, off64_t *, size_t, unsigned);
    int verdict = at_descriptor("copy_file_range", to, WRITES);
    if (verdict < 0) return -1;
    return next(from, from_at, to, to_at, verdict && count > 1 ? count / 2 : count, flags);
}

#define SENDFILE(name, offset_type) \
    ssize_t name(int to, int from, offset_type *offset, size_t count) { \
        NEXT(ssize_t, #name, int, int, offset_type *, size_t); \
        int verdict = at_descriptor(#name, to, WRITES); \
        if (verdict < 0) return -1; \
        return next(to, from, offset, verdict && count > 1 ? count / 2 : count); \
    }
SENDFILE(sendfile, off_t)
SENDFILE(sendfile64, off64_t)

#define ON_DESCRIPTOR(name, kind, parameters, arguments, types) \
    int name parameters { \
        NEXT(int, #name, types); \
        return at_descriptor(#name, descriptor, kind) < 0 ? -1 : next arguments; \
    }
#define TYPES(...) __VA_ARGS__
ON_DESCRIPTOR(fsync, SYNCS, (int descriptor), (descriptor), int)
ON_DESCRIPTOR(fdatasync, SYNCS, (int descriptor), (descriptor), int)
ON_DESCRIPTOR(syncfs, SYNCS, (int descriptor), (descriptor), int)
ON_DESCRIPTOR(fchmod, STAYS, (int descriptor, mode_t mode), (descriptor, mode), TYPES(int, mode_t))
ON_DESCRIPTOR(ftruncate, STAYS, (int descriptor, off_t size), (descriptor, size), TYPES(int, off_t))
ON_DESCRIPTOR(ftruncate64, STAYS, (int descriptor, off64_t size), (descriptor, size), TYPES(int, off64_t))
ON_DESCRIPTOR(fallocate, GROWS, (int descriptor, int mode, off_t at, off_t size), (descriptor, mode, at, size), TYPES(int, int, off_t, off_t))
ON_DESCRIPTOR(fallocate64, GROWS, (int descriptor, int mode, off64_t at, off64_t size), (descriptor, mode, at, size), TYPES(int, int, off64_t, off64_t))
ON_DESCRIPTOR(futimens, STAYS, (int descriptor, const struct timespec times[2]), (descriptor, times), TYPES(int, const struct timespec *))

/* These two answer with the error itself; a failing allocation in advance is only ever "full". */
#define ALLOCATE(name, offset_type) \
    int name(int descriptor, offset_type at, offset_type size) { \
        NEXT(int, #name, int, offset_type, offset_type); \
        return at_descriptor(#name, descriptor, GROWS) < 0 ? errno : next(descriptor, at, size); \
    }
ALLOCATE(posix_fallocate, off_t)
ALLOCATE(posix_fallocate64, off64_t)

#define ON_PATH(name, directory, kind, parameters, arguments, types) \
    int name parameters { \
        NEXT(int, #name, types); \
        return at_path(#name, directory, path, kind) < 0 ? -1 : next arguments; \
    }
ON_PATH(unlink, AT_FDCWD, STAYS, (const char *path), (path), const char *)
ON_PATH(unlinkat, at, STAYS, (int at, const char *path, int flags), (at, path, flags), TYPES(int, const char *, int))
ON_PATH(remove, AT_FDCWD, STAYS, (const char *path), (path), const char *)
ON_PATH(mkdir, AT_FDCWD, GROWS, (const char *path, mode_t mode), (path, mode), TYPES(const char *, mode_t))
ON_PATH(mkdirat, at, GROWS, (int at, const char *path, mode_t mode), (at, path, mode), TYPES(int, const char *, mode_t))
ON_PATH(rmdir, AT_FDCWD, STAYS, (const char *path), (path), const char *)
ON_PATH(chmod, AT_FDCWD, STAYS, (const char *path, mode_t mode), (path, mode), TYPES(const char *, mode_t))
ON_PATH(fchmodat, at, STAYS, (int at, const char *path, mode_t mode, int flags), (at, path, mode, flags), TYPES(int, const char *, mode_t, int))
ON_PATH(truncate, AT_FDCWD, STAYS, (const char *path, off_t size), (path, size), TYPES(const char *, off_t))
ON_PATH(truncate64, AT_FDCWD, STAYS, (const char *path, off64_t size), (path, size), TYPES(const char *, off64_t))
ON_PATH(utimensat, at, STAYS, (int at, const char *path, const struct timespec times[2], int flags), (at, path, times, flags), TYPES(int, const char *, const struct timespec *, int))
ON_PATH(link, AT_FDCWD, GROWS, (const char *from, const char *path), (from, path), TYPES(const char *, const char *))
ON_PATH(linkat, at, GROWS, (int from_at, const char *from, int at, const char *path, int flags), (from_at, from, at, path, flags), TYPES(int, const char *, int, const char *, int))
ON_PATH(symlink, AT_FDCWD, GROWS, (const char *target, const char *path), (target, path), TYPES(const char *, const char *))
ON_PATH(symlinkat, at, GROWS, (const char *target, int at, const char *path), (target, at, path), TYPES(const char *, int, const char *))
ON_PATH(rename, AT_FDCWD, GROWS, (const char *path, const char *to), (path, to), TYPES(const char *, const char *))
ON_PATH(renameat, at, GROWS, (int at, const char *path, int to_at, const char *to), (at, path, to_at, to), TYPES(int, const char *, int, const char *))
ON_PATH(renameat2, at, GROWS, (int at, const char *path, int to_at, const char *to, unsigned flags), (at, path, to_at, to, flags), TYPES(int, const char *, int, const char *, unsigned))
ON_PATH(mknod, AT_FDCWD, GROWS, (const char *path, mode_t mode, dev_t device), (path, mode, device), TYPES(const char *, mode_t, dev_t))

int statx(int at, const char *restrict path, int flags, unsigned mask, struct statx *restrict out) {
    NEXT(int, "statx", int, const char *, int, unsigned, struct statx *);
    return looks_at("statx", at, path) < 0 ? -1 : next(at, path, flags, mask, out);
}

int fstatat64(int at, const char *restrict path, struct stat64 *restrict out, int flags) {
    NEXT(int, "fstatat64", int, const char *, struct stat64 *, int);
    return looks_at("fstatat64", at, path) < 0 ? -1 : next(at, path, out, flags);
}

int fstat64(int descriptor, struct stat64 *out) {
    NEXT(int, "fstat64", int, struct stat64 *);
    return looks_at("fstat64", descriptor, NULL) < 0 ? -1 : next(descriptor, out);
}

DIR *fdopendir(int descriptor) {
    NEXT(DIR *, "fdopendir", int);
    return looks_at("fdopendir", descriptor, NULL) < 0 ? NULL : next(descriptor);
}

int msync(void *start, size_t length, int flags) {
    NEXT(int, "msync", void *, size_t, int);
    return next(start, length, flags);
}

/* Children started with an emptied environment are watched too. */
enum { VARIABLES = 4096 };

static char *const *watched(char *const *environment, char **room) {
    size_t count = 0;
    if (!plan || !map_variable[0]) return environment;
    for (; environment && environment[count] && count < VARIABLES - 3; count++) {
        if (!strncmp(environment[count], "LASTGOOD_FAULT_MAP=", 19)) return environment;
        room[count] = environment[count];
    }
    room[count++] = map_variable;
    room[count++] = preload_variable;
    room[count] = NULL;
    return room;
}

int execve(const char *path, char *const arguments[], char *const environment[]) {
    char *room[VARIABLES];
    NEXT(int, "execve", const char *, char *const[], char *const[]);
    return next(path, arguments, watched(environment, room));
}

#define SPAWN(name) \
    int name(pid_t *child, const char *path, const posix_spawn_file_actions_t *actions, \
             const posix_spawnattr_t *attributes, char *const arguments[], char *const environment[]) { \
        char *room[VARIABLES]; \
        NEXT(int, #name, pid_t *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *, \
             char *const[], char *const[]); \
        return next(child, path, actions, attributes, arguments, watched(environment, room)); \
    }
SPAWN(posix_spawn)
SPAWN(posix_spawnp)
