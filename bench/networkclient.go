//go:build linux

package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// clientEnv makes this program a client that does the errand in it, as JSON.
const clientEnv = "PADDOCK_BENCH_NETWORK"

// errand is what a client does: so many connections to a server, each for an answer of so many
// bytes.
type errand struct {
	Address string // HOST:PORT
	HTTPS   bool   // else a line of plain text asks for the answer
	Two     bool   // by HTTP/2
	Times   int    // one connection after another
	AtOnce  int    // then connections at once
	Bytes   int64
	Stay    bool // those at once stay open until the standard input ends
}

// told is what a client prints as JSON.
type told struct {
	Median time.Duration // of those one after another
	AtOnce time.Duration // until the last of those at once was done
	CPU    time.Duration // of the client
}

// runErrand is this program as a client.
func runErrand(text string) error {
	var e errand
	if err := json.Unmarshal([]byte(text), &e); err != nil {
		return err
	}
	host, port, err := net.SplitHostPort(e.Address)
	if err != nil {
		return err
	}
	addresses, err := net.LookupHost(host) // once: it is connections that are measured
	if err != nil {
		return err
	}
	to := net.JoinHostPort(addresses[0], port)
	var answer told
	var took sample
	for range e.Times {
		began := time.Now()
		if err := e.once(to, nil); err != nil {
			return err
		}
		took = append(took, time.Since(began))
	}
	answer.Median = took.median()
	began := time.Now()
	errs := make([]error, e.AtOnce)
	end := make(chan struct{})
	var done, left sync.WaitGroup
	done.Add(e.AtOnce)
	for i := range e.AtOnce {
		left.Go(func() {
			wait := func() {
				done.Done()
				if e.Stay {
					<-end
				}
			}
			answered := sync.OnceFunc(wait)
			errs[i] = e.once(to, answered)
			answered()
		})
	}
	done.Wait()
	answer.AtOnce, answer.CPU = time.Since(began), usedBySelf()
	if !e.Stay {
		left.Wait()
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if err := json.NewEncoder(os.Stdout).Encode(answer); err != nil {
		return err
	}
	if e.Stay {
		_, _ = io.Copy(io.Discard, os.Stdin)
	}
	close(end)
	left.Wait()
	return nil
}

// once makes a connection, and reads an answer. It calls answered, if that is not nil, before it
// ends the connection.
func (e *errand) once(to string, answered func()) error {
	var d net.Dialer
	get := e.getRaw
	if e.HTTPS {
		get = e.getHTTPS
	}
	body, end, err := get(func(ctx context.Context, _, _ string) (net.Conn, error) { return d.DialContext(ctx, "tcp", to) })
	if err != nil {
		return err
	}
	defer end()
	got, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, io.LimitReader(body, e.Bytes), make([]byte, min(e.Bytes, 256<<10)))
	if err == nil && got != e.Bytes {
		err = fmt.Errorf("%d bytes came, not %d", got, e.Bytes)
	}
	if err == nil && answered != nil {
		_, _ = body.Read(make([]byte, 1)) // an answer that is read to its end leaves its connection open
		answered()
	}
	return err
}

type dialer = func(ctx context.Context, network, address string) (net.Conn, error)

func (e *errand) getRaw(dial dialer) (io.Reader, func(), error) {
	conn, err := dial(context.Background(), "", "")
	if err != nil {
		return nil, nil, err
	}
	end := func() { _ = conn.Close() }
	if _, err := fmt.Fprintf(conn, "%d\n", e.Bytes); err != nil {
		end()
		return nil, nil, err
	}
	return io.LimitReader(conn, e.Bytes), end, nil
}

func (e *errand) getHTTPS(dial dialer) (io.Reader, func(), error) {
	protocols := &http.Protocols{}
	protocols.SetHTTP1(!e.Two)
	protocols.SetHTTP2(e.Two)
	transport := &http.Transport{DialContext: dial, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, Protocols: protocols, DisableKeepAlives: !e.Stay, DisableCompression: true}
	response, err := (&http.Client{Transport: transport}).Get("https://" + e.Address + "/" + strconv.FormatInt(e.Bytes, 10))
	if err != nil {
		return nil, nil, err
	}
	end := func() {
		_ = response.Body.Close()
		transport.CloseIdleConnections()
	}
	if response.StatusCode != http.StatusOK {
		end()
		return nil, nil, errors.New("the server answers " + response.Status)
	}
	return response.Body, end, nil
}

// usedBySelf returns the processor time of this process.
func usedBySelf() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// String returns the errand for [clientEnv].
func (e errand) String() string {
	text, _ := json.Marshal(e)
	return string(text)
}
