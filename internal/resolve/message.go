package resolve

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net/netip"
	"strings"

	"golang.org/x/sys/unix"
)

// What is used of RFC 1035 and 3596.
const (
	typeA     uint16 = 1
	typeAAAA  uint16 = 28
	classIN   uint16 = 1
	header           = 12 // bytes
	isAnswer         = 0x80
	recursive        = 0x01
	noName           = 3 // the code of an answer: there is no such name
)

var (
	errName   = errors.New("it is no host name")
	errAnswer = errors.New("the answer of the name server makes no sense")
	errServer = errors.New("the name server failed")
)

// randomID is a number that who does not see the question cannot guess.
func randomID() (uint16, error) {
	var b [2]byte
	_, err := unix.Getrandom(b[:], 0)
	return binary.BigEndian.Uint16(b[:]), err
}

// question is a message that asks for the addresses of a name.
func question(id uint16, name string, kind uint16) ([]byte, error) {
	if len(name) > 253 {
		return nil, errName
	}
	m := binary.BigEndian.AppendUint16(nil, id)
	m = append(m, recursive, 0, 0, 1, 0, 0, 0, 0, 0, 0)
	for label := range strings.SplitSeq(name, ".") {
		if len(label) == 0 || len(label) > 63 {
			return nil, errName
		}
		m = append(append(m, byte(len(label))), label...)
	}
	m = binary.BigEndian.AppendUint16(append(m, 0), kind)
	return binary.BigEndian.AppendUint16(m, classIN), nil
}

// sameQuestion says whether a message is an answer to a question.
func sameQuestion(answer, question []byte) bool {
	return answer[2]&isAnswer != 0 && binary.BigEndian.Uint16(answer[4:]) == 1 &&
		bytes.EqualFold(answer[header:len(question)], question[header:])
}

// addresses gives those in an answer whose records begin at a place, also
// where they are those of another name that the name stands for.
func addresses(m []byte, at int, kind uint16) (addrs []netip.Addr, err error) {
	switch code := m[3] & 15; {
	case code == noName:
		return nil, nil
	case code != 0:
		return nil, errServer
	}
	for range binary.BigEndian.Uint16(m[6:]) {
		if at = afterName(m, at); at+10 > len(m) {
			return nil, errAnswer
		}
		found, class := binary.BigEndian.Uint16(m[at:]), binary.BigEndian.Uint16(m[at+2:])
		size := int(binary.BigEndian.Uint16(m[at+8:]))
		if at += 10; at+size > len(m) {
			return nil, errAnswer
		}
		if found == kind && class == classIN {
			if addr, ok := netip.AddrFromSlice(m[at : at+size]); ok {
				addrs = append(addrs, addr)
			}
		}
		at += size
	}
	return addrs, nil
}

// afterName is the place behind a name, beyond the message where that ends
// before.
func afterName(m []byte, at int) int {
	for at < len(m) {
		switch n := int(m[at]); {
		case n == 0:
			return at + 1
		case n >= 0xc0: // the rest is elsewhere
			return at + 2
		default:
			at += 1 + n
		}
	}
	return len(m) + 1
}
