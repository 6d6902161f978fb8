#include "textflag.h"

#define SYS_clone 56
#define SYS_clone3 435

// func stackClone(flags, top uintptr, pidfd *int32, body uintptr, im *image) (pid, errno uintptr)
//
// The child finds its function in R12 and its argument in R13, which the
// kernel keeps, and calls as compiled code does (argument in AX, g in R14, X15
// zero). It leaves by execve or exit_group only.
TEXT ·stackClone(SB),NOSPLIT|NOFRAME,$0-56
	MOVQ	flags+0(FP), DI
	MOVQ	top+8(FP), SI
	MOVQ	pidfd+16(FP), DX
	MOVQ	body+24(FP), R12
	MOVQ	im+32(FP), R13
	XORL	R10, R10
	XORL	R8, R8
	MOVL	$SYS_clone, AX
	SYSCALL
	TESTQ	AX, AX
	JEQ	child
	CMPQ	AX, $-4095
	JCC	failed
	MOVQ	AX, pid+40(FP)
	MOVQ	$0, errno+48(FP)
	RET
failed:
	NEGQ	AX
	MOVQ	$-1, pid+40(FP)
	MOVQ	AX, errno+48(FP)
	RET
child:
	XORL	BP, BP
	SUBQ	$64, SP
	XORPS	X15, X15
	MOVQ	R13, AX
	CALL	R12
	INT	$3

// func stackClone3(args *cloneArgs, size uintptr, body uintptr, im *image) (pid, errno uintptr)
//
// The child is as stackClone's.
TEXT ·stackClone3(SB),NOSPLIT|NOFRAME,$0-48
	MOVQ	args+0(FP), DI
	MOVQ	size+8(FP), SI
	MOVQ	body+16(FP), R12
	MOVQ	im+24(FP), R13
	MOVL	$SYS_clone3, AX
	SYSCALL
	TESTQ	AX, AX
	JEQ	child
	CMPQ	AX, $-4095
	JCC	failed
	MOVQ	AX, pid+32(FP)
	MOVQ	$0, errno+40(FP)
	RET
failed:
	NEGQ	AX
	MOVQ	$-1, pid+32(FP)
	MOVQ	AX, errno+40(FP)
	RET
child:
	XORL	BP, BP
	SUBQ	$64, SP
	XORPS	X15, X15
	MOVQ	R13, AX
	CALL	R12
	INT	$3
