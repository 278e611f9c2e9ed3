/* Asks for the states of what lies in directories, without a step of Python's for each of them.
 *
 * A library of its own, which knows nothing of Python: states.py says how it is called and what of, and does
 * without it where it was not built. Nothing here allocates, follows a link, or starts a thread. */

#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64
#define _TIME_BITS 64

#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* What is said of one entry is kept in so many bytes, those of one after another. */
enum { ENTRY_BYTES = 8 + 8 + 8 + 4 + 8 + 4 + 2 };

/* Folders are open while those in them are looked at, so many at most. */
enum { DEEPEST = 64 };

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
    uint32_t unused;
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

/* Find the folders that are not as they were, and leave them open.
 *
 * Each is opened by its name in the one above, which is open. It is asked for itself after what is in it: what
 * proves its names does so until all have been asked. `states` has room for what is said of the entries of all
 * folders, `findings` for the most that may be otherwise.
 *
 * Return how many there are; -1, and none stays open, if one cannot be opened, or too many are found. */
int lastgood_changed(int root, const char *asked, const char *plan, unsigned char *states, unsigned char *findings)
{
    struct question question;
    int above[DEEPEST + 1], is_kept[DEEPEST + 1], here = 0, found = 0, failed = 0;
    uint32_t place = 0;

    memcpy(&question, asked, sizeof question);
    above[0] = root;
    for (uint32_t folder = 0; folder < question.folders && !failed; folder++) {
        struct known_folder known;
        memcpy(&known, plan, sizeof known);
        if (known.depth >= DEEPEST) { /* nobody asks for one: `above` has no room for it */
            failed = 1;
            break;
        }
        const char *name = plan + sizeof known;
        const char *names = name + known.name_bytes + 1;
        const char *said = names + known.names_bytes;
        plan = said + known.states_bytes;

        for (; here > (int)known.depth; here--)
            if (!is_kept[here])
                close(above[here]);
        int directory = openat(above[here], name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (directory < 0) {
            failed = 1;
            break;
        }
        above[++here] = directory;
        is_kept[here] = 0;

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
        is_kept[here] = 1;
        place += known.states_bytes;
    }
    for (; here > 0; here--)
        if (!is_kept[here])
            close(above[here]);
    for (int one = 0; failed && one < found; one++) {
        struct finding left;
        memcpy(&left, findings + (size_t)one * sizeof left, sizeof left);
        close(left.descriptor);
    }
    return failed ? -1 : found;
}
