#ifndef TABLE_H
#define TABLE_H
#include "arena.h"

#include <stdint.h>

struct slot {
	char *key;
	uint64_t hash;
	long value;
};

/* A table counts by text. One that is all 0 is empty. */
struct table {
	struct arena *arena;
	struct slot *slots;
	size_t size, used;
};

long *table_at(struct table *t, const char *key, size_t length);
struct slot *table_sorted(const struct table *t); /* by value, then by key; free it */
void table_free(struct table *t);

#endif
