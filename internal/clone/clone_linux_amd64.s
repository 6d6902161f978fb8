#include "textflag.h"

#define SYS_clone 56

// func vforkClone(flags uintptr, pidfd *int32) (pid, errno uintptr)
//
// Child and parent run on the same stack, one after the other. The child
// returns from here first and reuses the slot of the return address, so both
// carry the address through the system call in R12, which the kernel keeps.
TEXT ·vforkClone(SB),NOSPLIT|NOFRAME,$0-32
	MOVQ	flags+0(FP), DI
	MOVQ	pidfd+8(FP), DX
	XORL	SI, SI
	XORL	R10, R10
	XORL	R8, R8
	XORL	R9, R9
	MOVL	$SYS_clone, AX
	POPQ	R12
	SYSCALL
	PUSHQ	R12
	CMPQ	AX, $-4095
	JCC	failed
	MOVQ	AX, pid+16(FP)
	MOVQ	$0, errno+24(FP)
	RET
failed:
	NEGQ	AX
	MOVQ	$-1, pid+16(FP)
	MOVQ	AX, errno+24(FP)
	RET
