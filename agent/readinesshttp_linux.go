package agent

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strconv"
	"time"
)

// maxHTTPHead bounds what is read of an answer, in bytes.
const maxHTTPHead = 64 << 10

var errHTTP = errors.New("the answer is not HTTP")

// httpStatus asks for a page and gives the status of the answer. It does one
// GET and follows nothing, which is all that readiness needs: a whole client
// would be the largest part of the agent.
func httpStatus(ctx context.Context, u *url.URL) (int, error) {
	port := u.Port()
	if port == "" {
		port = "80"
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", net.JoinHostPort(u.Hostname(), port))
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	_, err = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: paddock\r\nAccept: */*\r\nConnection: close\r\n\r\n", u.RequestURI(), u.Host)
	if err != nil {
		return 0, err
	}
	return readStatus(bufio.NewReader(io.LimitReader(conn, maxHTTPHead)))
}

// readStatus reads the status line of the final answer. Those before it only
// say that it will come.
func readStatus(in *bufio.Reader) (int, error) {
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return 0, err
		}
		// HTTP/1.x NNN and perhaps a phrase
		if len(line) < 13 || string(line[:7]) != "HTTP/1." || line[8] != ' ' || line[12] > ' ' {
			return 0, errHTTP
		}
		status, err := strconv.ParseUint(string(line[9:12]), 10, 16)
		if err != nil || status < 100 {
			return 0, errHTTP
		}
		if status >= 200 || status == 101 {
			return int(status), nil
		}
		for len(line) > 2 || line[0] != '\r' && line[0] != '\n' {
			if line, err = in.ReadSlice('\n'); err != nil {
				return 0, err
			}
		}
	}
}
