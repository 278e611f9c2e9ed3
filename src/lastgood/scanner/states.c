/* Asks for the states of what lies in directories, without a step of Python's for each of them.
 *
 * A library of its own, which knows nothing of Python: states.py says how it is called and what of, and does
 * without it where it was not built. Nothing here allocates, or follows a link, and no thread of its stays. */

#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64
#define _TIME_BITS 64

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* States are kept in blocks of so many entries, in each the columns one after another. */
enum { BLOCK = 64, ENTRY_BYTES = 8 + 8 + 8 + 4 + 8 + 4 + 2 };

/* Folders are open while those in them are looked at, so many at most. */
enum { DEEPEST = 64 };

/* Threads take shares of the folders, so many of both at most; to open a folder counts as much as to ask for some
 * entries. */
enum { MOST_THREADS = 4, MOST_SHARES = 16, FOLDER_COST = 4 * ENTRY_BYTES, STACK_BYTES = 256 * 1024 };

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
    uint32_t threads;
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

static unsigned char *put(unsigned char *column, int place, int many, const void *value, size_t width)
{
    memcpy(column + (size_t)place * width, value, width);
    return column + (size_t)many * width;
}

/* Write what is said of one entry into a block of so many: of a directory its mode alone. */
static void write_state(unsigned char *block, int place, int many, const struct stat *seen)
{
    int is_directory = S_ISDIR(seen->st_mode);
    uint64_t inode = is_directory ? 0 : (uint64_t)seen->st_ino;
    uint64_t size = is_directory ? 0 : (uint64_t)seen->st_size;
    int64_t ctime = is_directory ? 0 : (int64_t)seen->st_ctim.tv_sec;
    uint32_t ctime_part = is_directory ? 0 : (uint32_t)seen->st_ctim.tv_nsec;
    int64_t mtime = is_directory ? 0 : (int64_t)seen->st_mtim.tv_sec;
    uint32_t mtime_part = is_directory ? 0 : (uint32_t)seen->st_mtim.tv_nsec;
    uint16_t mode = (uint16_t)seen->st_mode;

    block = put(block, place, many, &inode, sizeof inode);
    block = put(block, place, many, &size, sizeof size);
    block = put(block, place, many, &ctime, sizeof ctime);
    block = put(block, place, many, &ctime_part, sizeof ctime_part);
    block = put(block, place, many, &mtime, sizeof mtime);
    block = put(block, place, many, &mtime_part, sizeof mtime_part);
    put(block, place, many, &mode, sizeof mode);
}

/* Write what is said of each of the `count` names, joined by NULs, in an open directory.
 *
 * Return 1 if anything but a directory has several links, else 0; -1 if one could not be asked. */
int lastgood_states(int directory, const char *names, int count, unsigned char *states)
{
    int has_links = 0;

    for (int first = 0; first < count; first += BLOCK) {
        int many = count - first < BLOCK ? count - first : BLOCK;
        for (int place = 0; place < many; place++) {
            struct stat seen;
            if (fstatat(directory, names, &seen, AT_SYMLINK_NOFOLLOW))
                return -1;
            if (seen.st_nlink != 1 && !S_ISDIR(seen.st_mode))
                has_links = 1;
            write_state(states, place, many, &seen);
            names += strlen(names) + 1;
        }
        states += (size_t)many * ENTRY_BYTES;
    }
    return has_links;
}

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

/* Some folders of the plan, one after another; the first lies in so many others, where they are in the plan. */
struct share {
    const char *plan;
    uint32_t first, end;
    uint32_t place;
    uint32_t depth;
    const char *above[DEEPEST];
};

struct look {
    struct question question;
    int root;
    unsigned char *states;
    struct finding *findings;
    struct share shares[MOST_SHARES];
    int many_shares;
    atomic_int next_share, found, failed;
};

static int enter(int above, const char *name)
{
    return openat(above, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* Open a folder of the plan again, which is looked at in another share; -1 if it is another one by now. */
static int enter_again(int above, const char *plan, uint64_t device)
{
    struct known_folder known;
    struct stat seen;

    memcpy(&known, plan, sizeof known);
    int directory = enter(above, plan + sizeof known);
    if (directory >= 0 && known.is_proven &&
        (fstat(directory, &seen) || seen.st_dev != device || seen.st_ino != known.inode)) {
        close(directory);
        return -1;
    }
    return directory;
}

/* Divide the plan into shares of about as many entries each. */
static void divide(struct look *look, const char *plan, int many)
{
    const char *above[DEEPEST], *at = plan;
    uint64_t all = 0, done = 0;
    uint32_t place = 0;
    struct known_folder known;

    for (uint32_t folder = 0; folder < look->question.folders; folder++) {
        memcpy(&known, at, sizeof known);
        all += known.states_bytes + FOLDER_COST;
        at += sizeof known + known.name_bytes + 1 + known.names_bytes + known.states_bytes;
    }
    at = plan;
    for (uint32_t folder = 0; folder < look->question.folders; folder++) {
        memcpy(&known, at, sizeof known);
        if (done * (uint64_t)many >= all * (uint64_t)look->many_shares) {
            struct share *share = &look->shares[look->many_shares++];
            if (folder)
                share[-1].end = folder;
            *share = (struct share){at, folder, look->question.folders, place, known.depth, {0}};
            memcpy(share->above, above, known.depth * sizeof *above);
        }
        above[known.depth] = at;
        done += known.states_bytes + FOLDER_COST;
        place += known.states_bytes;
        at += sizeof known + known.name_bytes + 1 + known.names_bytes + known.states_bytes;
    }
}

/* Look at the folders of a share. */
static void look_at(struct look *look, const struct share *share)
{
    const struct question *question = &look->question;
    int above[DEEPEST + 1], is_kept[DEEPEST + 1], here = 0;
    const char *plan = share->plan;
    uint32_t place = share->place;

    above[0] = look->root;
    for (uint32_t depth = 0; depth < share->depth; depth++) {
        int directory = enter_again(above[here], share->above[depth], question->device);
        if (directory < 0) {
            look->failed = 1;
            break;
        }
        above[++here] = directory;
        is_kept[here] = 0;
    }
    for (uint32_t folder = share->first; folder < share->end && !look->failed; folder++) {
        struct known_folder known;
        memcpy(&known, plan, sizeof known);
        const char *name = plan + sizeof known;
        const char *names = name + known.name_bytes + 1;
        const char *said = names + known.names_bytes;
        unsigned char *states = look->states + place;
        plan = said + known.states_bytes;
        place += known.states_bytes;

        for (; here > (int)known.depth; here--)
            if (!is_kept[here])
                close(above[here]);
        int directory = enter(above[here], name);
        if (directory < 0) {
            look->failed = 1;
            break;
        }
        above[++here] = directory;
        is_kept[here] = 0;

        int count = (int)(known.states_bytes / ENTRY_BYTES);
        int is_told = known.is_proven && lastgood_states(directory, names, count, states) >= 0 &&
                      is_as_seen(directory, question->device, &known);
        if (is_told && !(known.flags & question->doubt) && !memcmp(states, said, known.states_bytes))
            continue;
        int one = look->found++;
        if (one >= (int)question->most) {
            look->found--;
            look->failed = 1;
            break;
        }
        look->findings[one] = (struct finding){folder, is_told ? known.states_bytes : UINT32_MAX, directory,
                                               (uint32_t)(states - look->states)};
        is_kept[here] = 1;
    }
    for (; here > 0; here--)
        if (!is_kept[here])
            close(above[here]);
}

/* Take one share after another, as long as there are any. */
static void *look_on(void *given)
{
    struct look *look = given;

    for (int share; (share = look->next_share++) < look->many_shares && !look->failed;)
        look_at(look, &look->shares[share]);
    return NULL;
}

/* Begin a thread, to which no signal goes; return whether there is one. */
static int begin(pthread_t *thread, struct look *look)
{
    sigset_t all, before;
    pthread_attr_t attributes;
    int refused;

    if (pthread_attr_init(&attributes))
        return 0;
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    refused = pthread_create(thread, &attributes, look_on, look);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return !refused;
}

/* Find the folders that are not as they were, and leave them open, in any order.
 *
 * Each is opened by its name in the one above, which is open. It is asked for itself after what is in it: what
 * proves its names does so until all have been asked. `states` has room for what is said of the entries of all
 * folders, `findings` for the most that are asked for. Where there is more than one of the `threads`, they are
 * gone when this returns.
 *
 * Return how many there are; -1, and none stays open, if one cannot be opened, or too many are found. */
int lastgood_changed(int root, const char *question, const char *plan, unsigned char *states, void *findings)
{
    struct look look = {.root = root, .states = states, .findings = findings};
    pthread_t others[MOST_THREADS];
    int many = 0;

    memcpy(&look.question, question, sizeof look.question);
    int threads = look.question.threads < MOST_THREADS ? (int)look.question.threads : MOST_THREADS;
    divide(&look, plan, threads > 1 ? MOST_SHARES : 1);
    while (many < threads - 1 && begin(&others[many], &look))
        many++;
    look_on(&look);
    for (int other = 0; other < many; other++)
        pthread_join(others[other], NULL);
    if (!look.failed)
        return look.found;
    for (int one = 0; one < look.found; one++)
        close(look.findings[one].descriptor);
    return -1;
}
