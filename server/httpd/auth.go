package httpd

import (
	"net"
	"sync"
	"time"
)

// How many attempts without a valid token are answered and logged for what they
// are: so many at once, and then one in a second.
const (
	burst    = 20
	maxHosts = 4096
)

// failures counts attempts by where they come from. The zero value is ready.
type failures struct {
	mu    sync.Mutex
	hosts map[string]*attempts
}

type attempts struct {
	left float64
	at   time.Time
	told bool // that there are too many
}

// note counts an attempt. first is true for the first that is in excess.
func (f *failures) note(remote string, now time.Time) (first, excess bool) {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		host = "" // a socket: all are one
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	a := f.hosts[host]
	if a == nil {
		if f.hosts == nil || len(f.hosts) >= maxHosts {
			f.hosts = make(map[string]*attempts) // to forget is kinder than to grow
		}
		a = &attempts{left: burst, at: now}
		f.hosts[host] = a
	}
	a.left = min(burst, a.left+now.Sub(a.at).Seconds())
	a.at = now
	if a.left < 1 {
		first, a.told = !a.told, true
		return first, true
	}
	a.left--
	a.told = false
	return false, false
}
