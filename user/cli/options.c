/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/cli/cli.h"

#include <string.h>

#include "user/plane/plane.h"

/*
 * The command line in one pass: options that are global may stand anywhere, those of a verb after it, and
 * what is no option is verb or argument. Words may be cut as long as they are unique: `--pol`, `ver`.
 */

static const struct {
	const char *name;
	const char *value;
} options[] = {
#define OPTION_ROW(id, name, value) [LS_OPTION_##id] = { name, value },
	LS_OPTIONS(OPTION_ROW)
#undef OPTION_ROW
};

const char *ls_option_name(enum ls_option option)
{
	return options[option].name;
}

const char *ls_option_value(enum ls_option option)
{
	return options[option].value;
}

char ls_option_letter(enum ls_option option)
{
	return option == LS_OPTION_WRITE ? 'w' : '\0';
}

/* The global ones follow those of the verbs in numbering. */
enum {
	GLOBAL_INSTANCE = LS_OPTION_MAX,
	GLOBAL_INTERFACE,
	GLOBAL_OUTPUT,
	GLOBAL_VERBOSE,
	GLOBAL_HELP,
	GLOBAL_END,
	NOT_FOUND = -1,
	AMBIGUOUS = -2,
};

static const struct {
	char letter;
	const char *name;
	bool takes_value;
} globals[] = {
	[GLOBAL_INSTANCE - LS_OPTION_MAX] = { 'I', "instance", true },
	[GLOBAL_INTERFACE - LS_OPTION_MAX] = { 'i', "interface", true },
	[GLOBAL_OUTPUT - LS_OPTION_MAX] = { 'o', "output", true },
	[GLOBAL_VERBOSE - LS_OPTION_MAX] = { 'v', "verbose", false },
	[GLOBAL_HELP - LS_OPTION_MAX] = { 'h', "help", false },
};

struct parser {
	const char **arguments;
	size_t count, at;
	struct ls_cli *cli;
	bool has_help;
	const char *output;
	const char **kept; /* where the next argument that is no option goes */
	size_t n_kept;
	const char *word; /* first word of a verb of two */
};

static const char *name_of(int option)
{
	return option < (int)LS_OPTION_MAX ? options[option].name
					   : globals[option - LS_OPTION_MAX].name;
}

static bool takes_value(int option)
{
	return option < (int)LS_OPTION_MAX ? options[option].value[0] != '\0'
					   : globals[option - LS_OPTION_MAX].takes_value;
}

/* A long option by its name or the unique beginning of one that applies here. */
static int find_long(const struct parser *parser, const char *text, size_t length)
{
	const unsigned allowed = parser->cli->verb ? parser->cli->verb->allowed : 0;
	int found = NOT_FOUND;

	for (int option = 0; option < GLOBAL_END; option++) {
		const char *name = name_of(option);
		if (option < (int)LS_OPTION_MAX && !(allowed & 1U << option))
			continue;
		if (strncmp(name, text, length) != 0)
			continue;
		if (strlen(name) == length)
			return option;
		found = found == NOT_FOUND ? option : AMBIGUOUS;
	}
	return found;
}

/* A letter: a global one, or of an option that applies here. */
static int find_letter(const struct parser *parser, char letter)
{
	const unsigned allowed = parser->cli->verb ? parser->cli->verb->allowed : 0;

	for (unsigned option = 0; option < LS_OPTION_MAX; option++)
		if (allowed & 1U << option && ls_option_letter(option) == letter)
			return (int)option;
	for (int i = 0; i < GLOBAL_END - LS_OPTION_MAX; i++)
		if (globals[i].letter == letter)
			return LS_OPTION_MAX + i;
	return NOT_FOUND;
}

/* Whether the word is an option of some verb, which then does not apply here. */
static bool is_known(const char *text, size_t length)
{
	for (int option = 0; option < (int)LS_OPTION_MAX; option++)
		if (strlen(options[option].name) == length &&
		    strncmp(options[option].name, text, length) == 0)
			return true;
	return false;
}

static int set_global(struct parser *parser, int option, const char *value)
{
	struct ls_cli *cli = parser->cli;
	const char **place = option == GLOBAL_INSTANCE	? &cli->instance :
			     option == GLOBAL_INTERFACE ? &cli->interface :
							  &parser->output;

	if (option == GLOBAL_VERBOSE)
		cli->verbose = true;
	else if (option == GLOBAL_HELP)
		parser->has_help = true;
	else if (*place && strcmp(*place, value) != 0)
		return ls_cli_usage("option --%s is given twice, '%s' and '%s'", name_of(option),
				    *place, value);
	else
		*place = value;
	return LS_EXIT_DONE;
}

static int set_option(struct parser *parser, int option, const char *value)
{
	struct ls_cli *cli = parser->cli;

	if (option >= (int)LS_OPTION_MAX)
		return set_global(parser, option, value);
	if (cli->values[option] && takes_value(option) && strcmp(cli->values[option], value) != 0)
		return ls_cli_usage("option --%s is given twice, '%s' and '%s'", name_of(option),
				    cli->values[option], value);
	cli->values[option] = value;
	return LS_EXIT_DONE;
}

/* The option at parser->at, with `inline_value` after "=" or directly after its letter, or NULL. */
static int take_option(struct parser *parser, int option, const char *inline_value)
{
	if (!takes_value(option)) {
		if (inline_value)
			return ls_cli_usage("option --%s takes no value", name_of(option));
		return set_option(parser, option, "");
	}
	if (inline_value)
		return set_option(parser, option, inline_value);
	if (parser->at + 1 >= parser->count)
		return ls_cli_usage("option --%s needs a value", name_of(option));
	return set_option(parser, option, parser->arguments[++parser->at]);
}

static int refuse_long(const struct parser *parser, int found, const char *text, size_t length)
{
	const struct ls_verb *verb = parser->cli->verb;

	if (found == AMBIGUOUS)
		return ls_cli_usage("option '--%.*s' could be several; write it out", (int)length,
				    text);
	if (!verb && is_known(text, length))
		return ls_cli_usage("option '--%.*s' must come after the verb", (int)length, text);
	if (verb)
		return ls_cli_usage(
			"option '--%.*s' does not apply to '%s'; 'loadshed help %s' lists those that do",
			(int)length, text, verb->name, verb->name);
	return ls_cli_usage("unknown option '--%.*s'; 'loadshed help' shows what there is",
			    (int)length, text);
}

static int read_option(struct parser *parser, const char *argument)
{
	if (argument[1] == '-') {
		const char *text = argument + 2;
		const size_t length = strcspn(text, "=");
		const int option = find_long(parser, text, length);
		if (option < 0)
			return refuse_long(parser, option, text, length);
		return take_option(parser, option, text[length] ? text + length + 1 : NULL);
	}
	for (const char *letter = argument + 1; *letter; letter++) {
		const int option = find_letter(parser, *letter);
		if (option < 0)
			return ls_cli_usage(
				"unknown option '-%c'; 'loadshed help' shows what there is",
				*letter);
		if (takes_value(option))
			return take_option(parser, option, letter[1] ? letter + 1 : NULL);
		const int r = take_option(parser, option, NULL);
		if (r != LS_EXIT_DONE)
			return r;
	}
	return LS_EXIT_DONE;
}

/* Whether the verb's name is `word`, or begins with `first` and then `word`; `length` 0: exactly. */
static bool verb_matches(const struct ls_verb *verb, const char *first, const char *word,
			 bool exact)
{
	const char *name = verb->name;
	const char *blank = strchr(name, ' ');

	if (first) {
		if (!blank || strncmp(name, first, (size_t)(blank - name)) != 0 ||
		    first[blank - name] != '\0')
			return false;
		name = blank + 1;
		blank = NULL;
	}
	const size_t length = blank ? (size_t)(blank - name) : strlen(name);
	return exact ? strlen(word) == length && strncmp(name, word, length) == 0
		     : strncmp(name, word, strlen(word)) == 0 && strlen(word) <= length;
}

/* The verbs whose (next) word is, or begins with, `word`; *ret_same: all of them have that one word. */
static size_t match_verbs(const char *first, const char *word, bool exact,
			  const struct ls_verb **ret, bool *ret_same)
{
	size_t count = 0;

	*ret_same = true;
	for (size_t i = 0; i < ls_n_verbs; i++) {
		if (!verb_matches(&ls_verbs[i], first, word, exact))
			continue;
		if (count == 0) {
			*ret = &ls_verbs[i];
		} else {
			const size_t length = strcspn((*ret)->name, " ");
			if (first || strcspn(ls_verbs[i].name, " ") != length ||
			    strncmp(ls_verbs[i].name, (*ret)->name, length) != 0)
				*ret_same = false;
		}
		count++;
	}
	return count;
}

static int read_verb(struct parser *parser, const char *word)
{
	static char group[32];
	const struct ls_verb *verb = NULL;
	bool is_same = true;
	const char *first = parser->word;
	size_t count = match_verbs(first, word, true, &verb, &is_same);

	if (count == 0)
		count = match_verbs(first, word, false, &verb, &is_same);
	if (count == 0 || word[0] == '\0')
		return ls_cli_usage("unknown verb '%s%s%s'; 'loadshed help' lists the verbs",
				    first ? first : "", first ? " " : "", word);
	if (!is_same)
		return ls_cli_usage("'%s%s%s' could be several verbs; write it out",
				    first ? first : "", first ? " " : "", word);
	if (!first && strchr(verb->name, ' ')) {
		snprintf(group, sizeof(group), "%.*s", (int)strcspn(verb->name, " "), verb->name);
		parser->word = group;
		return LS_EXIT_DONE;
	}
	parser->cli->verb = verb;
	/* Before its options are looked at, of which this version may not know all; help is always there. */
	if (!verb->run && !parser->has_help)
		return ls_cli_usage("this version does not have '%s' yet", verb->name);
	return LS_EXIT_DONE;
}

static const struct ls_verb *verb_by_name(const char *name)
{
	for (size_t i = 0; i < ls_n_verbs; i++)
		if (strcmp(ls_verbs[i].name, name) == 0)
			return &ls_verbs[i];
	return NULL;
}

/* `--help` anywhere is the verb `help` about the verb that is there. */
static void turn_into_help(struct parser *parser)
{
	struct ls_cli *cli = parser->cli;
	static const char *about[1];

	about[0] = cli->verb ? cli->verb->name : parser->word;
	cli->n_arguments = about[0] ? 1 : 0;
	cli->arguments = about;
	cli->verb = verb_by_name("help");
}

static int refuse_missing(const struct ls_verb *verb, enum ls_option option)
{
	const char letter = ls_option_letter(option);

	return letter ? ls_cli_usage("'%s' needs -%c %s", verb->name, letter, options[option].value)
		      : ls_cli_usage("'%s' needs --%s %s", verb->name, options[option].name,
				     options[option].value);
}

static int check(const struct ls_cli *cli)
{
	const struct ls_verb *verb = cli->verb;

	if (!ls_plane_instance_valid(cli->instance))
		return ls_cli_usage(
			"'%s' is no name of an instance: lower-case letters, digits, '_' and '-', a letter first, at most 31",
			cli->instance);
	if (cli->interface && !verb->takes_interface)
		return ls_cli_usage("option -i does not apply to '%s'", verb->name);
	for (unsigned option = 0; option < LS_OPTION_MAX; option++)
		if (verb->required & 1U << option && !cli->values[option])
			return refuse_missing(verb, option);
	if (cli->n_arguments < verb->min_arguments)
		return ls_cli_usage("'%s' needs %s; for example: loadshed %s", verb->name,
				    verb->arguments, verb->example);
	if (cli->n_arguments > verb->max_arguments)
		return ls_cli_usage("'%s' is one argument too many for '%s'",
				    cli->arguments[verb->max_arguments], verb->name);
	return LS_EXIT_DONE;
}

static int finish(struct parser *parser)
{
	struct ls_cli *cli = parser->cli;

	if (parser->has_help) {
		turn_into_help(parser);
		return LS_EXIT_DONE;
	}
	if (!cli->verb && parser->word)
		return ls_cli_usage("'%s' needs a second word; 'loadshed help %s' lists them",
				    parser->word, parser->word);
	if (!cli->verb)
		return ls_cli_usage("what to do? 'loadshed help' lists the verbs");
	if (parser->output && strcmp(parser->output, "json") != 0 &&
	    strcmp(parser->output, "table") != 0)
		return ls_cli_usage("'%s' is no output: -o table or -o json", parser->output);
	cli->json = parser->output && strcmp(parser->output, "json") == 0;
	cli->table = parser->output && !cli->json;
	if (!cli->instance)
		cli->instance = LS_PLANE_INSTANCE;
	cli->arguments = parser->kept;
	cli->n_arguments = parser->n_kept;
	return check(cli);
}

int ls_cli_parse(const char **arguments, size_t n_arguments, struct ls_cli *cli)
{
	struct parser parser = {
		.arguments = arguments,
		.count = n_arguments,
		.cli = cli,
		.kept = arguments,
	};
	bool only_arguments = false;

	memset(cli, 0, sizeof(*cli));
	for (; parser.at < parser.count; parser.at++) {
		const char *argument = arguments[parser.at];
		int r = LS_EXIT_DONE;
		if (!only_arguments && strcmp(argument, "--") == 0)
			only_arguments = true;
		else if (!only_arguments && argument[0] == '-' && argument[1] != '\0')
			r = read_option(&parser, argument);
		else if (!cli->verb)
			r = read_verb(&parser, argument);
		else
			parser.kept[parser.n_kept++] = argument;
		if (r != LS_EXIT_DONE)
			return r;
	}
	return finish(&parser);
}
