package proxy

import (
	"bufio"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/paddock-dev/paddock/egress"
)

const (
	mostHead   = 48 << 10 // bytes of a head of HTTP: cookies of 32 kB, and more than as much as most servers take besides
	mostFields = 256
)

// httpError is the answer to a request that is not sent on.
type httpError struct {
	status int
	reason string
}

func (e *httpError) Error() string { return e.reason }

func badRequest(reason string) *httpError { return &httpError{400, reason} }

// httpRequest is the head of a request, written anew: nothing is sent on that was not
// understood.
type httpRequest struct {
	head    []byte
	host    string // with its port, if it has one
	header  http.Header
	length  int64 // of the body
	chunked bool
	upgrade bool // to WebSocket
}

// parseRequest reads the lines of a head, without their ends.
func parseRequest(lines []string) (*httpRequest, *httpError) {
	if len(lines) == 0 {
		return nil, badRequest("it has no request line")
	}
	method, rest, _ := strings.Cut(lines[0], " ")
	address, version, _ := strings.Cut(rest, " ")
	switch {
	case !isToken(method):
		return nil, badRequest("its method is invalid")
	case version != "HTTP/1.1" && version != "HTTP/1.0":
		return nil, badRequest("it is not of HTTP/1.1")
	case method == "CONNECT":
		return nil, &httpError{421, "it asks for a tunnel"}
	}
	for i := range len(address) {
		if address[i] <= ' ' || address[i] == 127 {
			return nil, badRequest("its address is invalid")
		}
	}
	h := &httpHead{}
	for _, line := range lines[1:] {
		if err := h.add(line); err != nil {
			return nil, err
		}
	}
	r, err := h.request(version)
	if err != nil {
		return nil, err
	}
	path, authority, err := splitAddress(method, address)
	if err != nil {
		return nil, err
	}
	if authority != "" && !strings.EqualFold(authority, r.host) {
		return nil, &httpError{421, "its address and its Host differ"}
	}
	if r.upgrade = r.upgrade && method == "GET" && r.length == 0 && !r.chunked; !r.upgrade {
		h.drop("upgrade", "http2-settings")
	}
	r.header = h.header()
	r.head = []byte(method + " " + path + " " + version + "\r\n")
	r.head = h.appendTo(r.head)
	return r, nil
}

// splitAddress returns the path of a request, and the host if it names one.
func splitAddress(method, address string) (path, authority string, err *httpError) {
	const scheme = "http://"
	switch {
	case strings.HasPrefix(address, "/"), address == "*" && method == "OPTIONS":
		return address, "", nil
	case len(address) < len(scheme) || !strings.EqualFold(address[:len(scheme)], scheme):
		return "", "", &httpError{421, "its address is neither a path nor one of http"}
	}
	rest := address[len(scheme):]
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	authority, path = rest[:end], rest[end:]
	switch {
	case authority == "":
		return "", "", badRequest("its address names no host")
	case path == "" && method == "OPTIONS":
		path = "*"
	case !strings.HasPrefix(path, "/"):
		path = "/" + path
	}
	return path, authority, nil
}

// httpHead are the header fields of a request.
type httpHead struct {
	fields []httpField
}

type httpField struct{ name, value string }

// add reads a line. Whatever servers understand in different ways is refused.
func (h *httpHead) add(line string) *httpError {
	name, value, ok := strings.Cut(line, ":")
	if !ok || !isToken(name) { // also a line that goes on with the one before it
		return badRequest("a line of its header is invalid")
	}
	if err := checkFraming(name); err != nil {
		return err
	}
	value = strings.Trim(value, " \t")
	for i := range len(value) {
		if c := value[i]; c < ' ' && c != '\t' || c == 127 {
			return badRequest("its header has control characters")
		}
	}
	h.fields = append(h.fields, httpField{name, value})
	return nil
}

// only returns the value of a field that can be there once.
func (h *httpHead) only(name string) (value string, found bool, err *httpError) {
	for _, f := range h.fields {
		if !strings.EqualFold(f.name, name) {
			continue
		}
		if found {
			return "", true, badRequest("its header has two fields " + name)
		}
		value, found = f.value, true
	}
	return value, found, nil
}

// header returns the fields by their names.
func (h *httpHead) header() http.Header {
	all := http.Header{}
	for _, f := range h.fields {
		all[f.name] = append(all[f.name], f.value)
	}
	return all
}

// appendTo appends the fields and the empty line after them.
func (h *httpHead) appendTo(text []byte) []byte {
	for _, f := range h.fields {
		text = append(text, f.name+": "+f.value+"\r\n"...)
	}
	return append(text, "\r\n"...)
}

// drop leaves fields out.
func (h *httpHead) drop(names ...string) {
	kept := h.fields[:0]
	for _, f := range h.fields {
		dropped := false
		for _, name := range names {
			dropped = dropped || sameHeader(f.name, name)
		}
		if !dropped {
			kept = append(kept, f)
		}
	}
	h.fields = kept
}

// request returns what the fields say about host and body.
func (h *httpHead) request(version string) (*httpRequest, *httpError) {
	r := &httpRequest{}
	host, found, err := h.only("Host")
	if err != nil {
		return nil, err
	}
	if r.host = host; !found || host == "" {
		return nil, &httpError{421, "it names no Host"}
	}
	length, sized, err := h.only("Content-Length")
	if err != nil {
		return nil, err
	}
	coding, coded, err := h.only("Transfer-Encoding")
	switch {
	case err != nil:
		return nil, err
	case coded && sized:
		return nil, badRequest("it has both Content-Length and Transfer-Encoding")
	case coded && !strings.EqualFold(coding, "chunked"):
		return nil, &httpError{501, "its Transfer-Encoding is not chunked"}
	case coded && version == "HTTP/1.0":
		return nil, badRequest("it has a Transfer-Encoding, which HTTP/1.0 does not have")
	}
	if r.chunked = coded; sized {
		n, ok := parseDigits(length, 10)
		if !ok {
			return nil, badRequest("its Content-Length is invalid")
		}
		r.length = n
	}
	for _, f := range h.fields {
		// A server that is a proxy would drop what is named here, and read another request.
		for option := range strings.SplitSeq(f.value, ",") {
			switch strings.ToLower(strings.Trim(option, " \t")) {
			case "host", "content-length", "transfer-encoding":
				if strings.EqualFold(f.name, "Connection") {
					return nil, badRequest("its Connection names a field that every server needs")
				}
			}
		}
	}
	upgrade, found, err := h.only("Upgrade")
	r.upgrade = found && strings.EqualFold(upgrade, "websocket")
	return r, err
}

// parseDigits reads a number that is nothing but digits.
func parseDigits(s string, base int) (int64, bool) {
	for i := range len(s) {
		c := s[i] | 0x20
		if (c < '0' || c > '9') && (base != 16 || c < 'a' || c > 'f') {
			return 0, false
		}
	}
	n, err := strconv.ParseInt(s, base, 63)
	return n, err == nil
}

func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c|0x20 < 'a' || c|0x20 > 'z') && (c < '0' || c > '9') && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(c)) {
			return false
		}
	}
	return s != "" && len(s) <= 256
}

// checkHost returns an error unless a Host means the target of a connection. Where a rule opens
// an address, whoever has the address is meant.
func checkHost(host string, to target) *httpError {
	name, port, ok := strings.Cut(host, ":")
	if n, valid := parseDigits(port, 10); ok && (!valid || n != int64(to.port)) {
		return &httpError{421, "its Host names another port: " + host}
	}
	if to.name == "" && name == to.address.String() {
		return nil
	}
	canonical, valid := egress.CanonicalName(name)
	switch {
	case !valid:
		return badRequest("its Host is invalid: " + host)
	case to.name != "" && canonical != to.name:
		return &httpError{421, "its Host is another: " + host}
	}
	return nil
}

// readLine reads a line that ends with CR LF, and returns it without. budget are the bytes
// that are left for it.
func readLine(in *bufio.Reader, budget *int) (string, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		line = append(line, part...)
		if *budget -= len(part); *budget < 0 {
			return "", &httpError{431, "its header is too long"}
		}
		if err == nil {
			break
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return "", err
		}
	}
	whole, ok := strings.CutSuffix(string(line), "\r\n")
	if !ok || strings.ContainsAny(whole, "\r\x00") {
		return "", badRequest("a line does not end with CR LF")
	}
	return whole, nil
}
