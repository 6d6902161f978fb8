#ifndef WORDS_H
#define WORDS_H
#include "table.h"

/* Counts the words of a text, which it changes. */
void count_words(struct table *t, char *text);

#endif
