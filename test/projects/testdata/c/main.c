#define _POSIX_C_SOURCE 200809L
#include "words.h"

#include <stdio.h>
#include <stdlib.h>

int main(void)
{
	struct arena arena = {0};
	struct table table = {.arena = &arena};
	char *line = NULL;
	size_t size = 0;

	while (getline(&line, &size, stdin) >= 0)
		count_words(&table, line);
	free(line);
	struct slot *all = table_sorted(&table);
	for (size_t i = 0; i < table.used; i++)
		printf("%7ld %s\n", all[i].value, all[i].key);
	free(all);
	table_free(&table);
	arena_free(&arena);
	return ferror(stdin) || fflush(stdout) ? 1 : 0;
}
