package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
)

// Rules look into TLS to these names. The one for keys sets a header to a secret, that for stand
// puts a secret in the place of its stand-in, and that for narrow lets GET and POST of what is
// below /open/ through. Their hosts answer with all that came.
const (
	keys   = "keys.test"
	stand  = "stand.test"
	narrow = "narrow.test"
)

// The secrets, in reverse: this program must not have what it looks for.
const (
	keysSecret  = "5432100987zyxwvutsrq_yek"
	standSecret = "6789054321mlkjihgfed_yek"
)

func reversed(s string) string {
	b := []byte(s)
	slices.Reverse(b)
	return string(b)
}

// held returns a variable: without a wall it is the secret itself, and behind one at most
// something that stands for it.
func held(name string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return "mine"
}

// inside sends a text over TLS to a name, and returns all that comes back.
func inside(host, text string) string {
	conn, err := reach(host, 443)
	if err != nil {
		return err.Error()
	}
	defer conn.Close()
	return talk(tls.Client(conn, &tls.Config{ServerName: host, InsecureSkipVerify: true}), text) // who answers is all that matters
}

// sends is an attempt of a text that must not get to a host as it is.
func sends(name, host, sign, text string) attack {
	return attack{name, says(sign, func() string { return inside(host, text) })}
}

// lookedInto are attempts inside connections to a name whose rule looks into them.
func lookedInto() []attack {
	const end = "\r\nConnection: close\r\n\r\n"
	smuggled := "GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n"
	return []attack{
		{"looked into: a request", says(mark, func() string { return inside(keys, "GET / HTTP/1.1\r\nHost: keys.test"+end) })},
		sends("looked into: Host of another", keys, "Host: evil", "GET / HTTP/1.1\r\nHost: evil.test"+end),
		sends("looked into: Host of another that rules look into", keys, "Host: narrow", "GET / HTTP/1.1\r\nHost: narrow.test"+end),
		sends("looked into: Host with another port", keys, "Host: keys.test:8443", "GET / HTTP/1.1\r\nHost: keys.test:8443"+end),
		sends("looked into: two Hosts", keys, "Host: evil", "GET / HTTP/1.1\r\nHost: keys.test\r\nHost: evil.test"+end),
		sends("looked into: a folded Host", keys, `\r\n `+evil, "GET / HTTP/1.1\r\nHost: keys.test\r\n evil.test"+end),
		sends("looked into: absolute form of another", keys, "GET https://evil", "GET https://evil.test/ HTTP/1.1\r\nHost: keys.test"+end),
		sends("looked into: CONNECT", keys, "CONNECT evil", "CONNECT evil.test:443 HTTP/1.1\r\nHost: evil.test:443"+end),
		sends("looked into: CONNECT of itself", keys, "CONNECT keys", "CONNECT keys.test:443 HTTP/1.1\r\nHost: keys.test:443"+end),
		sends("looked into: another Host in a second request", keys, "Host: evil", "GET / HTTP/1.1\r\nHost: keys.test\r\n\r\n"+smuggled),
		sends("looked into: a length and chunks", keys, "Host: evil", "POST / HTTP/1.1\r\nHost: keys.test\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"+smuggled),
		sends("looked into: chunks and a length", keys, "Host: evil", "POST / HTTP/1.1\r\nHost: keys.test\r\nTransfer-Encoding: chunked\r\nContent-Length: 400\r\n\r\n0\r\n\r\n"+smuggled),
		sends("looked into: two codings", keys, "Host: evil", "POST / HTTP/1.1\r\nHost: keys.test\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n"+smuggled),
		sends("looked into: a coding with a tab", keys, "Host: evil", "POST / HTTP/1.1\r\nHost: keys.test\r\nTransfer-Encoding:\tchunked, x\r\n\r\n0\r\n\r\n"+smuggled),
		sends("looked into: a space in a coding's name", keys, "Host: evil", "POST / HTTP/1.1\r\nHost: keys.test\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n"+smuggled),
		sends("looked into: two lengths", keys, "Host: evil", fmt.Sprintf("POST / HTTP/1.1\r\nHost: keys.test\r\nContent-Length: 0\r\nContent-Length: %d\r\n\r\n%s", len(smuggled), smuggled)),
		sends("looked into: two lengths in one", keys, "Host: evil", fmt.Sprintf("POST / HTTP/1.1\r\nHost: keys.test\r\nContent-Length: 0, %d\r\n\r\n%s", len(smuggled), smuggled)),
		sends("looked into: a length with a sign", keys, "Host: evil", fmt.Sprintf("POST / HTTP/1.1\r\nHost: keys.test\r\nContent-Length: +%d\r\n\r\n%s", len(smuggled), smuggled)),
		sends("looked into: chunks with a wrong size", keys, "Host: evil", "POST / HTTP/1.1\r\nHost: keys.test\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n\r\n"+smuggled),
		sends("looked into: an upgrade to HTTP/2", keys, "Upgrade: h2c", "GET / HTTP/1.1\r\nHost: keys.test\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA\r\n\r\n"),
		{"looked into: :authority of another", says(mark, func() string { return authority(keys) })},
		{"looked into: Host beside :authority", says(evil, func() string {
			return frames(keys, "GET", field{":scheme", "https"}, field{":path", "/"}, field{":authority", keys}, field{"host", evil})
		})},
		{"looked into: CONNECT, HTTP/2", says("CONNECT", func() string { return frames(keys, "CONNECT", field{":authority", "evil.test:443"}) })},
		{"looked into: extended CONNECT, HTTP/2", says("CONNECT", func() string {
			return frames(keys, "CONNECT", field{":protocol", "websocket"}, field{":scheme", "https"}, field{":path", "/"}, field{":authority", keys})
		})},
		{"looked into: encrypted TLS hello", func() (bool, string) {
			got := encrypted(keys, keys)
			return strings.Contains(got, "of the world"), got
		}},
	}
}

// within are attempts to send what rules of requests do not let through, and to see what a stand-in is for.
func within() []attack {
	tricks := []string{
		"/open/../closed", "/open/%2e%2e/closed", "/open/.%2E/closed", "/open/..%2fclosed", "/open%2f..%2fclosed", "/open/..;/closed", "/open/..;x=y/closed",
		"/open/..%5cclosed", "/open/..\\closed", "/open/%252e%252e/closed", "/open/%c0%ae%c0%ae/closed", "/closed", "//open/../closed", "/open//../closed",
		"/OPEN/../closed", "/open/./../closed", "/open/a%00/../../closed", "/closed#/open/", "/closed?/open/", "/closed%3f/open/", "/open/..%20/closed", "closed",
	}
	overrides := []string{
		"X-HTTP-Method-Override: DELETE", "X-HTTP-Method: DELETE", "X-Method-Override: DELETE", "x_http_method_override: DELETE",
		"X-Original-URL: /closed", "X-Rewrite-URL: /closed", "X-Original-URI: /closed", "X_Original_Url: /closed",
	}
	each := func(name, host string, requests []string, sign func(string) string) attack {
		return attack{name, func() (bool, string) {
			got := ""
			for _, text := range requests {
				if got = inside(host, text); strings.Contains(got, mark) && strings.Contains(got, sign(text)) {
					return true, text + got
				}
			}
			return false, got
		}}
	}
	marked := func(string) string { return mark }
	var byPath, byHeader, byMethod, elsewhere []string
	for _, path := range tricks {
		byPath = append(byPath, "GET "+path+" HTTP/1.1\r\nHost: narrow.test\r\nConnection: close\r\n\r\n")
	}
	for _, header := range overrides {
		byHeader = append(byHeader, "GET /open/a HTTP/1.1\r\nHost: narrow.test\r\n"+header+"\r\nConnection: close\r\n\r\n")
	}
	for _, method := range []string{"DELETE", "get", "PUT", "TRACE", "PROPFIND", "GETS", "HEAD"} {
		byMethod = append(byMethod, method+" /open/a HTTP/1.1\r\nHost: narrow.test\r\nConnection: close\r\n\r\n")
	}
	mine := held("STAND_TOKEN")
	for _, text := range []string{
		"GET /open/a HTTP/1.1\r\nHost: narrow.test\r\nX-Key: " + mine, "GET /open/" + mine + " HTTP/1.1\r\nHost: narrow.test", "GET /open/a?q=" + mine + " HTTP/1.1\r\nHost: narrow.test",
		"GET /open/a HTTP/1.1\r\nHost: narrow.test\r\nCookie: a=" + mine,
	} {
		elsewhere = append(elsewhere, text+"\r\nConnection: close\r\n\r\n")
	}
	body := fmt.Sprintf("POST / HTTP/1.1\r\nHost: stand.test\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", len(mine), mine)
	return []attack{
		{"a request that rules let through", says(mark, func() string {
			return inside(narrow, "GET /open/a HTTP/1.1\r\nHost: narrow.test\r\nConnection: close\r\n\r\n")
		})},
		{"a stand-in where its rule wants it", says("has stand", func() string {
			return inside(stand, "GET / HTTP/1.1\r\nHost: stand.test\r\nX-Key: "+mine+"\r\nConnection: close\r\n\r\n")
		})},
		each("paths around rules of requests", narrow, byPath, marked),
		each("methods that no rule names", narrow, byMethod, marked),
		each("headers that ask for another method or path", narrow, byHeader, marked),
		each("a stand-in sent to another host", narrow, elsewhere, func(string) string { return mine }),
		{"a secret in place of a stand-in in another header", says("has stand", func() string {
			return inside(stand, "GET / HTTP/1.1\r\nHost: stand.test\r\nX-Other: "+mine+"\r\nConnection: close\r\n\r\n")
		})},
		{"a secret in place of a stand-in in a body", says("has stand", func() string { return inside(stand, body) })},
		{"a variable with a secret", func() (bool, string) {
			all := strings.Join(os.Environ(), " ")
			return strings.Contains(all, reversed(keysSecret)) || strings.Contains(all, reversed(standSecret)), ""
		}},
	}
}

// sentBack are attempts to see a secret in what its host sends back.
func sentBack() []attack {
	bearer := "Authorization: Bearer " + held("KEYS_TOKEN") + "\r\n"
	echo := func(name, path, header string, read func(string) string) attack {
		return attack{"a secret that comes back, " + name, func() (bool, string) {
			got := read(inside(keys, "GET /echo/"+path+" HTTP/1.1\r\nHost: keys.test\r\n"+bearer+header+"Connection: close\r\n\r\n"))
			return strings.Contains(got, reversed(keysSecret)), got
		}}
	}
	same := func(s string) string { return s }
	return []attack{
		echo("in a body", "body", "", same),
		echo("in a header", "header", "", same),
		echo("in the name of a header", "name", "", same),
		echo("in the status", "status", "", same),
		echo("in hints before the answer", "early", "", same),
		echo("in single bytes", "chunks", "", dechunked),
		echo("in a trailer", "trailer", "TE: trailers\r\n", same),
		echo("compressed with gzip", "gzip", "Accept-Encoding: gzip\r\n", unpacked),
		echo("compressed with deflate", "deflate", "Accept-Encoding: deflate\r\n", unpacked),
		echo("compressed in an unknown way", "br", "Accept-Encoding: br\r\n", same),
		{"a secret that comes back, in ranges", func() (bool, string) {
			got := ""
			for at := 0; at < 160; at += 8 {
				answer := inside(keys, fmt.Sprintf("GET /echo/body HTTP/1.1\r\nHost: keys.test\r\n%sRange: bytes=%d-%d\r\nConnection: close\r\n\r\n", bearer, at, at+7))
				if head, part, ok := strings.Cut(answer, "\r\n\r\n"); ok && strings.Contains(head, " 206 ") {
					got += part
				}
			}
			return strings.Contains(got, reversed(keysSecret)), got
		}},
		{"a secret that comes back, HTTP/2", func() (bool, string) {
			got := frames(keys, "GET", field{":scheme", "https"}, field{":path", "/"}, field{":authority", keys}, field{"authorization", "Bearer " + held("KEYS_TOKEN")})
			return strings.Contains(got, reversed(keysSecret)), got
		}},
	}
}

// dechunked returns an answer with its body in one piece.
func dechunked(text string) string {
	answer, err := http.ReadResponse(bufio.NewReader(strings.NewReader(text)), nil)
	if err != nil {
		return err.Error()
	}
	body, _ := io.ReadAll(answer.Body)
	return string(body)
}

// unpacked returns the body of an answer, decompressed if it is compressed.
func unpacked(text string) string {
	body := []byte(dechunked(text))
	for _, open := range []func() (io.Reader, error){
		func() (io.Reader, error) { return gzip.NewReader(bytes.NewReader(body)) },
		func() (io.Reader, error) { return zlib.NewReader(bytes.NewReader(body)) },
	} {
		if from, err := open(); err == nil {
			plain, _ := io.ReadAll(from)
			return string(plain)
		}
	}
	return string(body)
}

// authority asks for another host in a connection of HTTP/2 to a host.
func authority(host string) string {
	transport := &http.Transport{ForceAttemptHTTP2: true, DialTLSContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return two(ctx, host)
	}}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequest(http.MethodGet, "https://evil.test/", nil)
	if err != nil {
		return err.Error()
	}
	answer, err := transport.RoundTrip(request)
	if err != nil {
		return err.Error()
	}
	defer answer.Body.Close()
	got, _ := io.ReadAll(io.LimitReader(answer.Body, 4096))
	return answer.Proto + " " + string(got)
}

// two connects to a host with TLS of HTTP/2.
func two(ctx context.Context, host string) (net.Conn, error) {
	conn, err := reach(host, 443)
	if err != nil {
		return nil, err
	}
	client := tls.Client(conn, &tls.Config{ServerName: host, NextProtos: []string{"h2"}, InsecureSkipVerify: true}) // who answers is all that matters
	if err := client.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return client, nil
}

// field is one of a request's header.
type field struct{ name, value string }

// frames sends a request in frames of HTTP/2 that no client would make, and returns the bodies
// of frames that come back, or how it ends.
func frames(host, method string, fields ...field) string {
	conn, err := two(context.Background(), host)
	if err != nil {
		return err.Error()
	}
	defer conn.Close()
	var header []byte // literals, in no table
	for _, f := range append([]field{{":method", method}}, fields...) {
		header = append(append(header, 0, byte(len(f.name))), f.name...)
		header = append(append(header, byte(len(f.value))), f.value...)
	}
	flags := byte(4 | 1) // the header ends, and so does the request
	if method == "CONNECT" {
		flags = 4
	}
	out := append([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), 0, 0, 0, 4, 0, 0, 0, 0, 0)
	out = append(out, 0, byte(len(header)>>8), byte(len(header)), 1, flags, 0, 0, 0, 1)
	if _, err := conn.Write(append(out, header...)); err != nil {
		return err.Error()
	}
	got := ""
	for head := make([]byte, 9); ; {
		if _, err := io.ReadFull(conn, head); err != nil {
			return got + err.Error()
		}
		payload := make([]byte, int(head[0])<<16|int(head[1])<<8|int(head[2]))
		if _, err := io.ReadFull(conn, payload); err != nil {
			return got + err.Error()
		}
		switch kind, flags := head[3], head[4]; {
		case kind == 0: // data
			if got += string(payload); flags&1 != 0 || strings.Contains(got, "\n") {
				return got
			}
		case kind == 3, kind == 7: // the stream or the connection ends
			return fmt.Sprintf("%sframe %d: %x", got, kind, payload)
		case kind == 1 && flags&1 != 0:
			return got + "a header alone"
		}
	}
}
