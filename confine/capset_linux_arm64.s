#include "textflag.h"

#define SYS_rt_sigreturn 139
#define SYS_capset 91

// It handles a signal on the thread that capset is to reduce. It may change
// any register: rt_sigreturn restores them. The kernel has put the address of
// endSignal into the link register.
TEXT onSignal<>(SB),NOSPLIT|NOFRAME|TOPFRAME,$0
	MOVD	$·capsetHeader(SB), R0
	MOVD	$·capsetData(SB), R1
	MOVD	$SYS_capset, R8
	SVC
	RET

TEXT endSignal<>(SB),NOSPLIT|NOFRAME|TOPFRAME,$0
	MOVD	$SYS_rt_sigreturn, R8
	SVC
	BRK

// func capsetHandler() (handler, restorer uintptr)
TEXT ·capsetHandler(SB),NOSPLIT,$0-16
	MOVD	$onSignal<>(SB), R0
	MOVD	R0, handler+0(FP)
	MOVD	$endSignal<>(SB), R0
	MOVD	R0, restorer+8(FP)
	RET
