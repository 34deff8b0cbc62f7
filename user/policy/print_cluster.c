/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/policy/print.h"

#include "user/base/buffer.h"
#include "user/base/units.h"

static void print_urls(struct ls_buffer *buffer, const struct ls_cluster_rule *cluster,
		       enum ls_secrets secrets)
{
	char text[4 * LS_REDIS_TEXT];

	ls_buffer_text(buffer, "  redis: [");
	for (size_t i = 0; i < cluster->n_redis; i++) {
		ls_buffer_text(buffer, i ? ", " : "");
		ls_print_text(buffer, ls_redis_url_format(&cluster->redis[i], secrets, text));
	}
	ls_buffer_text(buffer, "]\n");
}

void ls_print_cluster(struct ls_buffer *buffer, const struct ls_cluster_rule *cluster,
		      enum ls_secrets secrets)
{
	char period[LS_UNIT_TEXT];

	if (!cluster->given)
		return;
	ls_buffer_text(buffer, "\ncluster:\n");
	print_urls(buffer, cluster, secrets);
	/* Not given means the name of each host: nothing about a host is in a policy. */
	if (cluster->node[0]) {
		ls_buffer_text(buffer, "  node: ");
		ls_print_text(buffer, cluster->node);
		ls_buffer_text(buffer, "\n");
	}
	ls_buffer_format(buffer, "  period: %s\n",
			 cluster->period_ns ? ls_time_format(cluster->period_ns, period)
					    : "automatic");
	ls_buffer_text(buffer, "  key_prefix: ");
	ls_print_text(buffer, cluster->key_prefix);
	ls_buffer_text(buffer, "\n");
	if (cluster->password_file) {
		ls_buffer_text(buffer, "  password_file: ");
		ls_print_text(buffer, cluster->password_file);
		ls_buffer_text(buffer, "\n");
	}
	ls_buffer_format(buffer, "  on_loss: %s\n  share_bans: %s\n",
			 ls_loss_names[cluster->on_loss], cluster->share_bans ? "true" : "false");
}
