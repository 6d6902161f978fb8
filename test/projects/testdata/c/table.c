#include "table.h"

#include <stdlib.h>
#include <string.h>

static uint64_t hash(const char *key, size_t length)
{
	uint64_t h = 14695981039346656037u;

	for (size_t i = 0; i < length; i++)
		h = (h ^ (unsigned char)key[i]) * 1099511628211u;
	return h;
}

static struct slot *find(struct slot *slots, size_t size, uint64_t h, const char *key, size_t length)
{
	size_t i = h & (size - 1);

	while (slots[i].key && (slots[i].hash != h || strncmp(slots[i].key, key, length) || slots[i].key[length]))
		i = (i + 1) & (size - 1);
	return &slots[i];
}

static void grow(struct table *t)
{
	size_t size = t->size ? 2 * t->size : 16;
	struct slot *slots = calloc(size, sizeof *slots);

	if (!slots)
		abort();
	for (size_t i = 0; i < t->size; i++) {
		struct slot *s = &t->slots[i];
		if (s->key)
			*find(slots, size, s->hash, s->key, strlen(s->key)) = *s;
	}
	free(t->slots);
	t->slots = slots;
	t->size = size;
}

long *table_at(struct table *t, const char *key, size_t length)
{
	uint64_t h = hash(key, length);

	if (4 * t->used >= 3 * t->size)
		grow(t);
	struct slot *s = find(t->slots, t->size, h, key, length);
	if (!s->key) {
		s->key = memcpy(arena_new(t->arena, length + 1), key, length);
		s->key[length] = 0;
		s->hash = h;
		t->used++;
	}
	return &s->value;
}

static int order(const void *a, const void *b)
{
	const struct slot *x = a, *y = b;

	if (x->value != y->value)
		return x->value < y->value ? 1 : -1;
	return strcmp(x->key, y->key);
}

struct slot *table_sorted(const struct table *t)
{
	struct slot *all = malloc((t->used + 1) * sizeof *all);
	size_t n = 0;

	if (!all)
		abort();
	for (size_t i = 0; i < t->size; i++)
		if (t->slots[i].key)
			all[n++] = t->slots[i];
	qsort(all, n, sizeof *all, order);
	return all;
}

void table_free(struct table *t)
{
	free(t->slots);
	t->slots = NULL;
	t->size = t->used = 0;
}
