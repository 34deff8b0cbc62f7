/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/cluster/store.h"

/*
 * Redis behind store.h.
 *
 * Finding the server: the URLs are tried in turn. Whoever answers is asked for its role and its slots, which tells a
 * standalone master, a replica (the next URL is tried), a Sentinel (which is asked for the master) and a node of a Cluster
 * apart. What of this an access list forbids counts as "standalone master".
 *
 * Each link is one connection with its greeting. A call belongs to one link, and is sent when that is ready. MOVED sends
 * it to another link and has the slots read again, ASK sends it once elsewhere, NOSCRIPT sends the script's text once;
 * all other errors end it, and those that say that the server is not the right one end the link, too.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <hiredis/hiredis.h>

#include "user/base/cleanup.h"
#include "user/base/file.h"
#include "user/cluster/conn.h"

#define LINKS 64
#define OWNERS (LS_STORE_SHARDS + 1)
#define REDIRECTS 3
#define RETRY_LOST_NS 20000000ULL /* of a connection that was good for LIVED_NS */
#define LIVED_NS 50000000ULL
#define RETRY_FIRST_NS 250000000ULL
#define RETRY_MAX_NS 700000000ULL
#define SLOTS_EVERY_NS 500000000ULL
#define ABANDONED_NS 2000000000ULL /* a link that owes an answer for longer is broken */
#define PASSWORD_BYTES_MAX 4096
#define GREETING_NS 2000000000ULL

extern const char ls_script_round[], ls_script_beat[], ls_script_bans[];
/* The text of a script ends with a NUL; its name is its SHA-1, which the Makefile computes. */
#define EMBED(symbol, file)                                                                        \
	__asm__(".pushsection .rodata\n.global " #symbol "\n" #symbol ":\n.incbin \"" file         \
		"\"\n.byte 0\n.popsection\n")
EMBED(ls_script_round, "user/cluster/round.lua");
EMBED(ls_script_beat, "user/cluster/beat.lua");
EMBED(ls_script_bans, "user/cluster/bans.lua");

static const struct {
	const char *text, *sha1;
} scripts[LS_SCRIPTS] = {
	[LS_SCRIPT_ROUND] = { ls_script_round, LS_ROUND_SHA1 },
	[LS_SCRIPT_BEAT] = { ls_script_beat, LS_BEAT_SHA1 },
	[LS_SCRIPT_BANS] = { ls_script_bans, LS_BANS_SHA1 },
};

struct call {
	bool is_used, is_sent, is_asking, is_whole; /* is_whole: with the script's text */
	struct link *link;
	enum ls_script script;
	size_t n_keys, n_words;
	char **words; /* one allocation */
	unsigned shard, redirects;
	uint64_t start_ns, deadline_ns;
	ls_store_fn answer;
	void *data;
	struct ls_store *store;
};

struct link {
	struct ls_store *store;
	struct ls_conn conn;
	bool is_used, is_seed; /* of a seed the role is asked */
	bool is_greeting, is_ready;
	bool is_sentinel;
	uint64_t owed_ns; /* since when answers that nobody waits for are due; 0: none */
};

struct ls_store {
	struct ls_redis_url urls[16];
	size_t n_urls, at_url;
	char *password_file;
	int epoll_fd;
	uint64_t now_ns;
	double random;
	struct link links[LINKS];
	struct link *owner[OWNERS];
	struct call calls[OWNERS][LS_SCRIPTS];
	enum { STANDALONE, SENTINEL, CLUSTER } mode;
	bool is_known; /* what the deployment is */
	unsigned failures;
	uint64_t retry_ns, slots_ns;
	uint64_t settled_ns; /* when the store was found; 0: taken into account already */
	bool wants_slots;
	char why[256];
	struct ls_redis_url sentinel; /* that named the master */
	uint64_t scripts_sent, connects, redirects;
};

/* ---- answers ---- */

static const redisReply *raw(const struct ls_reply *reply)
{
	return (const redisReply *)reply;
}

size_t ls_reply_count(const struct ls_reply *reply)
{
	return reply && raw(reply)->type == REDIS_REPLY_ARRAY ? raw(reply)->elements : 0;
}

const struct ls_reply *ls_reply_at(const struct ls_reply *reply, size_t i)
{
	return i < ls_reply_count(reply) ? (const struct ls_reply *)raw(reply)->element[i] : NULL;
}

int64_t ls_reply_integer(const struct ls_reply *reply, int64_t otherwise)
{
	if (!reply)
		return otherwise;
	if (raw(reply)->type == REDIS_REPLY_INTEGER)
		return raw(reply)->integer;
	char *end = NULL;
	const char *const text = ls_reply_text(reply);
	const int64_t value = strtoll(text, &end, 10);
	return *text && *end == '\0' ? value : otherwise;
}

const char *ls_reply_text(const struct ls_reply *reply)
{
	if (!reply || !raw(reply)->str)
		return "";
	return raw(reply)->str;
}

/* ---- keys and slots ---- */

const char *ls_store_tag(unsigned shard)
{
	static char tags[OWNERS][8];

	if (!tags[shard][0])
		snprintf(tags[shard], sizeof(tags[shard]), shard == LS_STORE_COMMON ? "m" : "p%u",
			 shard);
	return tags[shard];
}

/* CRC-16/XMODEM, as the Cluster specification has it. */
static unsigned slot_of(const char *tag)
{
	unsigned crc = 0;

	for (; *tag; tag++) {
		crc ^= (unsigned)(unsigned char)*tag << 8;
		for (int bit = 0; bit < 8; bit++)
			crc = (crc & 0x8000 ? crc << 1 ^ 0x1021 : crc << 1) & 0xffff;
	}
	return crc & 16383;
}

/* ---- links ---- */

static bool same_place(const struct ls_redis_url *a, const struct ls_redis_url *b)
{
	return a->port == b->port && strcmp(a->host, b->host) == 0 && strcmp(a->path, b->path) == 0;
}

static struct link *link_to(struct ls_store *store, const struct ls_redis_url *url)
{
	struct link *free = NULL;

	for (size_t i = 0; i < LINKS; i++) {
		struct link *const link = &store->links[i];
		if (link->is_used && same_place(&link->conn.url, url))
			return link;
		if (!link->is_used && !free)
			free = link;
	}
	if (!free)
		return NULL;
	memset(free, 0, sizeof(*free));
	free->store = store;
	free->is_used = true;
	free->conn.url = *url;
	free->conn.fd = -1;
	return free;
}

static void link_open(struct link *link)
{
	struct ls_store *const store = link->store;
	const struct ls_redis_url url = link->conn.url;

	link->is_ready = link->is_greeting = false;
	link->owed_ns = 0;
	store->connects++;
	if (!ls_conn_open(&link->conn, &url, store->epoll_fd, store->now_ns))
		snprintf(store->why, sizeof(store->why), "%.190s", link->conn.why);
}

static void note(struct ls_store *store, const struct link *link, const char *why)
{
	char text[4 * LS_REDIS_TEXT];

	snprintf(store->why, sizeof(store->why), "%.120s: %.120s",
		 ls_redis_url_format(&link->conn.url, LS_SECRETS_MASKED, text), why);
}

/* From the beginning, at the next URL, after a while that grows. */
static void seek_again(struct ls_store *store)
{
	uint64_t wait_ns = RETRY_FIRST_NS << (store->failures < 4 ? store->failures : 4);

	wait_ns = wait_ns < RETRY_MAX_NS ? wait_ns : RETRY_MAX_NS;
	/* A connection that somebody has cut: the store may well be there, and every round that is missed costs. */
	if (store->settled_ns && store->now_ns - store->settled_ns >= LIVED_NS)
		wait_ns = RETRY_LOST_NS;
	else
		store->failures++;
	store->settled_ns = 0;
	store->is_known = false;
	store->at_url = (store->at_url + 1) % store->n_urls;
	/* All URLs in a row, and then a pause. */
	if (store->at_url != 0 && store->failures > 0)
		wait_ns /= store->n_urls;
	store->retry_ns = store->now_ns + (uint64_t)((double)wait_ns * (0.5 + store->random));
	for (size_t i = 0; i < LINKS; i++) {
		if (store->links[i].is_used) {
			store->links[i].is_used = false;
			ls_conn_close(&store->links[i].conn, store->why);
		}
	}
	memset(store->owner, 0, sizeof(store->owner));
}

static void link_ready(struct link *link)
{
	link->is_ready = true;
	link->is_greeting = false;
}

static void settle(struct link *link)
{
	struct ls_store *const store = link->store;

	link_ready(link);
	for (unsigned i = 0; i < OWNERS; i++)
		store->owner[i] = link;
	store->is_known = true;
	store->failures = 0;
	store->settled_ns = store->now_ns;
	store->why[0] = '\0';
}

static void link_fail(struct link *link, const char *why)
{
	note(link->store, link, why);
	ls_conn_close(&link->conn, why);
}

/* ---- finding out ---- */

static bool begins(const char *text, const char *with)
{
	return strncmp(text, with, strlen(with)) == 0;
}

static struct ls_redis_url place(const struct link *link, const char *host, int64_t port)
{
	struct ls_redis_url url = link->conn.url;

	url.path[0] = '\0';
	if (*host)
		snprintf(url.host, sizeof(url.host), "%.127s", host);
	url.port = (uint16_t)port;
	url.name[0] = '\0';
	return url;
}

/* Which link has which shard. Links that have none any more are closed. */
static void take_slots(struct link *link, const struct ls_reply *reply)
{
	struct ls_store *const store = link->store;
	bool is_owner[LINKS] = { false };

	memset(store->owner, 0, sizeof(store->owner));
	for (size_t i = 0; i < ls_reply_count(reply); i++) {
		const struct ls_reply *const range = ls_reply_at(reply, i);
		const struct ls_reply *const master = ls_reply_at(range, 2);
		const int64_t low = ls_reply_integer(ls_reply_at(range, 0), -1);
		const int64_t high = ls_reply_integer(ls_reply_at(range, 1), -1);
		const struct ls_redis_url url = place(link, ls_reply_text(ls_reply_at(master, 0)),
						      ls_reply_integer(ls_reply_at(master, 1), 0));
		struct link *const owner = url.port ? link_to(store, &url) : NULL;
		for (unsigned shard = 0; owner && shard < OWNERS; shard++) {
			const unsigned slot = slot_of(ls_store_tag(shard));
			if (slot >= low && slot <= high)
				store->owner[shard] = owner;
		}
	}
	for (unsigned shard = 0; shard < OWNERS; shard++)
		if (store->owner[shard])
			is_owner[store->owner[shard] - store->links] = true;
	for (size_t i = 0; i < LINKS; i++) {
		struct link *const old = &store->links[i];
		if (!old->is_used || is_owner[i] || old == link || old->conn.count)
			continue;
		old->is_used = false;
		ls_conn_close(&old->conn, "it has no slots any more");
	}
	store->mode = CLUSTER;
	store->is_known = true;
	store->failures = 0;
	store->settled_ns = store->now_ns;
	store->why[0] = '\0';
}

static void on_slots(void *data, const struct ls_reply *reply, const char *why)
{
	struct link *const link = data;
	struct ls_store *const store = link->store;

	if (!reply)
		return;
	link_ready(link);
	if (!why && ls_reply_count(reply) > 0) {
		take_slots(link, reply);
	} else if (store->mode == CLUSTER && store->is_known) {
		store->wants_slots = true; /* it does not know yet: somebody else may */
	} else {
		store->mode = store->mode == SENTINEL ? SENTINEL : STANDALONE;
		settle(link);
	}
}

static void send_words(struct link *link, ls_conn_fn answer, const char *a, const char *b,
		       const char *c)
{
	const char *const words[] = { a, b, c };
	const size_t lengths[] = { strlen(a), b ? strlen(b) : 0, c ? strlen(c) : 0 };

	(void)ls_conn_send(&link->conn, (size_t)(1 + !!b + !!c), words, lengths, answer, link);
}

static void on_master(void *data, const struct ls_reply *reply, const char *why)
{
	struct link *const link = data;
	struct ls_store *const store = link->store;

	if (!reply)
		return;
	if (why || ls_reply_count(reply) < 2) {
		link_fail(link,
			  why ? why : "it does not know that master; the URL's path names it");
		return;
	}
	/* Host and port come as text; the password is the one of the URL. */
	struct ls_redis_url url = place(link, ls_reply_text(ls_reply_at(reply, 0)),
					ls_reply_integer(ls_reply_at(reply, 1), 0));
	struct link *const master = link_to(store, &url);
	store->sentinel = link->conn.url;
	store->mode = SENTINEL;
	link_ready(link);
	link->is_sentinel = true;
	if (!master)
		return;
	master->is_seed = true;
	if (master->conn.state == LS_CONN_CLOSED)
		link_open(master);
}

static void on_role(void *data, const struct ls_reply *reply, const char *why)
{
	struct link *const link = data;
	struct ls_store *const store = link->store;
	const char *const role = why ? "master" : ls_reply_text(ls_reply_at(reply, 0));

	if (!reply)
		return;
	if (why && (begins(why, "NOAUTH") || begins(why, "LOADING") || begins(why, "WRONGPASS") ||
		    begins(why, "MASTERDOWN"))) {
		link_fail(link, why);
		return;
	}
	if (strcmp(role, "sentinel") == 0) {
		const struct ls_reply *const names = ls_reply_at(reply, 1);
		const char *const name = link->conn.url.name[0] ? link->conn.url.name
					 : ls_reply_count(names) == 1
						 ? ls_reply_text(ls_reply_at(names, 0))
						 : "";
		send_words(link, on_master, "SENTINEL", "get-master-addr-by-name", name);
		return;
	}
	if (strcmp(role, "slave") == 0 && store->mode == SENTINEL) {
		link_fail(link, "it is a replica, though a Sentinel says that it is the master");
		return;
	}
	if (strcmp(role, "slave") == 0 && store->n_urls > 1) {
		link_fail(link, "it is a replica");
		return;
	}
	send_words(link, on_slots, "CLUSTER", "SLOTS", NULL);
}

static void on_select(void *data, const struct ls_reply *reply, const char *why)
{
	struct link *const link = data;

	if (!reply)
		return;
	if (why)
		link_fail(link, why);
	else
		send_words(link, on_role, "ROLE", NULL, NULL);
}

static void after_auth(struct link *link)
{
	const char *const name = link->conn.url.name;

	if (!link->is_seed) {
		link_ready(link);
		return;
	}
	if (name[0] && strspn(name, "0123456789") == strlen(name) && strcmp(name, "0") != 0)
		send_words(link, on_select, "SELECT", name, NULL);
	else
		send_words(link, on_role, "ROLE", NULL, NULL);
}

static void on_auth(void *data, const struct ls_reply *reply, const char *why)
{
	struct link *const link = data;

	if (!reply)
		return;
	/* A Sentinel, or a server without a password, does not mind who comes. */
	if (why && !strstr(why, "without any password") && !strstr(why, "no password is set"))
		link_fail(link, why);
	else
		after_auth(link);
}

/* The first line of the password file; false: it cannot be read. */
static bool read_password(struct link *link, char *password, size_t size)
{
	_cleanup_free_ char *bytes = NULL;
	size_t length = 0;

	password[0] = '\0';
	if (link->conn.url.has_password) {
		snprintf(password, size, "%s", link->conn.url.password);
		return true;
	}
	if (!link->store->password_file)
		return true;
	if (ls_file_read(link->store->password_file, PASSWORD_BYTES_MAX, &bytes, &length, NULL) < 0)
		return false;
	bytes[strcspn(bytes, "\r\n")] = '\0';
	snprintf(password, size, "%s", bytes);
	return true;
}

static void link_greet(struct link *link)
{
	char password[128];
	const char *const user = link->conn.url.user;

	link->is_greeting = true;
	if (!read_password(link, password, sizeof(password))) {
		link_fail(link, "the password_file cannot be read");
		return;
	}
	if (!password[0])
		after_auth(link);
	else if (user[0])
		send_words(link, on_auth, "AUTH", user, password);
	else
		send_words(link, on_auth, "AUTH", password, NULL);
	explicit_bzero(password, sizeof(password));
}

/* ---- calls ---- */

static void call_end(struct call *call, const struct ls_reply *reply, const char *why)
{
	const struct call ended = *call;
	char copy[256] = "";

	if (!call->is_used)
		return;
	/* The answer may call again, and `why` may be part of what it changes. */
	if (why)
		snprintf(copy, sizeof(copy), "%s", why);
	if (call->link && call->is_sent)
		ls_conn_forget(&call->link->conn, call);
	memset(call, 0, sizeof(*call));
	free(ended.words);
	ended.answer(ended.data, why ? NULL : reply, why ? copy : NULL,
		     ended.store->now_ns - ended.start_ns);
}

/* "MOVED 3999 127.0.0.1:6381" or "ASK …": the link; NULL: it cannot be read. */
static struct link *redirected(struct call *call, const char *why)
{
	const char *const second = strchr(why, ' ');
	const char *const address = second ? strchr(second + 1, ' ') : NULL;
	const char *const colon = address ? strrchr(address, ':') : NULL;
	char host[128];

	if (!colon || colon - address - 1 >= (ptrdiff_t)sizeof(host))
		return NULL;
	snprintf(host, sizeof(host), "%.*s", (int)(colon - address - 1), address + 1);
	const long port = strtol(colon + 1, NULL, 10);
	if (port <= 0 || port > 65535)
		return NULL;
	const struct ls_redis_url url = place(call->link, host, port);
	return link_to(call->store, &url);
}

static bool call_redirect(struct call *call, const char *why)
{
	struct ls_store *const store = call->store;
	const bool is_ask = begins(why, "ASK ");

	if ((!is_ask && !begins(why, "MOVED ")) || call->redirects == REDIRECTS)
		return false;
	struct link *const link = redirected(call, why);
	if (!link)
		return false;
	call->redirects++;
	store->redirects++;
	call->is_sent = false;
	call->is_asking = is_ask;
	call->link = link;
	if (!is_ask) {
		store->owner[call->shard] = link;
		store->wants_slots = true;
	}
	if (link->conn.state == LS_CONN_CLOSED)
		link_open(link);
	return true;
}

/* Errors that another server would not give. */
static bool is_wrong_server(const char *why)
{
	return begins(why, "READONLY") || begins(why, "MASTERDOWN") || begins(why, "NOAUTH") ||
	       begins(why, "WRONGPASS") ||
	       strstr(why, "script attempted to write against a replica");
}

static void on_answer(void *data, const struct ls_reply *reply, const char *why)
{
	struct call *const call = data;
	struct link *const link = call->link;

	if (why && reply && begins(why, "NOSCRIPT") && !call->is_whole) {
		call->is_whole = true;
		call->is_sent = false;
		call->store->scripts_sent++;
		return;
	}
	if (why && reply && call_redirect(call, why))
		return;
	const bool is_wrong = why && reply && is_wrong_server(why);
	if (why && reply && begins(why, "CLUSTERDOWN"))
		call->store->wants_slots = true;
	if (is_wrong)
		note(call->store, link, why);
	call_end(call, reply, why);
	if (is_wrong)
		ls_conn_close(&link->conn, why);
}

static void on_asking(void *data, const struct ls_reply *reply, const char *why)
{
	(void)data;
	(void)reply;
	(void)why;
}

static void call_send(struct call *call)
{
	char keys[16];
	const char **const words = calloc(call->n_words + 3, sizeof(*words));
	size_t *const lengths = calloc(call->n_words + 3, sizeof(*lengths));

	if (words && lengths) {
		snprintf(keys, sizeof(keys), "%zu", call->n_keys);
		words[0] = call->is_whole ? "EVAL" : "EVALSHA";
		words[1] = call->is_whole ? scripts[call->script].text : scripts[call->script].sha1;
		words[2] = keys;
		for (size_t i = 0; i < call->n_words; i++)
			words[3 + i] = call->words[i];
		for (size_t i = 0; i < call->n_words + 3; i++)
			lengths[i] = strlen(words[i]);
		call->is_sent = true;
		if (call->is_asking) {
			const char *const asking = "ASKING";
			const size_t length = strlen(asking);
			(void)ls_conn_send(&call->link->conn, 1, &asking, &length, on_asking, NULL);
		}
		if (!ls_conn_send(&call->link->conn, call->n_words + 3, words, lengths, on_answer,
				  call) &&
		    call->is_used)
			call_end(call, NULL, call->link->conn.why);
	}
	free(words);
	free(lengths);
}

static void work_call(struct ls_store *store, struct call *call)
{
	struct link *const link = call->link;

	if (!call->is_sent && link->conn.state == LS_CONN_CLOSED) {
		call_end(call, NULL, link->conn.why);
		store->wants_slots = true;
	} else if (store->now_ns >= call->deadline_ns) {
		if (call->is_sent && !link->owed_ns)
			link->owed_ns = store->now_ns;
		call_end(call, NULL, "no answer in time");
	} else if (!call->is_sent && link->is_ready) {
		call_send(call);
	}
}

static bool copy_words(struct call *call, const struct ls_store_call *from)
{
	size_t bytes = from->n_words * sizeof(char *);

	for (size_t i = 0; i < from->n_words; i++)
		bytes += strlen(from->words[i]) + 1;
	call->words = malloc(bytes);
	if (!call->words)
		return false;
	char *at = (char *)(call->words + from->n_words);
	for (size_t i = 0; i < from->n_words; i++) {
		call->words[i] = at;
		at = stpcpy(at, from->words[i]) + 1;
	}
	call->n_words = from->n_words;
	return true;
}

int ls_store_call(struct ls_store *store, const struct ls_store_call *from, uint64_t now_ns)
{
	struct call *const call = &store->calls[from->shard][from->script];
	struct link *const link = store->is_known ? store->owner[from->shard] : NULL;

	store->now_ns = now_ns;
	if (call->is_used)
		return -EBUSY;
	if (!link) {
		store->wants_slots = true;
		return -ENOTCONN;
	}
	/* One that owes an answer is not given more to do. */
	if (link->owed_ns)
		return -EBUSY;
	if (!copy_words(call, from))
		return -ENOMEM;
	call->is_used = true;
	call->store = store;
	call->link = link;
	call->script = from->script;
	call->shard = from->shard;
	call->n_keys = from->n_keys;
	call->start_ns = now_ns;
	call->deadline_ns = now_ns + from->timeout_ns;
	call->answer = from->answer;
	call->data = from->data;
	if (link->conn.state == LS_CONN_CLOSED)
		link_open(link);
	if (link->is_ready)
		call_send(call);
	return 0;
}

/* ---- the store ---- */

static void work_link(struct ls_store *store, struct link *link)
{
	ls_conn_work(&link->conn, store->now_ns);
	if (link->conn.state == LS_CONN_OPEN && !link->is_ready && !link->is_greeting)
		link_greet(link);
	if (link->is_greeting && link->conn.state == LS_CONN_OPEN &&
	    store->now_ns - link->conn.since_ns > GREETING_NS)
		link_fail(link, "no answer to the greeting");
	if (link->owed_ns && !link->conn.count)
		link->owed_ns = 0;
	if (link->owed_ns && store->now_ns - link->owed_ns > ABANDONED_NS)
		link_fail(link, "no answer for two seconds");
	if (link->conn.state == LS_CONN_CLOSED && (link->is_ready || link->is_greeting)) {
		if (!store->why[0])
			note(store, link, link->conn.why);
		link->is_ready = link->is_greeting = false;
	}
}

static struct link *any_ready(struct ls_store *store)
{
	for (size_t i = 0; i < LINKS; i++)
		if (store->links[i].is_used && store->links[i].is_ready &&
		    !store->links[i].is_sentinel)
			return &store->links[i];
	return NULL;
}

static bool any_alive(const struct ls_store *store)
{
	for (size_t i = 0; i < LINKS; i++)
		if (store->links[i].is_used && !store->links[i].is_sentinel &&
		    store->links[i].conn.state != LS_CONN_CLOSED)
			return true;
	return false;
}

static void look_for_server(struct ls_store *store)
{
	bool is_trying = false;

	for (size_t i = 0; i < LINKS; i++)
		is_trying =
			is_trying ||
			(store->links[i].is_used && store->links[i].conn.state != LS_CONN_CLOSED &&
			 !(store->links[i].is_sentinel && store->links[i].is_ready));
	if (is_trying || store->now_ns < store->retry_ns)
		return;
	/* Nobody is being tried: either it begins, or what was tried has failed. */
	for (size_t i = 0; i < LINKS; i++) {
		if (store->links[i].is_used) {
			if (!store->why[0])
				note(store, &store->links[i], store->links[i].conn.why);
			seek_again(store);
			return;
		}
	}
	store->mode = STANDALONE;
	struct link *const seed = link_to(store, &store->urls[store->at_url]);
	seed->is_seed = true;
	link_open(seed);
	if (seed->conn.state == LS_CONN_CLOSED)
		note(store, seed, seed->conn.why);
}

static void work_slots(struct ls_store *store)
{
	struct link *const link = any_ready(store);

	if (store->mode != CLUSTER || !store->wants_slots || !link ||
	    store->now_ns - store->slots_ns < SLOTS_EVERY_NS)
		return;
	store->slots_ns = store->now_ns;
	store->wants_slots = false;
	send_words(link, on_slots, "CLUSTER", "SLOTS", NULL);
}

void ls_store_work(struct ls_store *store, uint64_t now_ns, double random)
{
	store->now_ns = now_ns;
	store->random = random;
	for (size_t i = 0; i < LINKS; i++)
		if (store->links[i].is_used)
			work_link(store, &store->links[i]);
	for (unsigned shard = 0; shard < OWNERS; shard++)
		for (int script = 0; script < LS_SCRIPTS; script++)
			if (store->calls[shard][script].is_used)
				work_call(store, &store->calls[shard][script]);
	if (store->is_known && !any_alive(store))
		seek_again(store);
	if (!store->is_known)
		look_for_server(store);
	else
		work_slots(store);
}

bool ls_store_is_ready(const struct ls_store *store, const char **ret_why)
{
	if (ret_why)
		*ret_why = store->why[0] ? store->why : "not connected yet";
	return store->is_known && any_alive(store);
}

unsigned ls_store_shards(const struct ls_store *store)
{
	return store->mode == CLUSTER ? LS_STORE_SHARDS : 1;
}

void ls_store_facts(const struct ls_store *store, struct ls_store_facts *ret)
{
	static const char *const names[] = { "standalone", "sentinel", "cluster" };
	const struct link *const link = store->owner[LS_STORE_COMMON];

	*ret = (struct ls_store_facts){
		.mode = store->is_known ? names[store->mode] : "",
		.scripts_sent = store->scripts_sent,
		.connects = store->connects,
		.redirects = store->redirects,
	};
	ls_redis_url_format(link ? &link->conn.url : &store->urls[store->at_url], LS_SECRETS_MASKED,
			    ret->server);
}

int ls_store_fd(const struct ls_store *store)
{
	return store->epoll_fd;
}

int ls_store_new(const struct ls_store_config *config, struct ls_store **ret)
{
	struct ls_store *const store = calloc(1, sizeof(*store));

	if (!store)
		return -ENOMEM;
	store->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	store->n_urls = config->n_urls < 16 ? config->n_urls : 16;
	memcpy(store->urls, config->urls, store->n_urls * sizeof(*store->urls));
	if (config->password_file)
		store->password_file = strdup(config->password_file);
	if (store->epoll_fd < 0 || (config->password_file && !store->password_file)) {
		ls_store_free(store);
		return -ENOMEM;
	}
	*ret = store;
	return 0;
}

void ls_store_free(struct ls_store *store)
{
	if (!store)
		return;
	for (unsigned shard = 0; shard < OWNERS; shard++) {
		for (int script = 0; script < LS_SCRIPTS; script++) {
			struct call *const call = &store->calls[shard][script];
			if (call->is_used && call->link && call->is_sent)
				ls_conn_forget(&call->link->conn, call);
			free(call->words);
			call->is_used = false;
		}
	}
	for (size_t i = 0; i < LINKS; i++)
		if (store->links[i].is_used)
			ls_conn_close(&store->links[i].conn, "ended");
	if (store->epoll_fd >= 0)
		close(store->epoll_fd);
	free(store->password_file);
	explicit_bzero(store, sizeof(*store));
	free(store);
}
