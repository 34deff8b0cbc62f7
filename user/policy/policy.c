/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/policy/policy.h"

#include <stdlib.h>

/* What `capacity` is without the key. */
#define DEFAULT_SOURCES 1000000

struct ls_policy *ls_policy_new(void)
{
	struct ls_policy *policy = calloc(1, sizeof(*policy));

	if (policy)
		policy->sources = DEFAULT_SOURCES;
	return policy;
}

static void match_fini(struct ls_match *match)
{
	free(match->protocols.items);
	free(match->ports.items);
	free(match->source_ports.items);
	free(match->to.items);
	free(match->from.items);
	free(match->vlans.items);
}

void ls_policy_free(struct ls_policy *policy)
{
	if (!policy)
		return;
	for (size_t i = 0; i < policy->n_sets; i++) {
		free(policy->sets[i].file);
		free(policy->sets[i].entries.items);
	}
	free(policy->sets);
	free(policy->allow.items);
	free(policy->deny.items);
	for (size_t i = 0; i < policy->n_nats; i++)
		free(policy->nats[i].sources.items);
	free(policy->nats);
	for (size_t i = 0; i < policy->n_classes; i++) {
		match_fini(&policy->classes[i].match);
		free(policy->classes[i].check.endpoint.text);
	}
	free(policy->signals.load.text);
	free(policy->signals.probe.text);
	free(policy->classes);
	free(policy->cluster.password_file);
	free(policy);
}
