/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_CLUSTER_STORE_H
#define LOADSHED_USER_CLUSTER_STORE_H

/*
 * The shared store: scripts that are called, and answers that come later. Standalone Redis, Sentinel or Cluster, found
 * out by asking. Nothing here waits: a call is written when it can be and answered, or given up, by ls_store_work().
 *
 * No library type passes through here; hiredis is behind it (store_redis.c, conn.c).
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "user/policy/redis_url.h"

struct ls_store;

struct ls_store_config {
	const struct ls_redis_url *urls;
	size_t n_urls;
	const char *password_file; /* read at each connect; NULL: none */
};

/* The scripts, which are files of this folder. */
enum ls_script {
	LS_SCRIPT_ROUND,
	LS_SCRIPT_BEAT,
	LS_SCRIPT_BANS,
	LS_SCRIPTS,
};

/* Keys of one call lie in one shard: with Cluster there are many, so that the nodes share the work. */
#define LS_STORE_SHARDS 64
#define LS_STORE_COMMON LS_STORE_SHARDS /* what there is only once: beats and bans */

/* Part of an answer. */
struct ls_reply;
size_t ls_reply_count(const struct ls_reply *reply);			    /* 0: no list */
const struct ls_reply *ls_reply_at(const struct ls_reply *reply, size_t i); /* NULL: none */
int64_t ls_reply_integer(const struct ls_reply *reply, int64_t otherwise);  /* also of digits */
const char *ls_reply_text(const struct ls_reply *reply);		    /* "" : no text */

/* What became of a call: `reply`, or NULL and why. took_ns: since it was made. */
typedef void (*ls_store_fn)(void *data, const struct ls_reply *reply, const char *why,
			    uint64_t took_ns);

struct ls_store_call {
	enum ls_script script;
	unsigned shard;
	/* Keys, then arguments; copied. */
	size_t n_keys, n_words;
	const char *const *words;
	uint64_t timeout_ns;
	ls_store_fn answer; /* called once, later, unless the store is freed */
	void *data;
};

/* Negative errno. Nothing is connected yet. */
int ls_store_new(const struct ls_store_config *config, struct ls_store **ret);
void ls_store_free(struct ls_store *store);

/* Readable when there is something to do; belongs to the store. */
int ls_store_fd(const struct ls_store *store);

/* Does what there is to do at now_ns (CLOCK_MONOTONIC); at least every 20 ms while calls are under way. */
void ls_store_work(struct ls_store *store, uint64_t now_ns, double random);

/* Whether calls can be made; else *ret_why (may be NULL) says what is in the way. */
bool ls_store_is_ready(const struct ls_store *store, const char **ret_why);

/* 0; or -EBUSY: the shard has one under way; -ENOTCONN: not ready. Then answer is not called. */
int ls_store_call(struct ls_store *store, const struct ls_store_call *call, uint64_t now_ns);

/* Shards in use: 1, or LS_STORE_SHARDS. And what keys of a shard have in braces. */
unsigned ls_store_shards(const struct ls_store *store);
const char *ls_store_tag(unsigned shard);

struct ls_store_facts {
	const char *mode;		/* "standalone", "sentinel", "cluster"; "" : not known */
	char server[4 * LS_REDIS_TEXT]; /* that is used, or tried; without its password */
	uint64_t scripts_sent, connects, redirects;
};
void ls_store_facts(const struct ls_store *store, struct ls_store_facts *ret);

#endif
