/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/policy/blob.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "user/base/buffer.h"
#include "user/base/error.h"
#include "user/base/sha256.h"
#include "user/policy/policy.h"
#include "user/policy/print.h"
#include "user/policy/read.h"

static const char magic[8] = "lspolicy";

#define VERSION 1U
#define HEADER_BYTES (sizeof(magic) + 4 + 8)

/* Strings carry their length; all integers are little endian. */

static void put_string(struct ls_buffer *buffer, const char *text, size_t length)
{
	ls_buffer_u64(buffer, length);
	ls_buffer_add(buffer, text, length);
}

/* Entries are sorted, IPv4 first: two counts, then 5 or 17 bytes for each. */
static void put_entries(struct ls_buffer *buffer, const struct ls_prefixes *entries)
{
	size_t n4 = 0;

	while (n4 < entries->count && entries->items[n4].family == LS_IPV4)
		n4++;
	ls_buffer_u64(buffer, n4);
	ls_buffer_u64(buffer, entries->count - n4);
	ls_buffer_reserve(buffer, 5 * n4 + 17 * (entries->count - n4));
	for (size_t i = 0; i < entries->count; i++) {
		const struct ls_prefix *const entry = &entries->items[i];
		const size_t bytes = i < n4 ? 4 : 16;
		uint8_t packed[17];

		packed[0] = entry->length;
		memcpy(packed + 1, entry->bytes, bytes);
		ls_buffer_add(buffer, packed, 1 + bytes);
	}
}

void ls_blob_write(const struct ls_policy *policy, const char *path, struct ls_buffer *buffer)
{
	_cleanup_buffer_ struct ls_buffer blob = LS_BUFFER_INIT, yaml = LS_BUFFER_INIT;
	uint8_t digest[LS_SHA256_BYTES];
	uint64_t total;

	ls_policy_print_secrets(policy, LS_SECRETS_KEPT, &yaml);
	ls_buffer_add(&blob, magic, sizeof(magic));
	ls_buffer_u32(&blob, VERSION);
	ls_buffer_u64(&blob, 0); /* the total, when it is known */
	ls_buffer_u8(&blob, path != NULL);
	put_string(&blob, path ? path : "", path ? strlen(path) : 0);
	put_string(&blob, ls_buffer_string(&yaml), yaml.length);
	for (size_t i = 0; i < policy->n_sets; i++) {
		const struct ls_set *const set = &policy->sets[i];

		if (!set->file)
			continue;
		ls_buffer_add(&blob, set->name, sizeof(set->name));
		ls_buffer_add(&blob, set->sha256, sizeof(set->sha256));
		ls_buffer_u64(&blob, set->skipped);
		put_entries(&blob, &set->entries);
	}
	if (blob.failed || yaml.failed) {
		buffer->failed = true;
		return;
	}

	total = blob.length + sizeof(digest);
	for (unsigned i = 0; i < 8; i++)
		blob.bytes[sizeof(magic) + 4 + i] = (char)(total >> (8 * i));
	ls_sha256(blob.bytes, blob.length, digest);
	ls_buffer_add(buffer, blob.bytes, blob.length);
	ls_buffer_add(buffer, digest, sizeof(digest));
}

/* What has not been read yet. Reading past the end sets `failed` and gives zeros. */
struct cursor {
	const uint8_t *at, *end;
	bool failed;
};

static const uint8_t *take(struct cursor *cursor, uint64_t length)
{
	const uint8_t *const at = cursor->at;

	if (cursor->failed || length > (uint64_t)(cursor->end - at)) {
		cursor->failed = true;
		return NULL;
	}
	cursor->at += length;
	return at;
}

static uint64_t take_number(struct cursor *cursor, unsigned width)
{
	const uint8_t *const bytes = take(cursor, width);
	uint64_t value = 0;

	for (unsigned i = 0; bytes && i < width; i++)
		value |= (uint64_t)bytes[i] << (8 * i);
	return value;
}

static int refuse(const char *name, const char *why, struct ls_error *error)
{
	return ls_error_set(error, "cannot read the saved policy in '%s': %s", name, why);
}

/* One entry of `bytes` address bytes, checked as strictly as text is. */
static bool take_entry(const uint8_t *packed, size_t bytes, struct ls_prefix *ret)
{
	struct ls_prefix entry = { .family = bytes == 4 ? LS_IPV4 : LS_IPV6, .length = packed[0] };
	struct ls_prefix masked;

	if (entry.length > ls_prefix_full_length(entry.family))
		return false;
	memcpy(entry.bytes, packed + 1, bytes);
	masked = ls_prefix_widen(entry, entry.length);
	if (memcmp(masked.bytes, entry.bytes, sizeof(entry.bytes)) != 0)
		return false;
	*ret = entry;
	return true;
}

static int take_entries(struct cursor *cursor, struct ls_prefixes *ret, struct ls_error *error)
{
	const uint64_t n4 = take_number(cursor, 8), n6 = take_number(cursor, 8);
	const uint64_t left = (uint64_t)(cursor->end - cursor->at);
	const uint8_t *packed;

	if (cursor->failed || n4 > left / 5 || n6 > (left - 5 * n4) / 17)
		return ls_error_set(error, "its lists are cut off");
	packed = take(cursor, 5 * n4 + 17 * n6);
	ret->items = malloc((size_t)(n4 + n6 + 1) * sizeof(*ret->items));
	if (!packed || !ret->items)
		return ls_error_oom(error);
	for (uint64_t i = 0; i < n4 + n6; i++) {
		const size_t bytes = i < n4 ? 4 : 16;
		struct ls_prefix *const entry = &ret->items[i];

		if (!take_entry(packed, bytes, entry) ||
		    (i > 0 && ls_prefix_compare(entry - 1, entry) >= 0))
			return ls_error_set(error, "its lists are damaged");
		packed += 1 + bytes;
		ret->count++;
	}
	return 0;
}

/* The reader's door for list files: they come in the order in which the YAML names them. */
static int fill_set(void *context, struct ls_set *set, struct ls_error *error)
{
	struct cursor *const cursor = context;
	const uint8_t *const name = take(cursor, sizeof(set->name));
	const uint8_t *const sha256 = take(cursor, sizeof(set->sha256));

	if (!name || !sha256 || memcmp(name, set->name, sizeof(set->name)) != 0)
		return ls_error_set(error, "the saved contents of set '%s' are missing", set->name);
	memcpy(set->sha256, sha256, sizeof(set->sha256));
	set->skipped = (size_t)take_number(cursor, 8);
	return take_entries(cursor, &set->entries, error);
}

/* That it is one of ours, whole and unchanged. */
static int check_whole(const char *name, const uint8_t *bytes, size_t length,
		       struct ls_error *error)
{
	struct cursor header = { .at = bytes, .end = bytes + length };
	uint8_t digest[LS_SHA256_BYTES];
	const uint8_t *const start = take(&header, sizeof(magic));
	const uint64_t version = take_number(&header, 4);
	const uint64_t total = take_number(&header, 8);

	if (!start || memcmp(start, magic, sizeof(magic)) != 0)
		return refuse(name, length == 0 ? "it is empty" : "this is something else", error);
	if (header.failed || total > length || total < HEADER_BYTES + LS_SHA256_BYTES)
		return refuse(name, "it is cut off; apply the policy file again", error);
	if (version != VERSION)
		return refuse(name, "another version of this program wrote it", error);
	ls_sha256(bytes, length - LS_SHA256_BYTES, digest);
	if (total < length ||
	    memcmp(digest, bytes + length - LS_SHA256_BYTES, LS_SHA256_BYTES) != 0)
		return refuse(name, "it is damaged; apply the policy file again", error);
	return 0;
}

int ls_blob_read(const char *name, const void *bytes, size_t length, struct ls_policy **ret,
		 char **ret_path, struct ls_error *error)
{
	_cleanup_(ls_policy_freep) struct ls_policy *policy = NULL;
	_cleanup_free_ char *path = NULL;
	struct cursor cursor = { .at = bytes };
	const struct ls_policy_files files = { .context = &cursor, .fill = fill_set };
	const uint8_t *path_bytes, *yaml;
	uint64_t path_length, yaml_length;
	bool has_path;
	int result = check_whole(name, bytes, length, error);

	if (result < 0)
		return result;
	cursor.at += HEADER_BYTES;
	cursor.end = (const uint8_t *)bytes + length - LS_SHA256_BYTES;
	has_path = take_number(&cursor, 1) != 0;
	path_length = take_number(&cursor, 8);
	path_bytes = take(&cursor, path_length);
	yaml_length = take_number(&cursor, 8);
	yaml = take(&cursor, yaml_length);
	if (!path_bytes || !yaml)
		return refuse(name, "it is damaged; apply the policy file again", error);
	if (has_path) {
		path = strndup((const char *)path_bytes, (size_t)path_length);
		if (!path)
			return ls_error_oom(error);
	}
	result = ls_policy_read_memory(name, (const char *)yaml, (size_t)yaml_length, &files,
				       &policy, error);
	if (result < 0)
		return result;
	if (cursor.at != cursor.end)
		return refuse(name, "it holds more lists than its policy names", error);
	*ret = TAKE_PTR(policy);
	if (ret_path)
		*ret_path = TAKE_PTR(path);
	return 0;
}
