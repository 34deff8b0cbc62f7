/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/cli/cli.h"

/*
 * The scripts that shells read. Each hands the words up to the cursor to `loadshed __complete`
 * (cmd_complete.c) of the program that is being typed, and shows what comes back, so a script is as good for
 * the next version, too. That is why a script has no verbs in it.
 */

#include <stdio.h>
#include <string.h>

/* bash breaks words at '=' and ':' as well, so it is the line that is split here; and what stands before the last
 * such sign is not to be repeated. */
static const char bash[] =
	"# bash completion for loadshed; made by 'loadshed completion bash'\n"
	"_loadshed()\n"
	"{\n"
	"	local line=${COMP_LINE:0:COMP_POINT} candidate current=\n"
	"	local -a words\n"
	"	read -ra words <<< \"$line\"\n"
	"	if [[ $line == *[[:space:]] ]]; then words+=(\"\"); fi\n"
	"	current=${words[${#words[@]}-1]}\n"
	"	COMPREPLY=()\n"
	"	while IFS= read -r candidate; do\n"
	"		if [[ $candidate == '<file>' ]]; then\n"
	"			compopt -o filenames 2>/dev/null || :\n"
	"			while IFS= read -r candidate; do COMPREPLY+=(\"$candidate\"); done \\\n"
	"				< <(compgen -f -- \"${current##*=}\")\n"
	"			return\n"
	"		fi\n"
	"		candidate=${candidate%%$'\\t'*}\n"
	"		if [[ $current == *[=:]* && $COMP_WORDBREAKS == *:* ]]; then\n"
	"			candidate=${candidate#\"${current%\"${current##*[=:]}\"}\"}\n"
	"		fi\n"
	"		COMPREPLY+=(\"$candidate\")\n"
	"	done < <(\"${words[0]}\" __complete -- \"${words[@]:1}\" 2>/dev/null)\n"
	"}\n"
	"complete -F _loadshed loadshed\n";

static const char zsh[] =
	"#compdef loadshed\n"
	"# zsh completion for loadshed; made by 'loadshed completion zsh'\n"
	"_loadshed()\n"
	"{\n"
	"	local line name text\n"
	"	local -a found\n"
	"	while IFS= read -r line; do\n"
	"		if [[ $line == '<file>' ]]; then\n"
	"			[[ $PREFIX == --*=* ]] && compset -P '*='\n"
	"			_files\n"
	"			return\n"
	"		fi\n"
	"		name=${line%%$'\\t'*}\n"
	"		text=\n"
	"		[[ $line == *$'\\t'* ]] && text=${line#*$'\\t'}\n"
	"		found+=(\"${name//:/\\\\:}${text:+:$text}\")\n"
	"	done < <(\"${words[1]}\" __complete -- \"${(@)words[2,CURRENT-1]}\" \"$PREFIX\" 2>/dev/null)\n"
	"	_describe loadshed found\n"
	"}\n"
	"if [[ $zsh_eval_context[-1] == loadautofunc ]]; then\n"
	"	_loadshed \"$@\"\n"
	"else\n"
	"	compdef _loadshed loadshed\n"
	"fi\n";

static const char fish[] =
	"# fish completion for loadshed; made by 'loadshed completion fish'\n"
	"function __loadshed_complete\n"
	"	set -l words (commandline -opc)\n"
	"	set -l current (commandline -ct)\n"
	"	set -l program $words[1]\n"
	"	set -e words[1]\n"
	"	for line in ($program __complete -- $words \"$current\" 2>/dev/null)\n"
	"		if test \"$line\" = '<file>'\n"
	"			__fish_complete_path (string replace -r '^--[a-z-]+=' '' -- \"$current\")\n"
	"		else\n"
	"			echo $line\n"
	"		end\n"
	"	end\n"
	"end\n"
	"complete -c loadshed -f -a '(__loadshed_complete)'\n";

int ls_cmd_completion(struct ls_cli *cli)
{
	static const struct {
		const char *shell, *script;
	} scripts[] = { { "bash", bash }, { "zsh", zsh }, { "fish", fish } };

	for (size_t i = 0; i < sizeof(scripts) / sizeof(scripts[0]); i++) {
		if (strcmp(cli->arguments[0], scripts[i].shell) != 0)
			continue;
		fputs(scripts[i].script, stdout);
		return ls_cli_flush();
	}
	return ls_cli_usage("'%s' is no shell that there are completions for: bash, zsh or fish",
			    cli->arguments[0]);
}
