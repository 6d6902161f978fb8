#include "words.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failed;

#define CHECK(ok) ((ok) ? (void)0 : (void)(failed = 1, fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #ok)))

static void test_words(void)
{
	struct arena arena = {0};
	struct table table = {.arena = &arena};
	char text[] = "The end of the sea, THE END of 12 seas. ";

	count_words(&table, text);
	struct slot *all = table_sorted(&table);
	CHECK(table.used == 5);
	CHECK(!strcmp(all[0].key, "the") && all[0].value == 3);
	CHECK(!strcmp(all[1].key, "end") && all[1].value == 2);
	CHECK(!strcmp(all[4].key, "seas") && all[4].value == 1);
	free(all);
	table_free(&table);
	arena_free(&arena);
}

/* Many keys, as often as ROUNDS says. */
static void test_many(void)
{
	const char *text = getenv("ROUNDS");
	long rounds = text ? atol(text) : 0;

	for (long round = 0; round <= rounds; round++) {
		struct arena arena = {0};
		struct table table = {.arena = &arena};
		for (long i = 0; i < 100000; i++) {
			char key[24];
			int length = snprintf(key, sizeof key, "key %ld", i % 40000);
			*table_at(&table, key, (size_t)length) += i;
		}
		CHECK(table.used == 40000);
		CHECK(*table_at(&table, "key 7", 5) == 7 + 40007 + 80007);
		CHECK(*table_at(&table, "key", 3) == 0);
		table_free(&table);
		arena_free(&arena);
	}
}

static void test_arena(void)
{
	struct arena arena = {0};
	char *large = arena_new(&arena, 1 << 20), *small = arena_new(&arena, 1);

	memset(large, 1, 1 << 20);
	*small = 2;
	CHECK(large[(1 << 20) - 1] == 1);
	CHECK(arena.used > 1 << 20);
	arena_free(&arena);
	CHECK(!arena.blocks);
}

int main(void)
{
	test_words();
	test_many();
	test_arena();
	puts(failed ? "FAILED" : "all tests passed");
	return failed;
}
