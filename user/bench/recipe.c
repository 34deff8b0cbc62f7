/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/bench/recipe.h"

#include <errno.h>

#include "user/base/addr.h"
#include "user/base/buffer.h"
#include "user/base/error.h"
#include "user/policy/policy.h"
#include "user/policy/read.h"

/* As generous as it gets: everything is admitted, and every packet is charged. */
#define GENEROUS "rate: 100M/s, burst: 100M"
#define REFUSING "rate: 1/m, burst: 1"
#define LIST_FILE "list"

/* A permutation of 32 bits that looks random (the finalizer of MurmurHash3). */
static uint32_t mix(uint32_t number)
{
	number = (number ^ number >> 16) * 0x85ebca6bU;
	number = (number ^ number >> 13) * 0xc2b2ae35U;
	return number ^ number >> 16;
}

static struct ls_prefix prefix_of(uint8_t family, uint64_t upper, uint8_t length)
{
	struct ls_prefix prefix = { .family = family, .length = 128 };

	for (unsigned i = 0; i < 8; i++)
		prefix.bytes[i] = (uint8_t)(upper >> (56 - 8 * i));
	if (family == LS_IPV4)
		prefix.length = 32;
	return ls_prefix_widen(prefix, length);
}

struct ls_prefix ls_recipe_prefix(uint8_t family, uint32_t number)
{
	static const uint8_t lengths4[] = { 32, 32, 32, 32, 32, 32, 32, 28, 24, 22 };
	static const uint8_t lengths6[] = { 48, 48, 48, 48, 48, 48, 47, 46, 45, 44,
					    43, 42, 41, 40, 39, 38, 37, 36, 56, 64 };

	if (family == LS_IPV4)
		return prefix_of(family, (uint64_t)mix(number + 1) << 32, lengths4[number % 10]);
	return prefix_of(family,
			 LS_RECIPE_PREFIX6 | (uint64_t)mix(number + 1) << 20 |
				 mix(number + 77777) >> 12,
			 lengths6[number % 20]);
}

/* The bytes of the list of struct ls_policy_files: one prefix a line. */
static int list_read(void *context, const char *file, char **ret_bytes, size_t *ret_length,
		     struct ls_error *error)
{
	const struct ls_recipe *recipe = context;
	const uint8_t family = recipe->kind == LS_RECIPE_LIST4 ? LS_IPV4 : LS_IPV6;
	_cleanup_buffer_ struct ls_buffer buffer = LS_BUFFER_INIT;
	char text[LS_PREFIX_TEXT];

	(void)file;
	for (uint32_t i = 0; i < recipe->number; i++) {
		const struct ls_prefix prefix = ls_recipe_prefix(family, i);
		ls_buffer_text(&buffer, ls_prefix_format(&prefix, text));
		ls_buffer_add(&buffer, "\n", 1);
	}
	*ret_bytes = ls_buffer_take(&buffer, ret_length);
	return *ret_bytes ? 0 : ls_error_oom(error);
}

/* Limits of packets per source, the first of them `first`. */
static void put_limits(struct ls_buffer *text, uint32_t count, const char *first)
{
	ls_buffer_text(text, "  - name: a\n    match: any\n    limits:\n");
	for (uint32_t i = 0; i < count; i++)
		ls_buffer_format(text, "      - { name: l%u, %s }\n", i, i ? GENEROUS : first);
}

static void put_class(struct ls_buffer *text, const char *name, uint32_t port, const char *limit)
{
	ls_buffer_format(text, "  - name: %s\n    match: { ports: [%u] }\n    limits: [ { %s } ]\n",
			 name, port, limit);
}

static void put_classes(struct ls_buffer *text, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		char name[16];
		snprintf(name, sizeof(name), "c%u", i);
		put_class(text, name, LS_RECIPE_PORT + i, GENEROUS);
	}
}

static void put_recipe(struct ls_buffer *text, struct ls_recipe recipe)
{
	char limit[80];

	ls_buffer_text(text, "version: 1\n");
	if (recipe.kind == LS_RECIPE_LIST4 || recipe.kind == LS_RECIPE_LIST6)
		ls_buffer_text(text, "sets: { list: { file: " LIST_FILE " } }\ndeny: [list]\n");
	if (recipe.kind == LS_RECIPE_DENIED)
		ls_buffer_text(text, "deny: [0.0.0.0/1, 128.0.0.0/1]\n");
	ls_buffer_text(text, "classes:\n");
	snprintf(limit, sizeof(limit), "per: %s, rate: %u/s, burst: %u",
		 recipe.kind == LS_RECIPE_STRICT ? "source" : "class", LS_RECIPE_STRICT_RATE,
		 LS_RECIPE_STRICT_BURST);
	switch (recipe.kind) {
	case LS_RECIPE_LIMITS:
		put_limits(text, recipe.number, GENEROUS);
		break;
	case LS_RECIPE_REFUSED:
		put_limits(text, recipe.number, REFUSING);
		break;
	case LS_RECIPE_HALF:
		put_class(text, "open", LS_RECIPE_PORT, GENEROUS);
		put_class(text, "shut", LS_RECIPE_PORT + 1, REFUSING);
		break;
	case LS_RECIPE_CLASSES:
		put_classes(text, recipe.number);
		break;
	case LS_RECIPE_STRICT:
	case LS_RECIPE_CLASS_STRICT:
		put_limits(text, 1, limit);
		break;
	case LS_RECIPE_CLASS:
		put_limits(text, 1, "per: class, " GENEROUS);
		break;
	case LS_RECIPE_NONE:
	case LS_RECIPE_LIST4:
	case LS_RECIPE_LIST6:
	case LS_RECIPE_BANS:
	case LS_RECIPE_BANNED:
	case LS_RECIPE_DENIED:
		put_limits(text, 1, GENEROUS);
		break;
	}
}

int ls_recipe_policy(struct ls_recipe recipe, struct ls_policy **ret, struct ls_error *error)
{
	_cleanup_buffer_ struct ls_buffer text = LS_BUFFER_INIT;
	const struct ls_policy_files files = { .context = &recipe, .read = list_read };

	put_recipe(&text, recipe);
	if (text.failed)
		return ls_error_oom(error);
	return ls_policy_read_memory("bench", ls_buffer_string(&text), text.length, &files, ret,
				     error);
}
