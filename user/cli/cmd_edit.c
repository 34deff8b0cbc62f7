/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/cli/publish.h"

/*
 * policy edit: the policy in force in an editor, then check, diff, apply.
 *
 * The text lives in a file beside the policy's own, so that list files are found by the same relative paths, or with
 * the saved state when that folder is not ours to write. It goes when the edit is in force or nothing was
 * changed; however else this ends, it stays and is named. The lock is not held while somebody types: what counts is that
 * the generation is still the one that was shown, so of two editors the second to finish is told and has his text.
 */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "user/base/buffer.h"
#include "user/base/file.h"
#include "user/plane/save.h"
#include "user/plane/timed.h"
#include "user/policy/diff.h"
#include "user/policy/policy.h"
#include "user/policy/print.h"
#include "user/policy/read.h"

struct edit {
	struct ls_cli *cli;
	struct ls_policy *current; /* as shown in the editor */
	char *path;		   /* where it came from; NULL: nowhere */
	uint64_t generation;	   /* it is of */
	char file[PATH_MAX];	   /* "": none yet */
};

static void edit_fini(struct edit *edit)
{
	ls_policy_free(edit->current);
	free(edit->path);
}

/* Makes the file in `folder`; false: not possible there. */
static bool make_file(struct edit *edit, const char *folder)
{
	snprintf(edit->file, sizeof(edit->file), "%.3900s/%s.edit-XXXXXX.yaml", folder,
		 edit->cli->instance);
	const int fd = mkostemps(edit->file, 5, O_CLOEXEC);

	if (fd >= 0)
		close(fd);
	else
		edit->file[0] = '\0';
	return fd >= 0;
}

static int write_text(struct edit *edit, struct ls_error *error)
{
	_cleanup_buffer_ struct ls_buffer text = LS_BUFFER_INIT;
	char folder[PATH_MAX] = "";

	ls_policy_print_secrets(edit->current, LS_SECRETS_KEPT, &text);
	if (text.failed)
		return ls_error_oom(error);
	if (edit->path && strchr(edit->path, '/'))
		snprintf(folder, sizeof(folder), "%.*s",
			 (int)(strrchr(edit->path, '/') - edit->path), edit->path);
	if (!folder[0] || !make_file(edit, folder)) {
		snprintf(folder, sizeof(folder), "%s/%s", LS_SAVE_DIRECTORY, edit->cli->instance);
		(void)mkdir(LS_SAVE_DIRECTORY, 0700);
		(void)mkdir(folder, 0700);
		if (!make_file(edit, folder))
			return ls_error_set_errno(error, errno, "cannot make a file in '%s'",
						  folder);
	}
	return ls_file_write(edit->file, text.bytes, text.length, 0600, error);
}

/* Whether the file still holds what it was given: an editor that failed left nothing to keep. */
static bool is_untouched(const struct edit *edit)
{
	_cleanup_buffer_ struct ls_buffer text = LS_BUFFER_INIT;
	_cleanup_free_ char *bytes = NULL;
	size_t length = 0;

	ls_policy_print_secrets(edit->current, LS_SECRETS_KEPT, &text);
	return !text.failed &&
	       ls_file_read(edit->file, LS_POLICY_BYTES_MAX, &bytes, &length, NULL) == 0 &&
	       length == text.length && memcmp(bytes, text.bytes, length) == 0;
}

/* Runs the editor as the shell would, so that EDITOR="code --wait" works; its exit status, or negative. */
static int run_editor(const char *file, struct ls_error *error)
{
	const char *editor = getenv("EDITOR");
	struct sigaction ignore = { .sa_handler = SIG_IGN }, interrupt, quit;
	int status = 0;

	if (!editor || !*editor)
		editor = "vi";
	const size_t bytes = strlen(editor) + sizeof(" \"$1\"");
	_cleanup_free_ char *command = malloc(bytes);
	if (!command)
		return ls_error_oom(error);
	snprintf(command, bytes, "%s \"$1\"", editor);
	/* The keys are the editor's while it runs. */
	sigaction(SIGINT, &ignore, &interrupt);
	sigaction(SIGQUIT, &ignore, &quit);
	const pid_t pid = fork();
	if (pid == 0) {
		sigaction(SIGINT, &interrupt, NULL);
		sigaction(SIGQUIT, &quit, NULL);
		execl("/bin/sh", "sh", "-c", command, "loadshed", file, (char *)NULL);
		_exit(127);
	}
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	sigaction(SIGINT, &interrupt, NULL);
	sigaction(SIGQUIT, &quit, NULL);
	if (pid < 0)
		return ls_error_set_errno(error, errno, "cannot start the editor '%s'", editor);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	return ls_error_set(error,
			    "cannot go on: the editor '%s' ended with %s %d (EDITOR names it)",
			    editor, WIFEXITED(status) ? "exit code" : "signal",
			    WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
}

/* The policy in the file. Its list files are relative to the policy's own place, wherever the text lies. */
static int read_text(const struct edit *edit, struct ls_policy **ret, struct ls_error *error)
{
	_cleanup_free_ char *bytes = NULL;
	char name[PATH_MAX];
	struct ls_policy_source source = { .name = edit->file };
	int r = ls_file_read(edit->file, LS_POLICY_BYTES_MAX, &bytes, &source.length, error);

	if (r < 0)
		return r;
	if (edit->path && strchr(edit->path, '/')) {
		const char *base = strrchr(edit->file, '/') + 1;
		snprintf(name, sizeof(name), "%.*s/%s",
			 (int)(strrchr(edit->path, '/') - edit->path), edit->path, base);
		source.name = name;
	}
	source.bytes = bytes;
	return ls_policy_read_source(&source, ret, error);
}

/* Under the lock: nobody may have been faster. */
static int apply(struct edit *edit, const struct ls_policy *wanted, const char *diff)
{
	struct ls_cli *cli = edit->cli;
	_cleanup_(ls_plane_closep) struct ls_plane *plane = NULL;
	struct ls_cli_publish what = { .policy = wanted, .path = edit->path };
	bool changed = false;
	int r = ls_cli_time(cli, LS_OPTION_CONFIRM, 0, &what.confirm_ns);

	if (r == LS_EXIT_DONE)
		r = ls_cli_open(cli, LS_PLANE_WRITE, &plane);
	if (r != LS_EXIT_DONE)
		return r;
	if (ls_plane_generation(plane) != edit->generation) {
		ls_cli_note(
			"cannot apply the edit: somebody changed the policy meanwhile (generation %" PRIu64
			" is in force, this is an edit of %" PRIu64 "); nothing was changed",
			ls_plane_generation(plane), edit->generation);
		return LS_EXIT_FAILED;
	}
	r = ls_cli_publish(cli, plane, &what, &changed);
	if (r != LS_EXIT_DONE)
		return r;
	if (!cli->json)
		fputs(diff, stdout);
	return ls_cli_report(cli, plane, "applied as", changed);
}

/* One round of editor, check, diff, apply. *ret_unchanged: there is nothing to keep. */
static int edit_once(struct edit *edit, bool *ret_unchanged)
{
	_cleanup_(ls_policy_freep) struct ls_policy *wanted = NULL;
	_cleanup_buffer_ struct ls_buffer diff = LS_BUFFER_INIT;
	struct ls_error error = LS_ERROR_INIT;

	if (run_editor(edit->file, &error) < 0 || read_text(edit, &wanted, &error) < 0)
		return ls_cli_fail(&error);
	if (!ls_policy_diff(edit->current, wanted, &diff)) {
		*ret_unchanged = true;
		if (edit->cli->json)
			return ls_cli_print_json(json_pack("{s:I, s:b, s:n}", "generation",
							   (json_int_t)edit->generation, "changed",
							   0, "confirm_seconds"));
		printf("nothing was edited; generation %" PRIu64 " stays in force\n",
		       edit->generation);
		return ls_cli_flush();
	}
	return apply(edit, wanted, ls_buffer_string(&diff));
}

static bool wants_again(void)
{
	char answer[16];

	if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO))
		return false;
	fputs("edit again? [Y/n] ", stderr);
	return fgets(answer, sizeof(answer), stdin) && answer[0] != 'n' && answer[0] != 'N';
}

int ls_cmd_policy_edit(struct ls_cli *cli)
{
	_cleanup_(edit_fini) struct edit edit = { .cli = cli };
	_cleanup_(ls_plane_closep) struct ls_plane *plane = NULL;
	struct ls_error error = LS_ERROR_INIT;
	bool unchanged = false;
	uint64_t ignored;
	int r = ls_cli_time(cli, LS_OPTION_CONFIRM, 0, &ignored);

	if (r == LS_EXIT_DONE)
		r = ls_cli_open(cli, LS_PLANE_READ, &plane);
	if (r != LS_EXIT_DONE)
		return r;
	if (ls_plane_refuse_pending(plane, &error) < 0)
		return ls_cli_fail(&error); /* now, and not when everything is typed */
	edit.generation = ls_plane_generation(plane);
	if (ls_plane_policy(plane, &edit.current, &edit.path, &error) < 0 ||
	    write_text(&edit, &error) < 0) {
		if (edit.file[0])
			(void)unlink(edit.file);
		return ls_cli_fail(&error);
	}
	do
		r = edit_once(&edit, &unchanged);
	while (r != LS_EXIT_DONE && wants_again());
	if (r == LS_EXIT_DONE || unchanged || is_untouched(&edit))
		(void)unlink(edit.file);
	else
		ls_cli_note("the edited text is kept in '%s'; 'loadshed policy apply' takes it",
			    edit.file);
	return r;
}
