package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"
)

// Types of records.
const (
	typeA     = 1
	typeTXT   = 16
	typeHTTPS = 65
)

// nameserver returns where this place asks for names.
func nameserver() string {
	text, _ := os.ReadFile("/etc/resolv.conf")
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == "nameserver" {
			return net.JoinHostPort(f[1], "53")
		}
	}
	return "127.0.0.1:53"
}

// question returns a packet that asks for a name, which may be no proper one.
func question(name string, kind uint16) []byte {
	packet := []byte{0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0}
	for label := range strings.SplitSeq(strings.TrimSuffix(name, "."), ".") {
		packet = append(packet, byte(min(len(label), 63)))
		packet = append(packet, label[:min(len(label), 63)]...)
	}
	packet = append(packet, 0)
	packet = binary.BigEndian.AppendUint16(packet, kind)
	return append(packet, 0, 1)
}

// exchange sends a packet and returns the answer.
func exchange(network, server string, packet []byte) ([]byte, error) {
	if network == "tcp" {
		conn, err := net.DialTimeout("tcp", server, patience)
		if err != nil {
			return nil, err
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(patience))
		if _, err := conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(packet))), packet...)); err != nil {
			return nil, err
		}
		var size [2]byte
		if _, err := io.ReadFull(conn, size[:]); err != nil {
			return nil, err
		}
		answer := make([]byte, binary.BigEndian.Uint16(size[:]))
		_, err = io.ReadFull(conn, answer)
		return answer, err
	}
	to, err := net.ResolveUDPAddr("udp4", server)
	if err != nil {
		return nil, err
	}
	var last error
	for range 2 { // a datagram may be lost
		answer, err := datagram(to, packet)
		if err == nil {
			return answer, nil
		}
		last = err
	}
	return nil, last
}

// datagram sends one and waits for an answer, from whoever.
func datagram(to *net.UDPAddr, packet []byte) ([]byte, error) {
	conn, err := net.ListenUDP("udp4", nil)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(3 * time.Second))
	if _, err := conn.WriteTo(packet, to); err != nil {
		return nil, err
	}
	answer := make([]byte, 65536)
	n, _, err := conn.ReadFrom(answer)
	return answer[:n], err
}

// lookup asks a server for a name, and returns the address in the answer's last four bytes.
func lookup(network, server, name string, kind uint16) (string, error) {
	packet := question(name, kind)
	answer, err := exchange(network, server, packet)
	switch {
	case err != nil:
		return "", err
	case len(answer) < 12:
		return "", errors.New("the answer is short")
	case answer[3]&15 != 0:
		return "", fmt.Errorf("rcode %d for %q", answer[3]&15, name)
	case answer[7] == 0 || len(answer) < len(packet)+16:
		return "", fmt.Errorf("no answer for %q", name)
	}
	record := answer[len(packet):] // a pointer to the name, type, class, TTL, length, address
	return netip.AddrFrom4([4]byte(record[12:16])).String(), nil
}
