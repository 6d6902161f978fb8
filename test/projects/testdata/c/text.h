#ifndef TEXT_H
#define TEXT_H
#include <stddef.h>

/* The next word from *text on, in small letters in place, or NULL. */
char *next_word(char **text, size_t *length);

#endif
