/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/cluster/bans.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "loadshed/control_abi.h"
#include "user/base/cleanup.h"
#include "user/base/error.h"
#include "user/base/log.h"
#include "user/base/loop.h"
#include "user/cluster/sync.h"
#include "user/plane/bans.h"
#include "user/plane/events.h"
#include "user/plane/host.h"
#include "user/plane/plane.h"
#include "user/policy/policy.h"

#define CHANGES 200 /* told in one call; what is more waits for the next */
#define FIELDS 4
#define SLACK_NS 200000000ULL /* what ends so soon has ended, for all that anybody could do */
#define TIMEOUT_NS 1000000000ULL
#define TEXT 24

/* A ban as it was when last looked at, or put in force here since. */
struct known {
	struct ls_prefix prefix;
	uint64_t end_ns; /* CLOCK_MONOTONIC */
	enum ls_origin origin;
	char reason[LS_BAN_TEXT_BYTES];
	bool is_told, is_being_told;
};

/* What another node did. */
struct change {
	struct ls_prefix prefix;
	bool is_removal;
	uint64_t end_ns;
	char reason[LS_BAN_TEXT_BYTES];
};

/* What became of a change. */
enum outcome {
	LEFT, /* somebody here did something about it meanwhile, which the next look tells; or it may not be done */
	DONE,
};

struct ls_cluster_bans {
	char instance[LS_NAME_BYTES];
	struct ls_sync *sync; /* of the call that is under way */
	struct known *known;
	size_t n_known;
	struct ls_prefix removed[CHANGES]; /* to be told */
	uint64_t removed_end_ns[CHANGES];
	size_t n_removed;
	struct change *changes; /* to be done here */
	size_t n_changes, room;
	char version[TEXT], epoch[TEXT];
	bool is_first; /* nothing was heard yet: no ban is told */
	bool has_looked;
	bool is_under_way;
	size_t n_sent_removed;
	pid_t child;
	uint8_t *outcomes; /* of the changes, by the child; shared memory of outcomes_bytes */
	size_t outcomes_bytes;
	uint64_t now_ns, shared, lapsed;
};

struct ls_cluster_bans *ls_cluster_bans_new(const char *instance)
{
	struct ls_cluster_bans *const bans = calloc(1, sizeof(*bans));

	if (!bans)
		return NULL;
	snprintf(bans->instance, sizeof(bans->instance), "%.31s", instance);
	strcpy(bans->version, "0");
	bans->is_first = true;
	return bans;
}

void ls_cluster_bans_free(struct ls_cluster_bans *bans)
{
	if (!bans)
		return;
	if (bans->child > 0)
		while (waitpid(bans->child, NULL, 0) < 0 && errno == EINTR)
			;
	if (bans->outcomes)
		munmap(bans->outcomes, bans->outcomes_bytes);
	free(bans->known);
	free(bans->changes);
	free(bans);
}

uint64_t ls_cluster_bans_shared(const struct ls_cluster_bans *bans)
{
	return bans ? bans->shared : 0;
}

uint64_t ls_cluster_bans_lapsed(const struct ls_cluster_bans *bans)
{
	return bans ? bans->lapsed : 0;
}

/* ---- here ---- */

static const struct known *find_known(const struct ls_cluster_bans *bans,
				      const struct ls_prefix *prefix)
{
	size_t low = 0, high = bans->n_known;

	while (low < high) {
		const size_t middle = (low + high) / 2;
		const int order = ls_prefix_compare(&bans->known[middle].prefix, prefix);
		if (order == 0)
			return &bans->known[middle];
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
}

static bool is_listed(const struct known *list, size_t n, const struct ls_prefix *prefix)
{
	const struct ls_cluster_bans as = { .known = (struct known *)list, .n_known = n };

	return find_known(&as, prefix) != NULL;
}

static bool list(struct ls_plane *plane, struct ls_ban_entry **ret, size_t *ret_n)
{
	const struct ls_control *const control = ls_plane_control(plane);

	/* A ban that stands has its bit; with none there is nothing to look through. */
	return (!control->ban_lengths4 && !control->ban_lengths6) ||
	       ls_ban_list(plane, ret, ret_n, NULL) == 0;
}

/* What is there now; what was there and is gone before its end was removed by somebody here. */
static void look(struct ls_cluster_bans *bans, struct ls_plane *plane)
{
	_cleanup_free_ struct ls_ban_entry *entries = NULL;
	size_t n = 0;

	if (!list(plane, &entries, &n))
		return;
	struct known *const fresh = calloc(n + 1, sizeof(*fresh));
	if (!fresh)
		return;
	for (size_t i = 0; i < n; i++) {
		const struct known *const old = find_known(bans, &entries[i].prefix);
		fresh[i].prefix = entries[i].prefix;
		fresh[i].end_ns = entries[i].end_ns;
		fresh[i].origin = entries[i].origin;
		memcpy(fresh[i].reason, entries[i].reason, sizeof(fresh[i].reason));
		fresh[i].is_told = entries[i].origin == LS_ORIGIN_CLUSTER ||
				   (old && old->is_told && old->origin != LS_ORIGIN_CLUSTER &&
				    fresh[i].end_ns <= old->end_ns);
	}
	for (size_t i = 0; i < bans->n_known; i++) {
		const struct known *const old = &bans->known[i];
		if (old->end_ns < bans->now_ns + SLACK_NS || bans->n_removed == CHANGES ||
		    is_listed(fresh, n, &old->prefix))
			continue;
		bans->removed_end_ns[bans->n_removed] = old->end_ns;
		bans->removed[bans->n_removed++] = old->prefix;
	}
	free(bans->known);
	bans->known = fresh;
	bans->n_known = n;
	bans->has_looked = true;
}

/* What was put in force or removed here for others: neither is taken for something that happened here. */
static void note_done(struct ls_cluster_bans *bans, const struct change *change)
{
	struct known *const old = (struct known *)find_known(bans, &change->prefix);
	size_t at = 0;

	if (change->is_removal) {
		if (!old)
			return;
		bans->n_known--;
		memmove(old, old + 1, (size_t)(bans->known + bans->n_known - old) * sizeof(*old));
		return;
	}
	const struct known fresh = { .prefix = change->prefix,
				     .end_ns = change->end_ns,
				     .origin = LS_ORIGIN_CLUSTER,
				     .is_told = true };
	if (old) {
		*old = fresh;
		return;
	}
	struct known *const more = realloc(bans->known, (bans->n_known + 1) * sizeof(*more));
	if (!more)
		return;
	bans->known = more;
	while (at < bans->n_known && ls_prefix_compare(&more[at].prefix, &change->prefix) < 0)
		at++;
	memmove(more + at + 1, more + at, (bans->n_known - at) * sizeof(*more));
	more[at] = fresh;
	bans->n_known++;
}

void ls_cluster_bans_catch_up(struct ls_cluster_bans *bans, struct ls_plane *plane,
			      uint64_t beat_ns)
{
	struct timespec wall;
	struct ls_events *events = NULL;
	struct ls_event event;
	struct ls_ban_entry *entries = NULL;
	size_t n = 0;

	clock_gettime(CLOCK_REALTIME, &wall);
	const uint64_t since_ns = (uint64_t)wall.tv_sec * 1000000000 + (uint64_t)wall.tv_nsec -
				  (ls_loop_monotonic_ns() - beat_ns);
	if (!beat_ns || !list(plane, &entries, &n))
		return;
	if (ls_events_open(plane, true, &events, NULL) == 0)
		while (ls_events_next(events, &event)) {
			bool is_there = event.kind != LS_EVENT_UNBAN || event.unix_ns < since_ns;
			for (size_t i = 0; i < n && !is_there; i++)
				is_there = ls_prefix_equal(&entries[i].prefix, &event.source);
			if (is_there || bans->n_removed == CHANGES)
				continue;
			bans->removed_end_ns[bans->n_removed] = 0;
			bans->removed[bans->n_removed++] = event.source;
		}
	ls_events_close(events);
	free(entries);
}

/* ---- from others ---- */

static void add_change(struct ls_cluster_bans *bans, const struct change *change)
{
	if (bans->n_changes == bans->room) {
		const size_t room = bans->room ? 2 * bans->room : 64;
		struct change *const more = realloc(bans->changes, room * sizeof(*more));
		if (!more)
			return;
		bans->changes = more;
		bans->room = room;
	}
	bans->changes[bans->n_changes++] = *change;
}

/* One line of the store's answer. */
static void hear(struct ls_cluster_bans *bans, const struct ls_reply *reply, size_t at)
{
	const char *const subject = ls_reply_text(ls_reply_at(reply, at));
	const char *const op = ls_reply_text(ls_reply_at(reply, at + 1));
	const int64_t left_ms = ls_reply_integer(ls_reply_at(reply, at + 2), 0);
	const char *const node = ls_reply_text(ls_reply_at(reply, at + 3));
	const char *const reason = ls_reply_text(ls_reply_at(reply, at + 4));
	struct change change = { .is_removal = op[0] == 'd' };

	/* Of ours, we know. */
	if (strcmp(node, ls_sync_id(bans->sync)) == 0)
		return;
	if (left_ms <= 0 || (uint64_t)left_ms > 10 * 366 * 86400000ULL) {
		bans->lapsed++;
		return;
	}
	if (ls_prefix_parse(subject, strlen(subject), &change.prefix) != LS_PREFIX_OK ||
	    change.prefix.length == 0)
		return;
	change.prefix = ls_ban_widen(change.prefix);
	change.end_ns = bans->now_ns + (uint64_t)left_ms * 1000000;
	const char *const dot = strrchr(node, '.');
	snprintf(change.reason, sizeof(change.reason), "%.40s%s%s%.*s", reason, *reason ? " " : "",
		 "from ", dot ? (int)(dot - node) : (int)strlen(node), node);
	add_change(bans, &change);
}

static void on_bans(void *data, const struct ls_reply *reply, const char *why, uint64_t took_ns)
{
	struct ls_cluster_bans *const bans = data;
	const size_t n = ls_reply_count(reply);

	(void)took_ns;
	(void)why; /* rounds and beats say what is wrong with the store */
	bans->is_under_way = false;
	/* Nobody knows what of it counted: all is told again, which changes nothing where it did. */
	if (n < 2)
		return;
	const char *const epoch = ls_reply_text(ls_reply_at(reply, 0));
	/* A store that began anew knows none of ours. */
	if (strcmp(bans->epoch, epoch) != 0 && bans->epoch[0]) {
		for (size_t i = 0; i < bans->n_known; i++)
			bans->known[i].is_told = bans->known[i].origin == LS_ORIGIN_CLUSTER;
		strcpy(bans->version, "0");
	} else {
		snprintf(bans->version, sizeof(bans->version), "%s",
			 ls_reply_text(ls_reply_at(reply, 1)));
	}
	snprintf(bans->epoch, sizeof(bans->epoch), "%s", epoch);
	for (size_t i = 2; i + 4 < n; i += 5)
		hear(bans, reply, i);
	for (size_t i = 0; i < bans->n_known; i++)
		bans->known[i].is_told |= bans->known[i].is_being_told;
	memmove(bans->removed, bans->removed + bans->n_sent_removed,
		(bans->n_removed - bans->n_sent_removed) * sizeof(*bans->removed));
	memmove(bans->removed_end_ns, bans->removed_end_ns + bans->n_sent_removed,
		(bans->n_removed - bans->n_sent_removed) * sizeof(*bans->removed_end_ns));
	bans->n_removed -= bans->n_sent_removed;
	bans->is_first = false;
}

/* ---- to others ---- */

/* A reason goes through a script that ends it at nothing: no control characters, nothing else. */
static void copy_reason(char *to, size_t size, const char *from)
{
	size_t n = 0;

	for (; *from && n + 1 < size; from++)
		if ((unsigned char)*from >= ' ')
			to[n++] = *from;
	to[n] = '\0';
}

struct telling {
	const char *words[6 + FIELDS * CHANGES];
	char keys[4][128];
	struct {
		char prefix[LS_PREFIX_TEXT], left[TEXT], reason[LS_BAN_TEXT_BYTES];
	} texts[CHANGES];
	size_t n_words, n_texts;
};

static void tell_one(struct telling *telling, const char *op, const struct ls_prefix *prefix,
		     uint64_t left_ns, const char *reason)
{
	const size_t i = telling->n_texts++;

	ls_prefix_format(prefix, telling->texts[i].prefix);
	snprintf(telling->texts[i].left, TEXT, "%" PRIu64, left_ns / 1000000);
	copy_reason(telling->texts[i].reason, LS_BAN_TEXT_BYTES, reason);
	telling->words[telling->n_words++] = op;
	telling->words[telling->n_words++] = telling->texts[i].prefix;
	telling->words[telling->n_words++] = telling->texts[i].left;
	telling->words[telling->n_words++] = telling->texts[i].reason;
}

static void tell(struct ls_cluster_bans *bans, struct ls_sync *sync)
{
	static const char *const names[] = { "bans", "bans:v", "bans:d", "bans:e" };
	struct telling *const telling = calloc(1, sizeof(*telling));

	if (!telling)
		return;
	for (size_t i = 0; i < 4; i++) {
		ls_sync_key_name(sync, LS_STORE_COMMON, names[i], telling->keys[i],
				 sizeof(telling->keys[i]));
		telling->words[telling->n_words++] = telling->keys[i];
	}
	telling->words[telling->n_words++] = bans->version;
	telling->words[telling->n_words++] = ls_sync_id(sync);
	bans->n_sent_removed = 0;
	/* Before anything was heard these are of a time without a controller. */
	for (size_t i = 0; i < bans->n_removed && telling->n_texts < CHANGES;
	     i++, bans->n_sent_removed++)
		tell_one(telling, "d", &bans->removed[i],
			 bans->removed_end_ns[i] > bans->now_ns
				 ? bans->removed_end_ns[i] - bans->now_ns
				 : 1000000,
			 "");
	for (size_t i = 0; !bans->is_first && i < bans->n_known && telling->n_texts < CHANGES;
	     i++) {
		struct known *const known = &bans->known[i];
		known->is_being_told = !known->is_told && known->end_ns > bans->now_ns;
		if (!known->is_being_told)
			continue;
		tell_one(telling, "a", &known->prefix, known->end_ns - bans->now_ns, known->reason);
	}
	const struct ls_store_call call = {
		.script = LS_SCRIPT_BANS,
		.shard = LS_STORE_COMMON,
		.n_keys = 4,
		.n_words = telling->n_words,
		.words = telling->words,
		.timeout_ns = TIMEOUT_NS,
		.answer = on_bans,
		.data = bans,
	};
	bans->sync = sync;
	bans->is_under_way = ls_store_call(ls_sync_store(sync), &call, bans->now_ns) == 0;
	free(telling);
}

/* ---- in force here ---- */

/*
 * Whether somebody here has done something about the ban since the last look. It has not been told yet, and this would
 * undo it: a ban that was here and is gone was removed; one that was not, or ended earlier, is new.
 */
static bool is_overtaken(const struct ls_cluster_bans *bans, const struct change *change,
			 const struct ls_ban_entry *entries, size_t n)
{
	const struct known *const known = find_known(bans, &change->prefix);
	const struct ls_ban_entry *here = NULL;

	for (size_t i = 0; i < n && !here; i++)
		if (ls_prefix_equal(&entries[i].prefix, &change->prefix))
			here = &entries[i];
	if (!bans->has_looked)
		return false;
	if (change->is_removal)
		return here && here->origin != LS_ORIGIN_CLUSTER &&
		       (!known || here->end_ns > known->end_ns);
	return !here && known && known->end_ns > ls_loop_monotonic_ns() + SLACK_NS;
}

static enum outcome put_one(struct ls_plane *plane, const struct ls_policy *policy,
			    const struct change *change)
{
	struct ls_error error = LS_ERROR_INIT;
	struct ls_host_address host;
	char text[LS_PREFIX_TEXT];

	if (change->is_removal)
		return ls_ban_del(plane, &change->prefix, &error) < 0 ? LEFT : DONE;
	if (ls_host_is_within(policy, &change->prefix, &host)) {
		ls_log(LS_LOG_WARNING,
		       "cluster: a ban of %s (%s) is not taken over: it covers a %s of this host",
		       ls_prefix_format(&change->prefix, text), change->reason, host.what);
		return LEFT;
	}
	const uint64_t now_ns = ls_loop_monotonic_ns();
	if (change->end_ns <= now_ns)
		return LEFT;
	const int r = ls_ban_add(plane, policy, &change->prefix, change->end_ns - now_ns,
				 LS_ORIGIN_CLUSTER, change->reason, &error);
	if (r == LS_BAN_E_ALLOWED)
		ls_log(LS_LOG_NOTICE,
		       "cluster: a ban of %s (%s) is not taken over: the policy allows it",
		       ls_prefix_format(&change->prefix, text), change->reason);
	else if (r < 0)
		ls_log(LS_LOG_WARNING, "cluster: %s", error.text);
	return r == 0 ? DONE : LEFT;
}

/* In a process of its own, since the instance's lock may have to be waited for. */
static void put_in_force(const struct ls_cluster_bans *bans)
{
	struct ls_error error = LS_ERROR_INIT;
	struct ls_plane *plane = NULL;
	struct ls_policy *policy = NULL;
	struct ls_ban_entry *entries = NULL;
	size_t n = 0;

	/* With the lock nobody adds or removes a ban but packets. */
	if (ls_plane_open(bans->instance, LS_PLANE_WRITE, &plane, &error) != 0 ||
	    ls_plane_policy(plane, &policy, NULL, &error) < 0 || !list(plane, &entries, &n))
		_exit(1);
	for (size_t i = 0; i < bans->n_changes; i++)
		bans->outcomes[i] = is_overtaken(bans, &bans->changes[i], entries, n)
					    ? LEFT
					    : (uint8_t)put_one(plane, policy, &bans->changes[i]);
	_exit(0);
}

static void start_child(struct ls_cluster_bans *bans)
{
	if (bans->outcomes_bytes < bans->n_changes) {
		void *const memory = mmap(NULL, bans->room, PROT_READ | PROT_WRITE,
					  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		if (memory == MAP_FAILED)
			return;
		if (bans->outcomes)
			munmap(bans->outcomes, bans->outcomes_bytes);
		bans->outcomes = memory;
		bans->outcomes_bytes = bans->room;
	}
	memset(bans->outcomes, LEFT, bans->n_changes);
	bans->child = fork();
	if (bans->child == 0)
		put_in_force(bans);
	if (bans->child < 0)
		bans->child = 0;
}

/* Changes stay until the child is done; one that failed is tried again. Returns whether nothing is left to do. */
static bool apply(struct ls_cluster_bans *bans)
{
	int status = 0;

	if (bans->child > 0) {
		const pid_t done = waitpid(bans->child, &status, WNOHANG);
		if (done == 0)
			return false;
		bans->child = 0;
		if (done > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0) {
			for (size_t i = 0; i < bans->n_changes; i++)
				if (bans->outcomes[i] == DONE)
					note_done(bans, &bans->changes[i]);
			bans->shared += bans->n_changes;
			bans->n_changes = 0;
		}
	}
	if (!bans->n_changes)
		return true;
	start_child(bans);
	return false;
}

void ls_cluster_bans_work(struct ls_cluster_bans *bans, struct ls_sync *sync,
			  struct ls_plane *plane, uint64_t now_ns)
{
	bans->now_ns = now_ns;
	if (bans->is_under_way)
		return;
	/* What is being put in force here is not to be taken for what happened here. */
	if (!apply(bans))
		return;
	if (!ls_store_is_ready(ls_sync_store(sync), NULL))
		return;
	if (!bans->is_first)
		look(bans, plane);
	tell(bans, sync);
}
