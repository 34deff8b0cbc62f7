/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_CLUSTER_SYNC_H
#define LOADSHED_USER_CLUSTER_SYNC_H

/*
 * One node's part in the sharing: its sources, a round for each shard that has some, and a beat a second. It knows the
 * store and the arithmetic, and no kernel: what was counted is handed in, and what is decided is read off.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "user/cluster/ratio.h"
#include "user/cluster/store.h"

#define LS_SYNC_NAME 120
#define LS_SYNC_KEYS 1000 /* shared by a node at once; more are refused */
#define LS_SYNC_NODES 64

/* This node's count in one window. */
struct ls_sync_window {
	uint64_t number; /* by the node's clock; 0: none */
	uint64_t own;
	uint64_t reported; /* of it, what the store has */
};

struct ls_sync_key {
	char name[LS_SYNC_NAME]; /* the same on every node: limit and subject */
	void *data;		 /* the owner's */
	enum ls_loss loss;
	double rate;	    /* of a bucket: per second; 0: a window */
	uint64_t window_ns; /* of a window */
	bool is_sliding;
	double limit;
	struct ls_ratio ratio; /* of a window: only its demand */
	struct ls_sync_window window, before;
	double all, all_before;	  /* of the window, as last answered */
	uint64_t answered_number; /* that they are about */
	uint64_t own_reported;	  /* of them */
	uint64_t sent;		  /* under way */
	bool sent_before;	  /* it is about `before` */
	bool is_foreign;	  /* its key in the store holds something else */
	uint64_t offered_ns;	  /* when something was last offered */
	uint64_t forgot_ns;
	bool is_new; /* nothing was ever answered about it */
	/* Largest and smallest debt of this and of the last ten seconds: what the error was at most. */
	double debt_low[2], debt_high[2];
	/* What is decided; for a window the ceiling, HUGE_VAL for none. */
	struct ls_decision decision;
	double ceiling;
};

struct ls_sync_config {
	struct ls_store_config store;
	const char *node;
	const char *prefix;
	uint64_t period_ns; /* 0: automatic */
	/* A source that is thinned somewhere and that this node may not know; may be NULL. */
	void (*learn)(void *data, const char *name);
	void *data;
	uint64_t random; /* seed; also tells two processes of one name apart */
	double nodes;	 /* last known; 0: never */
};

struct ls_sync;

int ls_sync_new(const struct ls_sync_config *config, uint64_t now_ns, struct ls_sync **ret);
/* Tells the others, if that can be done at once. */
void ls_sync_free(struct ls_sync *sync);

/* The key of that name; NULL: there is none. */
struct ls_sync_key *ls_sync_find(struct ls_sync *sync, const char *name);
/* A new one, with all but its name zero; NULL: there are LS_SYNC_KEYS. Valid until it is removed. */
struct ls_sync_key *ls_sync_add(struct ls_sync *sync, const char *name);
void ls_sync_remove(struct ls_sync *sync, struct ls_sync_key *key);
size_t ls_sync_count(const struct ls_sync *sync);
struct ls_sync_key *ls_sync_at(struct ls_sync *sync, size_t i);

/* What was counted since the last call. */
void ls_sync_offer(struct ls_sync *sync, struct ls_sync_key *key, uint64_t now_ns, double admitted,
		   double offered);
/* A round of the key's shard at once, though at most one in 20 ms: it has just become shared. */
void ls_sync_hurry(struct ls_sync *sync, const struct ls_sync_key *key, uint64_t now_ns);

/*
 * Does what is due. now_ns: CLOCK_MONOTONIC, wall_ns: CLOCK_REALTIME. Returns true when a period has passed, so that
 * counts are to be handed in and decisions read.
 */
bool ls_sync_work(struct ls_sync *sync, uint64_t now_ns, uint64_t wall_ns);

/* Whether a round will be sent by the next ls_sync_work(): then counts are to be handed in before. */
bool ls_sync_is_due(const struct ls_sync *sync, uint64_t now_ns);
/* Rounds that were answered, ever: when it grows, decisions are to be read. */
uint64_t ls_sync_rounds(const struct ls_sync *sync);

/* The decision of a key, now; false: there is none yet, since the store, which answers, has not said anything about it. */
bool ls_sync_decide(struct ls_sync *sync, struct ls_sync_key *key, uint64_t now_ns,
		    uint64_t wall_ns);

int ls_sync_fd(const struct ls_sync *sync);
struct ls_store *ls_sync_store(struct ls_sync *sync);

struct ls_sync_facts {
	bool is_up;
	enum ls_link_state state; /* the worst of the shards that have sources */
	double nodes;		  /* 0: never known */
	uint64_t period_ns, round_ns, took_ns;
	int64_t clock_ns; /* store's clock minus ours */
	uint64_t rounds, failed;
	uint64_t foreign; /* keys that hold something else: ever */
	uint64_t foreign_now;
	bool has_error; /* error_ppm is an estimate; else nobody knows */
	uint64_t error_ppm;
	char trouble[192];
	size_t n_listed;
	struct {
		char name[64];
		uint64_t age_ns;
	} list[LS_SYNC_NODES];
};
void ls_sync_facts(const struct ls_sync *sync, struct ls_sync_facts *ret);

/* Names of keys that others use, too: "PREFIX{TAG}WHAT". */
void ls_sync_key_name(const struct ls_sync *sync, unsigned shard, const char *what, char *ret,
		      size_t size);
const char *ls_sync_id(const struct ls_sync *sync);
double ls_sync_random(struct ls_sync *sync);

#endif
