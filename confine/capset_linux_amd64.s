#include "textflag.h"

#define SYS_rt_sigreturn 15
#define SYS_capset 126

// It handles a signal on the thread that capset is to reduce. It may change
// any register: rt_sigreturn restores them.
TEXT onSignal<>(SB),NOSPLIT|NOFRAME|TOPFRAME,$0
	LEAQ	·capsetHeader(SB), DI
	LEAQ	·capsetData(SB), SI
	MOVL	$SYS_capset, AX
	SYSCALL
	RET

TEXT endSignal<>(SB),NOSPLIT|NOFRAME|TOPFRAME,$0
	MOVL	$SYS_rt_sigreturn, AX
	SYSCALL
	INT	$3

// func capsetHandler() (handler, restorer uintptr)
TEXT ·capsetHandler(SB),NOSPLIT,$0-16
	LEAQ	onSignal<>(SB), AX
	MOVQ	AX, handler+0(FP)
	LEAQ	endSignal<>(SB), AX
	MOVQ	AX, restorer+8(FP)
	RET
