/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/base/conditions.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "user/base/cleanup.h"
#include "user/base/error.h"

#define MAGIC 0x31766573736c646cULL /* another layout gets another one */
#define READ_TRIES 1000
#define LOCK_TRIES 50 /* a second */
#define LOCK_PAUSE_NS 20000000L
#define KEEP_NS 15000000000ULL /* how long a predecessor's times are waited for */

/* The file: sequence is odd while a row changes. */
struct record {
	uint64_t magic;
	uint64_t sequence;
	uint64_t start_ns;
	uint64_t beat_ns;
	int32_t pid;
	uint32_t dropped;
	struct ls_condition rows[LS_CONDITIONS_MAX];
};

struct ls_conditions {
	int fd;
	struct record *record;
	/* What the predecessor had, until KEEP_NS after our start. */
	struct ls_condition before[LS_CONDITIONS_MAX];
};

static uint64_t now_unix(void)
{
	struct timespec now = { 0 };

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000ULL + (uint64_t)now.tv_nsec;
}

static void change_begin(struct record *record)
{
	__atomic_store_n(&record->sequence, record->sequence | 1, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

static void change_end(struct record *record)
{
	__atomic_store_n(&record->sequence, (record->sequence | 1) + 1, __ATOMIC_RELEASE);
}

/*
 * A child that the holder forked has the lock, too, until it closes what it inherited: when the holder is killed at
 * that moment, its successor waits for that.
 */
static int lock(int fd, const char *path, struct ls_error *error)
{
	struct flock whole = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	int32_t pid = 0;

	for (int i = 0; i < LOCK_TRIES; i++) {
		if (fcntl(fd, F_OFD_SETLK, &whole) == 0)
			return 0;
		if (errno != EAGAIN && errno != EACCES)
			break;
		nanosleep(&(struct timespec){ .tv_nsec = LOCK_PAUSE_NS }, NULL);
	}
	if (errno != EAGAIN && errno != EACCES)
		return ls_error_set_errno(error, errno, "cannot lock '%s'", path);
	(void)pread(fd, &pid, sizeof(pid), offsetof(struct record, pid));
	ls_error_set(
		error,
		"another 'loadshed serve' runs for this instance already, as process %d; end that one first, or pick another instance with -I",
		pid);
	return -EBUSY;
}

/* What a writer that ended has left, in so far as it is whole. */
static void remember(struct ls_conditions *conditions)
{
	const struct record *record = conditions->record;

	if (record->magic != MAGIC)
		return;
	memcpy(conditions->before, record->rows, sizeof(conditions->before));
	for (size_t i = 0; i < LS_CONDITIONS_MAX; i++)
		conditions->before[i].key[LS_CONDITION_KEY_BYTES - 1] = '\0';
}

int ls_conditions_open(const char *path, struct ls_conditions **ret, struct ls_error *error)
{
	_cleanup_free_ struct ls_conditions *conditions = calloc(1, sizeof(*conditions));
	_cleanup_close_ int fd =
		open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, S_IRUSR | S_IWUSR);

	if (!conditions)
		return ls_error_oom(error);
	if (fd < 0)
		return ls_error_set_errno(error, errno, "cannot open '%s'%s", path,
					  errno == EACCES ? "; run as root" : "");
	const int r = lock(fd, path, error);
	if (r < 0)
		return r;
	if (ftruncate(fd, sizeof(struct record)) < 0)
		return ls_error_set_errno(error, errno, "cannot write '%s'", path);
	struct record *record =
		mmap(NULL, sizeof(*record), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (record == MAP_FAILED)
		return ls_error_set_errno(error, errno, "cannot map '%s'", path);
	/* A mapping holds the lock as a descriptor does, and nobody could close it in a child. */
	(void)madvise(record, sizeof(*record), MADV_DONTFORK);
	conditions->record = record;
	remember(conditions);
	const uint64_t sequence = record->magic == MAGIC ? record->sequence | 1 : 1;
	memset(record, 0, sizeof(*record));
	record->sequence = sequence;
	record->magic = MAGIC;
	record->pid = getpid();
	record->start_ns = record->beat_ns = now_unix();
	change_end(record);
	conditions->fd = TAKE_FD(fd);
	*ret = TAKE_PTR(conditions);
	return 0;
}

void ls_conditions_close(struct ls_conditions *conditions)
{
	if (!conditions)
		return;
	munmap(conditions->record, sizeof(*conditions->record));
	close(conditions->fd);
	free(conditions);
}

/* As set() stores it, so that a key that is cut is found again. */
static void cut_key(const char *key, char ret[static LS_CONDITION_KEY_BYTES])
{
	snprintf(ret, LS_CONDITION_KEY_BYTES, "%s", key);
}

static struct ls_condition *find(struct ls_condition *rows, const char *key)
{
	char wanted[LS_CONDITION_KEY_BYTES];

	cut_key(key, wanted);
	for (size_t i = 0; i < LS_CONDITIONS_MAX; i++)
		if (rows[i].since_ns && strcmp(rows[i].key, wanted) == 0)
			return &rows[i];
	return NULL;
}

static struct ls_condition *find_free(struct ls_condition *rows)
{
	for (size_t i = 0; i < LS_CONDITIONS_MAX; i++)
		if (!rows[i].since_ns)
			return &rows[i];
	return NULL;
}

/* Of a text that was cut in the middle of a UTF-8 character, the whole ones; no control characters. */
static void tidy(char *text, bool is_cut)
{
	size_t length = strlen(text);

	for (char *c = text; *c; c++)
		if ((unsigned char)*c < 0x20 || *c == 0x7f)
			*c = '?';
	if (!is_cut)
		return;
	while (length > 0 && ((unsigned char)text[length - 1] & 0xc0) == 0x80)
		length--;
	if (length > 0 && (unsigned char)text[length - 1] >= 0xc0)
		length--;
	text[length] = '\0';
}

bool ls_conditions_set(struct ls_conditions *conditions, const char *key, const char *format, ...)
{
	struct record *record = conditions->record;
	struct ls_condition *row = find(record->rows, key);
	const uint64_t now_ns = now_unix();
	char text[LS_CONDITION_TEXT_BYTES];
	va_list arguments;

	va_start(arguments, format);
	const int length = vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	tidy(text, length >= (int)sizeof(text));
	if (row && strcmp(row->text, text) == 0)
		return false;
	struct ls_condition fresh = { .since_ns = now_ns };
	cut_key(key, fresh.key);
	memcpy(fresh.text, text, sizeof(text));
	const struct ls_condition *before = row ? row : find(conditions->before, key);
	if (before && (row || now_ns < record->start_ns + KEEP_NS))
		fresh.since_ns = before->since_ns;
	row = row ? row : find_free(record->rows);
	change_begin(record);
	if (row)
		*row = fresh;
	else
		record->dropped++;
	change_end(record);
	return true;
}

bool ls_conditions_clear(struct ls_conditions *conditions, const char *key)
{
	struct record *record = conditions->record;
	struct ls_condition *row = find(record->rows, key);

	if (!row)
		return false;
	change_begin(record);
	memset(row, 0, sizeof(*row));
	change_end(record);
	return true;
}

uint64_t ls_conditions_since(const struct ls_conditions *conditions, const char *key)
{
	const struct ls_condition *row = find(conditions->record->rows, key);

	return row ? row->since_ns : 0;
}

void ls_conditions_beat(struct ls_conditions *conditions, uint64_t now_ns)
{
	__atomic_store_n(&conditions->record->beat_ns, now_ns, __ATOMIC_RELAXED);
}

/* Whether a process holds the lock, without taking it. */
static bool is_locked(int fd)
{
	struct flock whole = { .l_type = F_RDLCK, .l_whence = SEEK_SET };

	return fcntl(fd, F_OFD_GETLK, &whole) == 0 && whole.l_type == F_WRLCK;
}

static bool read_whole(const struct record *record, struct record *ret)
{
	for (int i = 0; i < READ_TRIES; i++) {
		const uint64_t sequence = __atomic_load_n(&record->sequence, __ATOMIC_ACQUIRE);
		if (sequence & 1)
			continue;
		memcpy(ret, record, sizeof(*ret));
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		if (__atomic_load_n(&record->sequence, __ATOMIC_RELAXED) == sequence)
			return ret->magic == MAGIC;
	}
	return false;
}

static int by_age(const void *a, const void *b)
{
	const struct ls_condition *left = a, *right = b;

	return left->since_ns < right->since_ns ? -1 : left->since_ns > right->since_ns;
}

void ls_conditions_read(const char *path, struct ls_conditions_view *ret)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	struct stat status;
	struct record copy;

	memset(ret, 0, sizeof(*ret));
	if (fd < 0 || fstat(fd, &status) < 0 || status.st_size != (off_t)sizeof(copy) ||
	    !is_locked(fd))
		return;
	struct record *record = mmap(NULL, sizeof(*record), PROT_READ, MAP_SHARED, fd, 0);
	if (record == MAP_FAILED)
		return;
	if (read_whole(record, &copy)) {
		ret->is_alive = true;
		ret->pid = copy.pid;
		ret->start_ns = copy.start_ns;
		ret->beat_ns = copy.beat_ns;
		ret->dropped = copy.dropped;
		for (size_t i = 0; i < LS_CONDITIONS_MAX; i++) {
			if (!copy.rows[i].since_ns)
				continue;
			struct ls_condition *row = &ret->rows[ret->count++];
			*row = copy.rows[i];
			row->key[sizeof(row->key) - 1] = '\0';
			row->text[sizeof(row->text) - 1] = '\0';
		}
	}
	munmap(record, sizeof(*record));
	qsort(ret->rows, ret->count, sizeof(ret->rows[0]), by_age);
}
