#include "words.h"

#include "text.h"

void count_words(struct table *t, char *text)
{
	size_t length;

	for (char *w; (w = next_word(&text, &length));)
		++*table_at(t, w, length);
}
