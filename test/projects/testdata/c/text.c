#include "text.h"

#include <ctype.h>

char *next_word(char **text, size_t *length)
{
	char *p = *text;

	while (*p && !isalpha((unsigned char)*p))
		p++;
	char *start = p;
	for (; isalpha((unsigned char)*p); p++)
		*p = (char)tolower((unsigned char)*p);
	*text = p;
	*length = (size_t)(p - start);
	return *length ? start : NULL;
}
