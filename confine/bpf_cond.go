package confine

import (
	"fmt"
	"strings"
)

// cond is a condition on one argument of a call.
type cond struct {
	arg    int
	name   string // the argument's, for people
	test   condTest
	values []value
	mask   uint32 // oneOf, noneOf: the bits that are compared; 0 for all
}

// value is a constant of the kernel's with its name.
type value struct {
	n    uint32
	name string
}

type condTest uint8

// What the kernel takes as an int is compared in its low word, which is all
// that the kernel looks at. What may be wider is looked at whole.
const (
	anyBit   condTest = iota // the low word has a bit of the values
	otherBit                 // the argument, all of it, has a bit that is none of the values
	oneOf                    // the low word is one of the values
	noneOf                   // the low word is none of the values
	nonZero                  // the argument, all of it, is not 0
)

func has(arg int, name string, values ...value) cond {
	return cond{arg: arg, name: name, test: anyBit, values: values}
}

func hasOther(arg int, name string, values ...value) cond {
	return cond{arg: arg, name: name, test: otherBit, values: values}
}

func is(arg int, name string, values ...value) cond {
	return cond{arg: arg, name: name, test: oneOf, values: values}
}

func isNot(arg int, name string, values ...value) cond {
	return cond{arg: arg, name: name, test: noneOf, values: values}
}

func notNull(arg int, name string) cond { return cond{arg: arg, name: name, test: nonZero} }

// masked compares some bits of the argument alone.
func (c cond) masked(mask uint32) cond {
	c.mask = mask
	return c
}

// bits is all values together.
func (c cond) bits() (all uint32) {
	for _, v := range c.values {
		all |= v.n
	}
	return all
}

// emit compiles the condition; where it does not hold it jumps to fail.
func (c cond) emit() []instruction {
	low := uint32(offArgs + 8*c.arg)
	load, loadHigh := instruction{bpfLoad, 0, 0, low}, instruction{bpfLoad, 0, 0, low + 4}
	switch c.test {
	case anyBit:
		return []instruction{load, {bpfJSET, 0, fail, c.bits()}}
	case otherBit:
		return []instruction{load, {bpfJSET, 2, 0, ^c.bits()}, loadHigh, {bpfJEQ, fail, 0, 0}}
	case nonZero:
		return []instruction{load, {bpfJEQ, 0, 2, 0}, loadHigh, {bpfJEQ, fail, 0, 0}}
	}
	prog := []instruction{load}
	if c.mask != 0 {
		prog = append(prog, instruction{bpfAnd, 0, 0, c.mask})
	}
	for i, v := range c.values {
		last := len(c.values) - 1
		switch {
		case c.test == noneOf:
			prog = append(prog, instruction{bpfJEQ, fail, 0, v.n})
		case i < last:
			prog = append(prog, instruction{bpfJEQ, uint8(last - i), 0, v.n})
		default:
			prog = append(prog, instruction{bpfJEQ, 0, fail, v.n})
		}
	}
	return prog
}

// String says the condition for people.
func (c cond) String() string {
	var names []string
	for _, v := range c.values {
		names = append(names, v.name)
	}
	switch c.test {
	case anyBit:
		return c.name + " has " + strings.Join(names, "|")
	case otherBit:
		return c.name + " has more than " + strings.Join(names, "|")
	case nonZero:
		return c.name + " is not NULL"
	case oneOf:
		return c.name + " is " + strings.Join(names, " or ")
	case noneOf:
		return c.name + " is not " + strings.Join(names, " or ")
	}
	return fmt.Sprintf("%s passes test %d", c.name, c.test)
}
