#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include "work.h"

static volatile sig_atomic_t signals;

static void on_signal(int s) { signals += s == SIGUSR1; }

/* What the kernel gives a program besides files and threads. */
static void calls(void)
{
	int pair[2], status;
	char text[8] = "";
	printf("socketpair: %d\n", socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	pid_t child = fork();
	if (child == 0) {
		signal(SIGUSR1, SIG_DFL);
		write(pair[1], "hello", 6);
		raise(SIGUSR1);
	}
	read(pair[0], text, 6);
	waitpid(child, &status, 0);
	printf("child: %s, signal %d\n", text, WTERMSIG(status));

	int shm = shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600);
	char *p = shmat(shm, 0, 0);
	printf("shared memory: %d\n", p != (void *)-1 && shmctl(shm, IPC_RMID, 0) == 0);
	int fd = shm_open("/job", O_CREAT | O_EXCL | O_RDWR, 0600);
	printf("posix shared memory: %d\n", ftruncate(fd, 4096) == 0 && shm_unlink("/job") == 0);
	sem_t *sem = sem_open("/job", O_CREAT, 0600, 1);
	printf("semaphore: %d\n", sem != SEM_FAILED && sem_wait(sem) == 0 && sem_unlink("/job") == 0);

	int poller = epoll_create1(0), events = eventfd(1, 0), timer = timerfd_create(CLOCK_MONOTONIC, 0);
	struct itimerspec soon = {.it_value = {.tv_nsec = 1}};
	struct epoll_event e = {.events = EPOLLIN}, got;
	timerfd_settime(timer, 0, &soon, 0);
	epoll_ctl(poller, EPOLL_CTL_ADD, timer, &e);
	printf("timer: %d, event: %d\n", epoll_wait(poller, &got, 1, 5000), events >= 0);
	int watch = inotify_init1(IN_NONBLOCK);
	printf("inotify: %d\n", inotify_add_watch(watch, ".", IN_CREATE) > 0 && creat("seen", 0600) >= 0);
	printf("memfd: %d\n", memfd_create("job", MFD_ALLOW_SEALING) >= 0);
	void *code = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	printf("a page made executable: %d\n", mprotect(code, 4096, PROT_READ | PROT_EXEC));
	int terminal = posix_openpt(O_RDWR | O_NOCTTY);
	printf("terminal: %d\n", terminal >= 0 && grantpt(terminal) == 0 && unlockpt(terminal) == 0 && open(ptsname(terminal), O_RDWR | O_NOCTTY) >= 0);
}

int main(void)
{
	signal(SIGUSR1, on_signal);
	kill(getpid(), SIGUSR1);
	printf("threads: %ld, signals: %d\n", work(16), (int)signals);
	calls();
	fflush(stdout);
	abort();
}
