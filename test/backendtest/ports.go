//go:build linux

package backendtest

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/paddock-dev/paddock"
)

func portCells() []cell {
	return []cell{
		{name: "port: published, and both directions end apart", do: publishes},
		{name: "port: 500 connections at once", do: publishesToMany},
		{name: "port: nothing listens there yet", do: publishesEarly},
	}
}

// echoes starts a server inside that sends back what comes, and returns its port.
func (b *box) echoes(ctx context.Context, address string) (port int, err error) {
	if _, err := b.s.DialPort(ctx, 1); outcome(err) == refused {
		return 0, err
	}
	cmd := b.s.Command(ctx, "./probe", "echo", address)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	var wrong bytes.Buffer
	cmd.Stderr = &wrong
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	go func() { _ = cmd.Wait() }() // it ends with ctx
	if err != nil {
		return 0, fmt.Errorf("the server ended: %w %s", err, wrong.String())
	}
	return strconv.Atoi(strings.TrimSpace(line))
}

// published starts such a server and publishes its port.
func (b *box) published(ctx context.Context) (*paddock.Publication, error) {
	port, err := b.echoes(ctx, "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	return b.s.Publish(strconv.Itoa(port), func(err error) {
		select {
		case b.unjoined <- err:
		default:
		}
	})
}

// why adds to an error why a connection could not be joined, if that happened.
func (b *box) why(err error) error {
	select {
	case because := <-b.unjoined:
		return errors.Join(err, because)
	default:
		return err
	}
}

// echo sends bytes to an address, ends the sending direction, and wants them back.
func echo(address string, text []byte) error {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(cellTime))
	sent := make(chan error, 1)
	go func() {
		_, err := conn.Write(text)
		sent <- errors.Join(err, conn.(*net.TCPConn).CloseWrite())
	}()
	back, err := io.ReadAll(conn)
	if err := errors.Join(err, <-sent); err != nil {
		return err
	}
	return must(bytes.Equal(back, text), "%d bytes came back of %d, or others", len(back), len(text))
}

func publishes(ctx context.Context, b *box) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	pub, err := b.published(ctx)
	if err != nil {
		return err
	}
	defer pub.Close()
	text := make([]byte, 8<<20)
	_, _ = rand.Read(text)
	return errors.Join(echo(pub.Address, []byte("hello")), echo(pub.Address, nil), echo(pub.Address, text))
}

func publishesToMany(ctx context.Context, b *box) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	pub, err := b.published(ctx)
	if err != nil {
		return err
	}
	defer pub.Close()
	const many = 500
	conns := make([]net.Conn, many)
	defer func() {
		for _, conn := range conns {
			if conn != nil {
				_ = conn.Close()
			}
		}
	}()
	for i := range conns { // all are open before any is used
		if conns[i], err = net.Dial("tcp", pub.Address); err != nil {
			conns[i] = nil
			return b.why(err)
		}
		_ = conns[i].SetDeadline(time.Now().Add(cellTime))
	}
	done := make(chan error, many)
	for i, conn := range conns {
		go func() {
			text := fmt.Sprintf("%05d", i)
			_, err := io.WriteString(conn, text)
			back := make([]byte, len(text))
			if err == nil {
				_, err = io.ReadFull(conn, back)
			}
			done <- errors.Join(err, same(string(back), text))
		}()
	}
	for range conns {
		err = errors.Join(err, <-done)
	}
	return b.why(err)
}

// publishesEarly wants connections to be reset until a server listens.
func publishesEarly(ctx context.Context, b *box) error {
	first, end := context.WithCancel(ctx)
	defer end()
	port, err := b.echoes(first, "127.0.0.1:0")
	if err != nil {
		return err
	}
	end() // so that the port is free
	for !errors.Is(err, syscall.ECONNREFUSED) {
		conn, dialErr := b.s.DialPort(ctx, port)
		if err = dialErr; err == nil {
			_ = conn.Close()
		}
		if ctx.Err() != nil {
			return errors.Join(errors.New("the port is not refused"), err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	pub, err := b.s.Publish(strconv.Itoa(port), nil)
	if err != nil {
		return err
	}
	defer pub.Close()
	if err := echo(pub.Address, []byte("early")); err == nil {
		return errors.New("a connection without a server was not reset")
	}
	second, end := context.WithCancel(ctx)
	defer end()
	if _, err := b.echoes(second, "127.0.0.1:"+strconv.Itoa(port)); err != nil {
		return err
	}
	return echo(pub.Address, []byte("late"))
}
