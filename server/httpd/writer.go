package httpd

import (
	"net/http"
	"time"
)

// writer bounds the time of each write, so that a stream may last for ever, but not a
// client that reads nothing. It calls begin when the answer begins.
type writer struct {
	http.ResponseWriter
	control *http.ResponseController
	each    time.Duration
	begin   func(h http.Header, status int) // called once; may be nil
	status  int                             // 0 before the answer begins
}

func newWriter(w http.ResponseWriter, each time.Duration) *writer {
	return &writer{ResponseWriter: w, control: http.NewResponseController(w), each: each}
}

// WriteHeader begins the answer.
func (w *writer) WriteHeader(status int) {
	w.deadline()
	if w.status == 0 && status >= http.StatusOK {
		w.status = status
		if w.begin != nil {
			w.begin(w.Header(), status)
		}
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write sends a part of the answer.
func (w *writer) Write(data []byte) (int, error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	w.deadline()
	return w.ResponseWriter.Write(data)
}

// FlushError sends what was written.
func (w *writer) FlushError() error {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	w.deadline()
	return w.control.Flush()
}

// Flush is FlushError without its error.
func (w *writer) Flush() { _ = w.FlushError() }

// Unwrap returns the wrapped writer, for [http.ResponseController].
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *writer) deadline() {
	_ = w.control.SetWriteDeadline(time.Now().Add(w.each)) // a closed connection fails at the write
}
