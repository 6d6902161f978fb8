// Attacker tries, from inside a sandbox that may reach some hosts by name, everything that might
// lead to another one. It prints "result NAME through|cut|open DETAIL" for each attempt, where open
// is what no rule can see, and "ask WORD" for what whoever started it should do, which answers
// with a line.
//
// Programs of people are told of a proxy by variables. So is this one: where there is a proxy, an
// attempt goes through it. With the argument "still" it asks for nothing, and leaves out what
// depends on that, and what depends on secrets and on rules of requests. With "copied" it leaves
// out what depends on rules that look into TLS.
package main

import (
	"bufio"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"
)

// patience is how long an attempt may take. What is cut later counts as cut.
const patience = 15 * time.Second

// attack is one attempt. It reports whether it reached what it must not.
type attack struct {
	name string
	try  func() (bool, string)
}

func main() {
	how := ""
	if len(os.Args) > 1 {
		how = os.Args[1]
	}
	var all []attack
	switch how {
	case "still":
		all = slices.Concat(attacks(), lookedInto())
	case "copied":
		all = slices.Concat(attacks(), changes())
	default:
		all = slices.Concat(attacks(), lookedInto(), within(), sentBack(), changes())
	}
	for _, a := range all {
		through, detail := a.try()
		word := "cut"
		if through {
			word = "through"
		}
		detail = strings.Map(func(r rune) rune {
			if r < ' ' || r > '~' {
				return ' '
			}
			return r
		}, detail)
		fmt.Printf("result\t%s\t%s\t%.160s\n", a.name, word, detail)
	}
}

var answers = bufio.NewReader(os.Stdin)

// ask has whoever started this program do something.
func ask(word string) {
	fmt.Printf("ask\t%s\n", word)
	if _, err := answers.ReadString('\n'); err != nil {
		os.Exit(1)
	}
}

// mark is in every answer of the hosts outside, and hostMark in those of this host's services.
const (
	mark     = "mark:"
	hostMark = "mark:host"
)

// proxy returns the proxy that the environment names, or nil.
func proxy() *url.URL {
	for _, name := range []string{"HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"} {
		if u, err := url.Parse(os.Getenv(name)); err == nil && u.Host != "" && u.Scheme == "http" {
			return u
		}
	}
	return nil
}

// reach connects to a host, which may be no proper name.
func reach(host string, port int) (net.Conn, error) {
	if u := proxy(); u != nil {
		return connect(u, host, port)
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return direct(host, port)
	}
	address, err := lookup("udp", nameserver(), host, typeA)
	if err != nil {
		return nil, err
	}
	return direct(address, port)
}

// connect asks a proxy for a connection.
func connect(u *url.URL, host string, port int) (net.Conn, error) {
	conn, err := net.DialTimeout("tcp", u.Host, patience)
	if err != nil {
		return nil, err
	}
	_ = conn.SetDeadline(time.Now().Add(patience))
	head := fmt.Sprintf("CONNECT %s:%d HTTP/1.1\r\nHost: %s:%d\r\n", host, port, host, port)
	if u.User != nil {
		password, _ := u.User.Password()
		head += "Proxy-Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(u.User.Username()+":"+password)) + "\r\n"
	}
	if _, err := io.WriteString(conn, head+"\r\n"); err != nil {
		_ = conn.Close()
		return nil, err
	}
	line := make([]byte, 0, 256)
	for b := make([]byte, 1); !strings.HasSuffix(string(line), "\r\n\r\n"); {
		if _, err := io.ReadFull(conn, b); err != nil || len(line) > 8<<10 {
			_ = conn.Close()
			return nil, errors.New("the proxy does not answer")
		}
		line = append(line, b[0])
	}
	if !strings.Contains(strings.SplitN(string(line), "\r\n", 2)[0], " 200") {
		_ = conn.Close()
		return nil, errors.New(strings.SplitN(string(line), "\r\n", 2)[0])
	}
	return conn, nil
}

func direct(host string, port int) (net.Conn, error) {
	conn, err := net.DialTimeout("tcp", net.JoinHostPort(host, fmt.Sprint(port)), patience)
	if err == nil {
		_ = conn.SetDeadline(time.Now().Add(patience))
	}
	return conn, err
}

// get asks for a page over TLS on a connection, with a server name and a Host.
func get(conn net.Conn, err error, server, host string) string {
	if err != nil {
		return err.Error()
	}
	defer conn.Close()
	secure := tls.Client(conn, &tls.Config{ServerName: server, InsecureSkipVerify: true}) // who answers is all that matters
	return talk(secure, "GET / HTTP/1.1\r\nHost: "+host+"\r\nConnection: close\r\n\r\n")
}

// talk sends a text and returns what comes back, or the error.
func talk(conn net.Conn, text string) string {
	if _, err := io.WriteString(conn, text); err != nil {
		return err.Error()
	}
	got, err := io.ReadAll(io.LimitReader(conn, 64<<10))
	if len(got) == 0 && err != nil {
		return err.Error()
	}
	return string(got)
}

// says makes an attempt of one that succeeds if the answer has a mark, and a text in it.
func says(text string, try func() string) func() (bool, string) {
	return func() (bool, string) {
		got := try()
		if at := strings.Index(got, mark); at > 0 {
			got = got[at:]
		}
		return strings.Contains(got, mark) && strings.Contains(got, text), got
	}
}
