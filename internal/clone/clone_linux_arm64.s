#include "textflag.h"

#define SYS_clone 220

// func vforkClone(flags uintptr) (pid, errno uintptr)
//
// A leaf function keeps its return address in the link register, which the
// kernel preserves, so that the child's use of the shared stack does no harm.
TEXT ·vforkClone(SB),NOSPLIT,$0-24
	MOVD	flags+0(FP), R0
	MOVD	ZR, R1
	MOVD	ZR, R2
	MOVD	ZR, R3
	MOVD	ZR, R4
	MOVD	$SYS_clone, R8
	SVC
	CMN	$4095, R0
	BCC	ok
	NEG	R0, R0
	MOVD	$-1, R4
	MOVD	R4, pid+8(FP)
	MOVD	R0, errno+16(FP)
	RET
ok:
	MOVD	R0, pid+8(FP)
	MOVD	ZR, errno+16(FP)
	RET

// func stackClone(flags, top uintptr, pidfd *int32, im *image) (pid, errno uintptr)
//
// The child finds its argument in R19, which the kernel keeps. It leaves by
// execve or exit_group only.
TEXT ·stackClone(SB),NOSPLIT|NOFRAME,$0-48
	MOVD	flags+0(FP), R0
	MOVD	top+8(FP), R1
	MOVD	pidfd+16(FP), R2
	MOVD	im+24(FP), R19
	MOVD	ZR, R3
	MOVD	ZR, R4
	MOVD	$SYS_clone, R8
	SVC
	CBZ	R0, child
	CMN	$4095, R0
	BCC	ok
	NEG	R0, R0
	MOVD	$-1, R4
	MOVD	R4, pid+32(FP)
	MOVD	R0, errno+40(FP)
	RET
ok:
	MOVD	R0, pid+32(FP)
	MOVD	ZR, errno+40(FP)
	RET
child:
	MOVD	ZR, R29
	SUB	$32, RSP
	MOVD	R19, 8(RSP)
	CALL	·childBody(SB)
	BRK
