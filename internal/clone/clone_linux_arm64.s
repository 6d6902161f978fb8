#include "textflag.h"

#define SYS_clone 220

// func vforkClone(flags uintptr, pidfd *int32) (pid, errno uintptr)
//
// A leaf function keeps its return address in the link register, which the
// kernel preserves, so that the child's use of the shared stack does no harm.
TEXT ·vforkClone(SB),NOSPLIT,$0-32
	MOVD	flags+0(FP), R0
	MOVD	pidfd+8(FP), R2
	MOVD	ZR, R1
	MOVD	ZR, R3
	MOVD	ZR, R4
	MOVD	ZR, R5
	MOVD	$SYS_clone, R8
	SVC
	CMN	$4095, R0
	BCC	ok
	NEG	R0, R0
	MOVD	$-1, R4
	MOVD	R4, pid+16(FP)
	MOVD	R0, errno+24(FP)
	RET
ok:
	MOVD	R0, pid+16(FP)
	MOVD	ZR, errno+24(FP)
	RET
