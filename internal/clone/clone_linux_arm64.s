#include "textflag.h"

#define SYS_clone 220
#define SYS_clone3 435

// func stackClone(flags, top uintptr, pidfd *int32, body uintptr, im *image) (pid, errno uintptr)
//
// The child finds its function in R20 and its argument in R19, which the
// kernel keeps, and calls as compiled code does (argument in R0, g in R28). It
// leaves by execve or exit_group only.
TEXT ·stackClone(SB),NOSPLIT|NOFRAME,$0-56
	MOVD	flags+0(FP), R0
	MOVD	top+8(FP), R1
	MOVD	pidfd+16(FP), R2
	MOVD	body+24(FP), R20
	MOVD	im+32(FP), R19
	MOVD	ZR, R3
	MOVD	ZR, R4
	MOVD	$SYS_clone, R8
	SVC
	CBZ	R0, child
	CMN	$4095, R0
	BCC	ok
	NEG	R0, R0
	MOVD	$-1, R4
	MOVD	R4, pid+40(FP)
	MOVD	R0, errno+48(FP)
	RET
ok:
	MOVD	R0, pid+40(FP)
	MOVD	ZR, errno+48(FP)
	RET
child:
	MOVD	ZR, R29
	SUB	$64, RSP
	MOVD	R19, R0
	CALL	(R20)
	BRK

// func stackClone3(args *cloneArgs, size uintptr, body uintptr, im *image) (pid, errno uintptr)
//
// The child is as stackClone's.
TEXT ·stackClone3(SB),NOSPLIT|NOFRAME,$0-48
	MOVD	args+0(FP), R0
	MOVD	size+8(FP), R1
	MOVD	body+16(FP), R20
	MOVD	im+24(FP), R19
	MOVD	$SYS_clone3, R8
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
	SUB	$64, RSP
	MOVD	R19, R0
	CALL	(R20)
	BRK
