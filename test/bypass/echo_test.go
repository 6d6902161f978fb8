//go:build linux

package bypass

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
)

// lookedInto are the names to which rules of sandboxes look into TLS. Their hosts take whatever
// comes for a request, and answer with it.
var lookedInto = []string{"keys.test", "stand.test", "narrow.test"}

// The secrets of rules: the first is put into each request to keys.test, the second takes the
// place of its stand-in in those to stand.test.
const (
	keysSecret  = "key_qrstuvwxyz7890012345"
	standSecret = "key_defghijklm1234509876"
)

// received reads what a connection sends, until nothing has come for a while or done says that
// it is enough.
func received(conn net.Conn, done func([]byte) bool) (got []byte) {
	buffer := make([]byte, 64<<10)
	for len(got) < 64<<10 && (done == nil || !done(got)) {
		_ = conn.SetReadDeadline(time.Now().Add(500 * time.Millisecond))
		n, err := conn.Read(buffer)
		if got = append(got, buffer[:n]...); err != nil {
			break
		}
	}
	_ = conn.SetReadDeadline(time.Time{})
	return got
}

// serveEcho answers, over TLS, with all that came, in the way that its path asks for.
func serveEcho(conn net.Conn) {
	got := received(conn, nil)
	text := fmt.Sprintf("mark:%q", got)
	if bytes.Contains(got, []byte(standSecret)) {
		text = "mark:has stand " + text
	}
	answer := func(status, header, body string) {
		fmt.Fprintf(conn, "HTTP/1.1 %s\r\n%sConnection: close\r\n\r\n%s", status, header, body)
	}
	sized := func(body string) string { return fmt.Sprintf("Content-Length: %d\r\n", len(body)) }
	token := "none"
	if _, rest, ok := strings.Cut(string(got), "Authorization: Bearer "); ok {
		token, _, _ = strings.Cut(rest, "\r\n")
	}
	how := ""
	if _, rest, ok := strings.Cut(string(got), "/echo/"); ok {
		how, _, _ = strings.Cut(rest, " ")
	}
	var packed bytes.Buffer
	var pack io.WriteCloser
	switch how {
	case "header":
		answer("200 OK", "X-Echo: "+token+"\r\nContent-Length: 0\r\n", "")
	case "name":
		answer("200 OK", "X-"+token+": 1\r\nContent-Length: 0\r\n", "")
	case "status":
		answer("200 "+token, "Content-Length: 0\r\n", "")
	case "early":
		fmt.Fprintf(conn, "HTTP/1.1 103 Early Hints\r\nLink: </%s>\r\n\r\n", token)
		answer("200 OK", "Content-Length: 0\r\n", "")
	case "chunks":
		body := ""
		for _, c := range []byte(token) {
			body += "1\r\n" + string(c) + "\r\n"
		}
		answer("200 OK", "Transfer-Encoding: chunked\r\n", body+"0\r\n\r\n")
	case "trailer":
		answer("200 OK", "Transfer-Encoding: chunked\r\nTrailer: X-Echo\r\n", "1\r\nx\r\n0\r\nX-Echo: "+token+"\r\n\r\n")
	case "gzip":
		pack = gzip.NewWriter(&packed)
	case "deflate":
		pack = zlib.NewWriter(&packed)
	case "br": // a name that says nothing
		answer("200 OK", "Content-Encoding: br\r\n"+sized(text), text)
	default:
		var from, to int
		if _, asked, ok := strings.Cut(string(got), "Range: bytes="); ok {
			if n, _ := fmt.Sscanf(asked, "%d-%d", &from, &to); n == 2 && from <= to {
				text = "Bearer " + token
				part := text[min(from, len(text)):min(to+1, len(text))]
				answer("206 Partial Content", "Content-Range: bytes "+strconv.Itoa(from)+"-"+strconv.Itoa(to)+"/"+strconv.Itoa(len(text))+"\r\n"+sized(part), part)
				return
			}
		}
		answer("200 OK", sized(text), text)
	}
	if pack != nil {
		_, _ = io.WriteString(pack, text)
		_ = pack.Close()
		answer("200 OK", "Content-Encoding: "+how+"\r\n"+sized(packed.String()), packed.String())
	}
}

// echoes serves a connection if it is one of HTTP/1.1 to a name that rules look into, and
// reports whether it was.
func echoes(secure *tls.Conn) bool {
	state := secure.ConnectionState()
	if state.NegotiatedProtocol == "h2" || !slices.Contains(lookedInto, state.ServerName) {
		return false
	}
	serveEcho(secure)
	_ = secure.Close()
	return true
}
