/* Makes every flush of a file to the disk take DELAY_NS longer, as over a network. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <time.h>

static void delay(void)
{
	struct timespec left = { 0, DELAY_NS };
	while (nanosleep(&left, &left) == -1 && errno == EINTR)
		;
}

int fdatasync(int fd)
{
	static int (*next)(int);
	if (!next)
		next = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
	delay();
	return next(fd);
}

int fsync(int fd)
{
	static int (*next)(int);
	if (!next)
		next = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
	delay();
	return next(fd);
}
