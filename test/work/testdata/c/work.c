#include <pthread.h>
#include <stdatomic.h>
#include "work.h"

static atomic_long total;

static void *one(void *arg)
{
	for (int i = 0; i < 1000; i++)
		atomic_fetch_add(&total, numbers(*(int *)arg));
	return 0;
}

long work(int threads)
{
	pthread_t t[64];
	int n = 100;
	for (int i = 0; i < threads; i++)
		if (pthread_create(&t[i], 0, one, &n))
			return -1;
	for (int i = 0; i < threads; i++)
		pthread_join(t[i], 0);
	return total;
}
