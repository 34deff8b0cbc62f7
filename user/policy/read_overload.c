/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/policy/reader.h"

/*
 * `overload`, and the `check` of a class.
 *
 * `max` works in the kernel alone, so a section that has nothing else asks for nothing else. As soon as a signal is
 * named, or the section is empty, all signals have their defaults: those that show work being lost or waiting are on,
 * those that need a threshold of the operator's are off.
 */

#include <stdio.h>
#include <string.h>

#include "user/base/error.h"

#define ACCEPT_DELAY_NS (20 * LS_NS_PER_MS)
#define MEMORY_PERCENT 95
#define LOAD_PERCENT 80
#define PROBE_NS (100 * LS_NS_PER_MS)
#define TARGET_NS_MIN LS_NS_PER_MS
#define TARGET_NS_MAX (60 * LS_NS_PER_S)
#define FLOORS_MAX 90		/* per cent: the rest is for whoever comes first */
#define UNIX_PATH_MAX_BYTES 107 /* struct sockaddr_un */

static int read_overload_max(struct ls_reader *reader, const struct ls_node *node)
{
	static const char *const keys[] = { "packets", "connections" };
	struct ls_overload_max *const max = &reader->policy->overload;
	const struct ls_node *packets, *connections, *bytes;

	if (node->kind == LS_NODE_MAP) {
		bytes = ls_node_get(node, "bytes");
		if (bytes)
			return ls_refuse(reader, bytes->key,
					 "'bytes' does not apply to overload.max; it takes packets "
					 "and connections");
	}
	if (ls_reader_map(reader, node, "'max'", keys, LS_LENGTH(keys)) < 0)
		return -1;
	packets = ls_node_get(node, "packets");
	connections = ls_node_get(node, "connections");
	if (!packets && !connections)
		return ls_refuse(reader, node, "max is empty; write packets, connections or both");
	if (packets && ls_reader_rate(reader, packets, "packets", false, &max->packets) < 0)
		return -1;
	if (connections &&
	    ls_reader_rate(reader, connections, "connections", false, &max->connections) < 0)
		return -1;
	max->has_packets = packets != NULL;
	max->has_connections = connections != NULL;
	return 0;
}

/* 1 % to `high` %. */
static int read_percent(struct ls_reader *reader, const struct ls_node *node, const char *what,
			unsigned high, unsigned *ret)
{
	struct ls_error found = LS_ERROR_INIT;
	const char *text = NULL;
	char digits[8];
	uint64_t value = 0;

	if (ls_reader_text(reader, node, what, &text) < 0)
		return -1;
	const size_t length = strlen(text);
	if (length < 2 || length > 4 || text[length - 1] != '%')
		return ls_refuse(reader, node, "%s: '%.40s' is no percentage; write 1%% to %u%%",
				 what, text, high);
	snprintf(digits, sizeof(digits), "%.*s", (int)(length - 1), text);
	if (ls_number_parse(digits, 1, high, &value, &found) < 0)
		return ls_refuse(reader, node, "%s: '%.40s' is out of range; write 1%% to %u%%",
				 what, text, high);
	*ret = (unsigned)value;
	return 0;
}

static bool is_off(const struct ls_node *node)
{
	return node->kind == LS_NODE_TEXT && strcmp(node->text, "off") == 0;
}

/* A percentage, or off. */
static int read_part(struct ls_reader *reader, const struct ls_node *node, const char *what,
		     unsigned *ret)
{
	*ret = 0;
	return is_off(node) ? 0 : read_percent(reader, node, what, 100, ret);
}

static int read_softnet(struct ls_reader *reader, const struct ls_node *node, bool *ret)
{
	static const char *const words[] = { "off", "on" };
	unsigned chosen = 0;

	if (ls_reader_word(reader, node, "softnet", words, LS_LENGTH(words), &chosen) < 0)
		return -1;
	*ret = chosen == 1;
	return 0;
}

/* ---- endpoints ---- */

static int read_path(struct ls_reader *reader, const struct ls_node *node, const char *what,
		     const char *text, bool is_socket)
{
	if (*text != '/')
		return ls_refuse(reader, node, "%s: '%.60s' must be an absolute path", what, text);
	if (is_socket && strlen(text) > UNIX_PATH_MAX_BYTES)
		return ls_refuse(reader, node, "%s: the path of a socket has at most %d characters",
				 what, UNIX_PATH_MAX_BYTES);
	return 0;
}

/* ADDRESS:PORT or [ADDRESS]:PORT at the start of text; *ret_length: how much of it. */
static bool parse_address_port(const char *text, struct ls_endpoint *endpoint, size_t *ret_length)
{
	const bool bracketed = *text == '[';
	const char *start = text + bracketed;
	const size_t length = strcspn(start, bracketed ? "]" : ":");
	const char *port = start + length + bracketed;
	struct ls_error ignored = LS_ERROR_INIT;
	char digits[8];
	uint64_t number = 0;

	if (ls_prefix_parse(start, length, &endpoint->address) != LS_PREFIX_OK ||
	    !ls_prefix_is_host(&endpoint->address) ||
	    bracketed != (endpoint->address.family == LS_IPV6) || *port != ':')
		return false;
	const size_t n_digits = strspn(port + 1, "0123456789");
	if (n_digits == 0 || n_digits > 5)
		return false;
	snprintf(digits, sizeof(digits), "%.*s", (int)n_digits, port + 1);
	if (ls_number_parse(digits, 1, 65535, &number, &ignored) < 0)
		return false;
	endpoint->port = (uint16_t)number;
	*ret_length = (size_t)(port + 1 + n_digits - text);
	return true;
}

static int read_address(struct ls_reader *reader, const struct ls_node *node, const char *what,
			const char *text, struct ls_endpoint *endpoint)
{
	static const char scheme[] = "http://";
	const bool is_http = endpoint->kind == LS_ENDPOINT_HTTP;
	const size_t skip = is_http && strncmp(text, scheme, strlen(scheme)) == 0 ? strlen(scheme)
										  : 0;
	size_t length = 0;

	if ((is_http && !skip) || !parse_address_port(text + skip, endpoint, &length) ||
	    (is_http ? text[skip + length] != '/' : text[length] != '\0') ||
	    strpbrk(text, " \t\"\\"))
		return ls_refuse(
			reader, node,
			"%s: '%.80s' is not understood; write %s with an address, not a name", what,
			text, is_http ? "http://127.0.0.1:8080/path" : "127.0.0.1:8080");
	return 0;
}

/* The one of `file`, `tcp`, `http`, `unix` that the map has; `accepted`: a bit for each kind. */
static int read_endpoint(struct ls_reader *reader, const struct ls_node *node, const char *what,
			 unsigned accepted, struct ls_endpoint *ret)
{
	const struct ls_node *found = NULL;
	const char *text = NULL;

	for (unsigned kind = LS_ENDPOINT_FILE; kind < LS_ENDPOINT_MAX; kind++) {
		const struct ls_node *at = ls_node_get(node, ls_endpoint_names[kind]);
		if (!at || !(accepted >> kind & 1))
			continue;
		if (found)
			return ls_refuse(reader, at->key,
					 "%s asks in one place only; leave out '%s' or '%s'", what,
					 ls_endpoint_names[ret->kind], ls_endpoint_names[kind]);
		found = at;
		ret->kind = kind;
	}
	if (!found)
		return ls_refuse(reader, node, "%s does not say where to ask; write %s", what,
				 accepted >> LS_ENDPOINT_FILE & 1 ? "'file', 'http' or 'unix'"
								  : "'tcp', 'http' or 'unix'");
	if (ls_reader_text(reader, found, ls_endpoint_names[ret->kind], &text) < 0)
		return -1;
	if (ret->kind == LS_ENDPOINT_FILE || ret->kind == LS_ENDPOINT_UNIX) {
		if (read_path(reader, found, what, text, ret->kind == LS_ENDPOINT_UNIX) < 0)
			return -1;
	} else if (read_address(reader, found, what, text, ret) < 0) {
		return -1;
	}
	ret->text = strdup(text);
	return ret->text ? 0 : ls_error_oom(reader->error);
}

static int read_load(struct ls_reader *reader, const struct ls_node *node,
		     struct ls_signals *signals)
{
	static const char *const keys[] = { "file", "http", "unix", "target" };
	const unsigned accepted = 1U << LS_ENDPOINT_FILE | 1U << LS_ENDPOINT_HTTP |
				  1U << LS_ENDPOINT_UNIX;
	const struct ls_node *target;

	if (ls_reader_map(reader, node, "'load'", keys, LS_LENGTH(keys)) < 0 ||
	    read_endpoint(reader, node, "load", accepted, &signals->load) < 0)
		return -1;
	target = ls_node_get(node, "target");
	return target ? read_percent(reader, target, "target", 100, &signals->load_target) : 0;
}

static int read_probe(struct ls_reader *reader, const struct ls_node *node,
		      struct ls_signals *signals)
{
	static const char *const keys[] = { "tcp", "http", "unix", "target" };
	const unsigned accepted = 1U << LS_ENDPOINT_TCP | 1U << LS_ENDPOINT_HTTP |
				  1U << LS_ENDPOINT_UNIX;
	const struct ls_node *target;

	if (ls_reader_map(reader, node, "'probe'", keys, LS_LENGTH(keys)) < 0 ||
	    read_endpoint(reader, node, "probe", accepted, &signals->probe) < 0)
		return -1;
	target = ls_node_get(node, "target");
	return target ? ls_reader_time(reader, target, "target", TARGET_NS_MIN, TARGET_NS_MAX,
				       &signals->probe_target_ns)
		      : 0;
}

static int read_floor(struct ls_reader *reader, const struct ls_node *node,
		      struct ls_signals *signals)
{
	unsigned sum = 0;

	if (ls_reader_map(reader, node, "'floor'", ls_priority_names, LS_PRIORITY_MAX) < 0)
		return -1;
	for (unsigned p = 0; p < LS_PRIORITY_MAX; p++) {
		const struct ls_node *at = ls_node_get(node, ls_priority_names[p]);
		if (at && read_percent(reader, at, ls_priority_names[p], FLOORS_MAX,
				       &signals->floor[p]) < 0)
			return -1;
		sum += signals->floor[p];
	}
	if (sum > FLOORS_MAX)
		return ls_refuse(reader, node,
				 "the floors are %u%% together, and at most %d%% can be set aside",
				 sum, FLOORS_MAX);
	return 0;
}

/* ---- the section ---- */

static int read_delay(struct ls_reader *reader, const struct ls_node *node, uint64_t *ret_ns)
{
	*ret_ns = 0;
	return is_off(node) ? 0
			    : ls_reader_time(reader, node, "accept_delay", TARGET_NS_MIN,
					     TARGET_NS_MAX, ret_ns);
}

/* One key of a signal; 0 also when it is not there. */
static int read_signal(struct ls_reader *reader, const struct ls_node *section, const char *key,
		       struct ls_signals *signals)
{
	const struct ls_node *const node = ls_node_get(section, key);

	if (!node)
		return 0;
	signals->given = true;
	if (strcmp(key, "accept_delay") == 0)
		return read_delay(reader, node, &signals->accept_delay_ns);
	if (strcmp(key, "cpu") == 0)
		return read_part(reader, node, key, &signals->cpu);
	if (strcmp(key, "pressure") == 0)
		return read_part(reader, node, key, &signals->pressure);
	if (strcmp(key, "memory") == 0)
		return read_part(reader, node, key, &signals->memory);
	if (strcmp(key, "softnet") == 0)
		return read_softnet(reader, node, &signals->softnet);
	if (strcmp(key, "load") == 0)
		return read_load(reader, node, signals);
	if (strcmp(key, "probe") == 0)
		return read_probe(reader, node, signals);
	return read_floor(reader, node, signals);
}

int ls_read_overload(struct ls_reader *reader, const struct ls_node *node)
{
	/* The signals first, in the order in which they are printed. */
	static const char *const keys[] = { "accept_delay", "cpu",  "pressure", "memory",
					    "softnet",	    "load", "probe",	"floor",
					    "mode",	    "max" };
	const size_t n_signals = LS_LENGTH(keys) - 2;
	struct ls_signals *const signals = &reader->policy->signals;
	const struct ls_node *max, *mode;
	unsigned chosen = LS_MODE_ENFORCE;

	if (ls_reader_map(reader, node, "'overload'", keys, LS_LENGTH(keys)) < 0)
		return -1;
	max = ls_node_get(node, "max");
	mode = ls_node_get(node, "mode");
	if (max && read_overload_max(reader, max) < 0)
		return -1;
	if (mode && ls_reader_word(reader, mode, "mode", ls_mode_names, LS_MODE_MAX, &chosen) < 0)
		return -1;
	reader->policy->overload_mode = chosen;
	*signals = (struct ls_signals){
		.given = !max,
		.accept_delay_ns = ACCEPT_DELAY_NS,
		.memory = MEMORY_PERCENT,
		.softnet = true,
		.load_target = LOAD_PERCENT,
		.probe_target_ns = PROBE_NS,
	};
	for (size_t i = 0; i < n_signals; i++)
		if (read_signal(reader, node, keys[i], signals) < 0)
			return -1;
	if (!signals->given)
		*signals = (struct ls_signals){ 0 };
	return 0;
}

int ls_read_check(struct ls_reader *reader, const struct ls_node *node, struct ls_check *ret)
{
	static const char *const keys[] = { "tcp",     "http", "unix", "interval",
					    "timeout", "fall", "rise" };
	const unsigned accepted = 1U << LS_ENDPOINT_TCP | 1U << LS_ENDPOINT_HTTP |
				  1U << LS_ENDPOINT_UNIX;
	const struct ls_node *interval, *timeout, *fall, *rise;
	uint64_t n_fall = 3, n_rise = 2;

	if (ls_reader_map(reader, node, "'check'", keys, LS_LENGTH(keys)) < 0 ||
	    read_endpoint(reader, node, "check", accepted, &ret->endpoint) < 0)
		return -1;
	interval = ls_node_get(node, "interval");
	timeout = ls_node_get(node, "timeout");
	fall = ls_node_get(node, "fall");
	rise = ls_node_get(node, "rise");
	ret->interval_ns = LS_NS_PER_S;
	if (interval && ls_reader_time(reader, interval, "interval", 100 * LS_NS_PER_MS,
				       3600 * LS_NS_PER_S, &ret->interval_ns) < 0)
		return -1;
	ret->timeout_ns = ret->interval_ns < LS_NS_PER_S ? ret->interval_ns : LS_NS_PER_S;
	if (timeout && ls_reader_time(reader, timeout, "timeout", 10 * LS_NS_PER_MS,
				      60 * LS_NS_PER_S, &ret->timeout_ns) < 0)
		return -1;
	if (fall && ls_reader_number(reader, fall, "fall", 1, 100, &n_fall) < 0)
		return -1;
	if (rise && ls_reader_number(reader, rise, "rise", 1, 100, &n_rise) < 0)
		return -1;
	if (ret->timeout_ns > ret->interval_ns)
		return ls_refuse(
			reader, timeout ? timeout : node,
			"the timeout is longer than the interval; a check must end before the next one begins");
	ret->fall = (unsigned)n_fall;
	ret->rise = (unsigned)n_rise;
	return 0;
}
