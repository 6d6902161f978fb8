#include "arena.h"

#include <stdlib.h>

enum { BLOCK = 1 << 16 };

struct block {
	struct block *next;
	size_t size, used;
	_Alignas(max_align_t) char bytes[];
};

void *arena_new(struct arena *a, size_t size)
{
	const size_t align = _Alignof(max_align_t);
	struct block *b = a->blocks;

	size = (size + align - 1) / align * align;
	if (!b || b->size - b->used < size) {
		size_t most = size > BLOCK ? size : BLOCK;
		b = malloc(sizeof *b + most);
		if (!b)
			abort();
		*b = (struct block){.next = a->blocks, .size = most};
		a->blocks = b;
	}
	void *p = b->bytes + b->used;
	b->used += size;
	a->used += size;
	return p;
}

void arena_free(struct arena *a)
{
	while (a->blocks) {
		struct block *b = a->blocks;
		a->blocks = b->next;
		free(b);
	}
	a->used = 0;
}
