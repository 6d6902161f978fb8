#ifndef ARENA_H
#define ARENA_H
#include <stddef.h>

/* An arena hands out memory that is freed all at once. */
struct arena {
	struct block *blocks;
	size_t used;
};

void *arena_new(struct arena *a, size_t size);
void arena_free(struct arena *a);

#endif
