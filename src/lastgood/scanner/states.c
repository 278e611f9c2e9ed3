/* Asks for the states of what lies in directories, without a step of Python's for each of them.
 *
 * A library of its own, which knows nothing of Python: states.py says how it is called and what of, and does
 * without it where it was not built. Nothing here follows a link. */

#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64
#define _TIME_BITS 64

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* What is said of one entry is kept in so many bytes, those of one after another. */
enum { ENTRY_BYTES = 8 + 8 + 8 + 4 + 8 + 4 + 2 };

/* Folders are open while those in them are looked at, so many at most. */
enum { DEEPEST = 64 };

/* What a thread needs for that, and what the C library takes of it, many times over. */
enum { STACK_BYTES = 256 * 1024 };

struct known_folder {
    uint32_t depth; /* how many folders it lies in, the top in none; the one above comes before it */
    uint32_t flags;
    uint32_t name_bytes, names_bytes, states_bytes;
    uint32_t is_proven; /* whether these prove its names: mode, size, both times in nanoseconds, inode */
    uint64_t mode, size, mtime, ctime, inode;
    /* Follow its name, a NUL, the names in it with a NUL after each, and what was said of them. */
};

struct question {
    uint64_t device;
    uint32_t folders;
    uint32_t doubt; /* of these flags a folder with one is not as it was, whatever is said */
    uint32_t most;  /* how many may be otherwise */
    uint32_t share; /* so many folders are taken at a time */
};

struct finding {
    uint32_t folder;
    uint32_t states_bytes; /* of what is said of the entries, at its place; all bits if its names are not proven */
    int32_t descriptor;
    uint32_t place;
};

/* As states.py writes and reads them. */
_Static_assert(sizeof(struct known_folder) == 64, "known_folder");
_Static_assert(sizeof(struct question) == 24, "question");
_Static_assert(sizeof(struct finding) == 16, "finding");

static unsigned char *put(unsigned char *at, const void *value, size_t width)
{
    memcpy(at, value, width);
    return at + width;
}

/* Write what is said of one entry, of a directory its mode alone; return where that ends. */
static unsigned char *write_state(unsigned char *at, const struct stat *seen)
{
    int is_directory = S_ISDIR(seen->st_mode);
    uint64_t inode = is_directory ? 0 : (uint64_t)seen->st_ino;
    uint64_t size = is_directory ? 0 : (uint64_t)seen->st_size;
    int64_t ctime = is_directory ? 0 : (int64_t)seen->st_ctim.tv_sec;
    uint32_t ctime_part = is_directory ? 0 : (uint32_t)seen->st_ctim.tv_nsec;
    int64_t mtime = is_directory ? 0 : (int64_t)seen->st_mtim.tv_sec;
    uint32_t mtime_part = is_directory ? 0 : (uint32_t)seen->st_mtim.tv_nsec;
    uint16_t mode = (uint16_t)seen->st_mode;

    at = put(at, &inode, sizeof inode);
    at = put(at, &size, sizeof size);
    at = put(at, &ctime, sizeof ctime);
    at = put(at, &ctime_part, sizeof ctime_part);
    at = put(at, &mtime, sizeof mtime);
    at = put(at, &mtime_part, sizeof mtime_part);
    return put(at, &mode, sizeof mode);
}

/* Write what is said of each of the `count` names, joined by NULs, in an open directory.
 *
 * Return 1 if anything but a directory has several links, else 0; -1 if one could not be asked. */
int lastgood_states(int directory, const char *names, int count, unsigned char *states)
{
    int has_links = 0;

    for (int one = 0; one < count; one++) {
        struct stat seen;
        if (fstatat(directory, names, &seen, AT_SYMLINK_NOFOLLOW))
            return -1;
        if (seen.st_nlink != 1 && !S_ISDIR(seen.st_mode))
            has_links = 1;
        states = write_state(states, &seen);
        names += strlen(names) + 1;
    }
    return has_links;
}

/* Return the lowest 64 bits of a time, as states.py has them: some need more. */
static uint64_t nanoseconds(struct timespec time)
{
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/* Tell whether an open folder is the one that was seen, with the times that prove its names. */
static int is_as_seen(int directory, uint64_t device, const struct known_folder *known)
{
    struct stat seen;

    return !fstat(directory, &seen) && seen.st_dev == device && seen.st_mode == known->mode &&
           (uint64_t)seen.st_size == known->size && nanoseconds(seen.st_mtim) == known->mtime &&
           nanoseconds(seen.st_ctim) == known->ctime && seen.st_ino == known->inode;
}

/* The folders that are open: the first `here` of those that the next one lies in, below the root. */
struct way {
    int here;
    int above[DEEPEST + 1], is_kept[DEEPEST + 1];
};

/* Close what lies further down than so many folders, unless it is kept. */
static void go_up(struct way *way, int depth)
{
    for (; way->here > depth; way->here--)
        if (!way->is_kept[way->here])
            close(way->above[way->here]);
}

/* Open a folder in the one where we are; 0 if that is refused. */
static int go_down(struct way *way, const char *name)
{
    int directory = openat(way->above[way->here], name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (directory < 0)
        return 0;
    way->above[++way->here] = directory;
    way->is_kept[way->here] = 0;
    return 1;
}

/* Find the folders that are not as they were, and leave them open.
 *
 * Each is opened by its name in the one above, which is open. It is asked for itself after what is in it: what
 * proves its names does so until all have been asked. `states` has room for what is said of the entries of all
 * folders, `findings` for the most that may be otherwise. Whoever looks takes a share of folders after another
 * by `taken`, which is 0 at first: so two may look, each with an answer of its own.
 *
 * Return how many there are; -1, and none stays open, if one cannot be opened, or too many are found. */
int lastgood_changed(int root, const char *asked, const char *plan, unsigned char *states, unsigned char *findings,
                     atomic_uint *taken)
{
    struct question question;
    struct way way = {.above = {root}};
    const char *names_above[DEEPEST];
    int found = 0, failed = 0;
    uint32_t place = 0, first = 0, next = 0; /* ours are those from the first on, as far as to the next */

    memcpy(&question, asked, sizeof question);
    for (uint32_t folder = 0; folder < question.folders; folder++) {
        if (folder == next) {
            uint32_t from = atomic_fetch_add(taken, question.share);
            if (from >= question.folders)
                break;
            if (from != next)
                go_up(&way, 0);
            first = from;
            next = question.folders - from < question.share ? question.folders : from + question.share;
        }
        struct known_folder known;
        memcpy(&known, plan, sizeof known);
        if (known.depth >= DEEPEST) { /* nobody asks for one: there is no room for it */
            failed = 1;
            break;
        }
        const char *name = plan + sizeof known;
        const char *names = name + known.name_bytes + 1;
        const char *said = names + known.names_bytes;
        plan = said + known.states_bytes;
        names_above[known.depth] = name;
        if (folder < first)
            continue;

        go_up(&way, (int)known.depth);
        while (way.here <= (int)known.depth && !failed)
            failed = !go_down(&way, names_above[way.here]);
        if (failed)
            break;
        int directory = way.above[way.here];

        int count = (int)(known.states_bytes / ENTRY_BYTES);
        int is_told = known.is_proven && lastgood_states(directory, names, count, states + place) >= 0 &&
                      is_as_seen(directory, question.device, &known);
        if (is_told && !(known.flags & question.doubt) && !memcmp(states + place, said, known.states_bytes))
            continue;
        if ((uint32_t)found == question.most) {
            failed = 1;
            break;
        }
        struct finding one = {folder, is_told ? known.states_bytes : UINT32_MAX, directory, place};
        memcpy(findings + (size_t)found++ * sizeof one, &one, sizeof one);
        way.is_kept[way.here] = 1;
        place += known.states_bytes;
    }
    go_up(&way, 0);
    for (int one = 0; failed && one < found; one++) {
        struct finding left;
        memcpy(&left, findings + (size_t)one * sizeof left, sizeof left);
        close(left.descriptor);
    }
    return failed ? -1 : found;
}

enum { NOT_BEGUN, BEGUN, GIVEN_UP };

/* A look in a thread of its own, with all that `lastgood_changed` is given. */
struct look {
    pthread_t thread;
    atomic_int state;
    int root, result;
    const char *asked, *plan;
    unsigned char *states, *findings;
    atomic_uint *taken;
};

static void *look_beside(void *given)
{
    struct look *look = given;
    int expected = NOT_BEGUN;

    if (atomic_compare_exchange_strong(&look->state, &expected, BEGUN))
        look->result =
            lastgood_changed(look->root, look->asked, look->plan, look->states, look->findings, look->taken);
    else
        free(look); /* nobody waits: nothing of what it names may be there any more */
    return NULL;
}

/* Have a thread look, which hears no signal; what it is given stays until it is ended.
 *
 * Write at `begun` what is to be ended, and return 0; another number if there is none. */
int lastgood_begin(struct look **begun, int root, const char *asked, const char *plan, unsigned char *states,
                   unsigned char *findings, atomic_uint *taken)
{
    sigset_t all, before;
    pthread_attr_t small;
    struct look *look = malloc(sizeof *look);
    int failed = -1;

    *begun = NULL;
    if (!look)
        return -1;
    look->root = root;
    look->asked = asked;
    look->plan = plan;
    look->states = states;
    look->findings = findings;
    look->taken = taken;
    atomic_init(&look->state, NOT_BEGUN);
    sigfillset(&all);
    if (!pthread_attr_init(&small)) {
        if (!pthread_attr_setstacksize(&small, STACK_BYTES) && !pthread_sigmask(SIG_SETMASK, &all, &before)) {
            failed = pthread_create(&look->thread, &small, look_beside, look);
            pthread_sigmask(SIG_SETMASK, &before, NULL);
        }
        pthread_attr_destroy(&small);
    }
    if (failed)
        free(look);
    else
        *begun = look;
    return failed;
}

/* Wait for that thread, and return what it found, as above: nothing if no processor was free to begin with. */
int lastgood_ended(struct look **begun)
{
    struct look *look = *begun;
    int expected = NOT_BEGUN, found = -1;

    *begun = NULL;
    if (!look)
        return -1;
    pthread_t thread = look->thread;
    if (atomic_compare_exchange_strong(&look->state, &expected, GIVEN_UP)) {
        pthread_detach(thread); /* it frees what it was given */
        return 0;
    }
    if (!pthread_join(thread, NULL))
        found = look->result;
    free(look);
    return found;
}
