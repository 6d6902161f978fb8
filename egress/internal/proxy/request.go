package proxy

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/paddock-dev/paddock/egress"
	"github.com/paddock-dev/paddock/policy"
)

// exchange is a request and its answer.
type exchange struct {
	http.ResponseWriter
	redact redactor
	status int
	weight int64 // of it among those that are in flight
	err    error // why the host was not reached
}

type exchangeKey struct{}

// Unwrap is for [http.ResponseController].
func (e *exchange) Unwrap() http.ResponseWriter { return e.ResponseWriter }

// WriteHeader writes the head of an answer, or one before it.
func (e *exchange) WriteHeader(status int) {
	e.redact.header(e.Header())
	if status >= 200 {
		e.status = status
	}
	e.ResponseWriter.WriteHeader(status)
}

// ServeHTTP answers a request of an intercepted connection.
func (i *interceptor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	own, ok := r.Context().Value(interceptedKey{}).(*intercepted)
	if !ok {
		panic(http.ErrAbortHandler)
	}
	own.serveRequest(w, r)
}

func (i *intercepted) serveRequest(w http.ResponseWriter, r *http.Request) {
	i.requests.Add(1)
	began := time.Now()
	e := &exchange{ResponseWriter: w, weight: requestWeight + headWeight(r.Header) + int64(len(r.RequestURI))}
	held := i.inFlight.Add(e.weight)
	defer func() { i.inFlight.Add(-e.weight) }()
	refusal := errTooMany
	if held <= i.most {
		refusal = i.check(r)
	}
	if refusal != nil {
		i.server.deny(egress.Record{Host: i.c.to.host(), Port: i.c.to.port, Rule: i.c.rule, Reason: "a request was refused: " + refusal.reason,
			Method: cutText(r.Method), Path: i.shown(r.URL), Status: refusal.status})
		if r.ProtoMajor == 1 && refusal.status != http.StatusForbidden {
			w.Header().Set("Connection", "close") // what follows may be meant to be read in another way
		}
		if held > i.most+i.most/8 { // not even refusals are read
			panic(http.ErrAbortHandler)
		}
		writeText(w, refusal.status, "paddock: the request is refused: "+strconv.QuoteToASCII(refusal.reason)+"\n")
		return
	}
	defer func() {
		record := egress.Record{Kind: egress.KindRequest, Host: i.c.to.host(), Port: i.c.to.port, Rule: i.c.rule, Method: cutText(r.Method), Path: i.shown(r.URL),
			Status: e.status, Duration: policy.Duration(time.Since(began).Round(time.Microsecond))}
		denied, failed := (*deniedError)(nil), (*failedError)(nil)
		switch {
		case errors.As(e.err, &denied):
			record.Kind, record.Rule, record.Reason = egress.KindDenied, denied.rule, denied.reason
		case errors.As(e.err, &failed):
			record.Kind, record.Reason = egress.KindFailed, failed.Error()
		case e.err != nil:
			record.Kind, record.Reason = egress.KindFailed, (&failedError{e.err}).Error()
		}
		record.Reason = e.redact.text(record.Reason) // it may repeat what the host sent
		i.server.records.add(record)
		i.restAfter(i.server.served())
	}()
	i.proxy.ServeHTTP(e, r.WithContext(context.WithValue(r.Context(), exchangeKey{}, e)))
}

// shown returns the path of a request for a record.
func (i *intercepted) shown(u *url.URL) string {
	path := u.EscapedPath()
	for _, s := range i.secrets {
		for _, text := range []string{s.Value, s.StandIn} {
			if text != "" {
				path = strings.ReplaceAll(strings.ReplaceAll(path, text, "["+s.Name+"]"), url.PathEscape(text), "["+s.Name+"]")
			}
		}
	}
	return path
}

func cutText(s string) string { return s[:min(len(s), 64)] }

func writeText(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text)
}

// check returns why a request is not sent on.
func (i *intercepted) check(r *http.Request) *httpError {
	switch {
	case r.Method == http.MethodConnect:
		return &httpError{421, "it asks for a tunnel"}
	case r.Host == "":
		return &httpError{421, "it names no Host"}
	case r.URL.Opaque != "", r.URL.User != nil:
		return badRequest("its address is invalid")
	case r.URL.Scheme != "" && !strings.EqualFold(r.URL.Scheme, "https"):
		return &httpError{421, "its address is not one of https"}
	}
	if err := checkHost(r.Host, i.c.to); err != nil {
		return err
	}
	if values := headerValues(r.Header, "Host"); len(values) > 0 { // beside :authority
		for _, host := range values {
			if !strings.EqualFold(host, r.Host) {
				return &httpError{421, "it names two hosts"}
			}
		}
	}
	for name := range r.Header {
		if err := checkFraming(name); err != nil {
			return err
		}
	}
	if err := checkForwarded(r.Header, i.c.to); err != nil {
		return err
	}
	if secret := i.misplaced(r); secret != nil {
		return &httpError{403, "it has the stand-in of " + secret.Name + " where no rule says that the value goes"}
	}
	return checkRequest(i.rule.HTTP, r)
}

// misplaced returns a secret whose stand-in a request has, but for the header in which it is
// replaced.
func (i *intercepted) misplaced(r *http.Request) *egress.Secret {
	texts := []string{r.URL.Path, r.URL.EscapedPath(), r.URL.RawQuery}
	if query, err := url.QueryUnescape(r.URL.RawQuery); err == nil {
		texts = append(texts, query)
	}
	own := ""
	if s := i.rule.Secret; s != nil && s.Substitute {
		own = s.Name
	}
	for _, secret := range i.secrets {
		one := secrets{secret}
		for name, values := range r.Header {
			if secret.Name == own && sameHeader(name, i.rule.Secret.Header) {
				continue
			}
			for _, value := range values {
				if one.standsIn(name, value, basic(value)) != nil {
					return &secret
				}
			}
		}
		if one.standsIn(texts...) != nil {
			return &secret
		}
	}
	return nil
}

const basicScheme = "Basic "

// basic returns the name and the password of a header of that kind, else "".
func basic(value string) string {
	if len(value) < len(basicScheme) || !strings.EqualFold(value[:len(basicScheme)], basicScheme) {
		return ""
	}
	text, err := base64.StdEncoding.DecodeString(strings.TrimSpace(value[len(basicScheme):]))
	if err != nil {
		return ""
	}
	return string(text)
}

// restoreForwarded puts back what ReverseProxy takes out, to let proxies set their own: the host
// gets what commands say, as it would without Paddock, and nothing more. checkForwarded has
// looked at it. What is for this connection alone (Connection) stays here.
func restoreForwarded(out, in http.Header) {
	for name, values := range in {
		if !strings.HasPrefix(name, "X-Forwarded-") && name != "Forwarded" {
			continue
		}
		if !slices.ContainsFunc(in["Connection"], func(list string) bool {
			return slices.ContainsFunc(strings.Split(list, ","), func(word string) bool { return strings.EqualFold(strings.Trim(word, " \t"), name) })
		}) {
			out[name] = values
		}
	}
}

// rewrite makes the request to the host.
func (i *intercepted) rewrite(r *httputil.ProxyRequest) {
	out := r.Out
	out.URL.Scheme = "https"
	out.URL.Host = net.JoinHostPort(i.c.to.name, strconv.Itoa(int(i.c.to.port)))
	out.URL.RawQuery = r.In.URL.RawQuery // as it was written
	out.Host = r.In.Host
	out.Header.Del("Host")
	restoreForwarded(out.Header, r.In.Header)
	if !strings.EqualFold(out.Header.Get("Upgrade"), "websocket") || out.Method != http.MethodGet {
		out.Header.Del("Upgrade")
		out.Header.Del("Connection")
	}
	e, ok := out.Context().Value(exchangeKey{}).(*exchange)
	if !ok {
		return
	}
	secret := i.rule.Secret
	out.Trailer = r.In.Trailer // the server fills it
	if out.Body != nil && out.Body != http.NoBody {
		out.Body = &sentBody{out.Body, out, secret}
	}
	for _, s := range i.secrets {
		e.redact = e.redact.add(s.Value, s.StandIn)
		quoted := strconv.QuoteToASCII(s.Value) // as in errors and in JSON
		for _, escaped := range []string{url.QueryEscape(s.Value), quoted[1 : len(quoted)-1]} {
			if escaped != s.Value {
				e.redact = e.redact.add(escaped, "")
			}
		}
	}
	if len(i.secrets) > 0 {
		// What is compressed cannot be searched.
		out.Header.Set("Accept-Encoding", "identity")
		out.Header.Del("Sec-Websocket-Extensions")
	}
	if secret == nil {
		return
	}
	// Answers to these would have the value in pieces, of which none can be told from other text.
	for name := range out.Header {
		if isOneOf(name, rangeHeaders) {
			delete(out.Header, name)
		}
	}
	known := i.secrets.find(secret.Name)
	if known == nil {
		return // the rules are refused without it
	}
	if !secret.Substitute {
		for name := range out.Header {
			if sameHeader(name, secret.Header) {
				delete(out.Header, name)
			}
		}
		content := strings.Replace(secret.Format, "{}", known.Value, 1)
		out.Header.Set(secret.Header, content)
		return
	}
	for name, values := range out.Header {
		if !sameHeader(name, secret.Header) {
			continue
		}
		values = slices.Clone(values)
		for j, value := range values {
			if plain := basic(value); strings.Contains(plain, known.StandIn) {
				encoded := base64.StdEncoding.EncodeToString([]byte(strings.ReplaceAll(plain, known.StandIn, known.Value)))
				e.redact = e.redact.add(encoded, strings.TrimSpace(value[len(basicScheme):]))
				values[j] = value[:len(basicScheme)] + encoded
			} else {
				values[j] = strings.ReplaceAll(value, known.StandIn, known.Value)
			}
		}
		out.Header[name] = values
	}
}

// sentBody is the body of a request. At its end it takes out of the fields after it what must
// not be there.
type sentBody struct {
	io.ReadCloser
	request *http.Request
	secret  *policy.NetworkSecret
}

func (b *sentBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		for name := range b.request.Trailer {
			// Servers may take them for fields of the header, which were checked.
			if b.secret != nil && sameHeader(name, b.secret.Header) ||
				isOneOf(name, headHeaders, methodHeaders, pathHeaders, hostHeaders, rangeHeaders) {
				delete(b.request.Trailer, name)
			}
		}
	}
	return n, err
}

// failed answers a request of which no answer came.
func (i *intercepted) failed(w http.ResponseWriter, r *http.Request, err error) {
	e, ok := r.Context().Value(exchangeKey{}).(*exchange)
	if !ok {
		panic(http.ErrAbortHandler)
	}
	if r.Context().Err() != nil || i.c.ctx.Err() != nil { // the command has gone
		panic(http.ErrAbortHandler)
	}
	e.err = outsideCause(err)
	reason := e.redact.text(e.err.Error())
	if denied := (*deniedError)(nil); !errors.As(e.err, &denied) {
		reason = "the host " + i.c.to.host() + " gave no answer that can be sent on: " + reason
	}
	writeText(w, http.StatusBadGateway, "paddock: "+strconv.QuoteToASCII(reason)+"\n")
}

// outsideCause returns the error of a transport without the words that net/http puts before it.
func outsideCause(err error) error {
	denied, failed := (*deniedError)(nil), (*failedError)(nil)
	switch {
	case errors.As(err, &denied):
		return denied
	case errors.As(err, &failed):
		return failed.err
	}
	invalid := (*tls.CertificateVerificationError)(nil)
	if errors.As(err, &invalid) {
		return errors.New("its certificate is not trusted: " + invalid.Err.Error())
	}
	return err
}
