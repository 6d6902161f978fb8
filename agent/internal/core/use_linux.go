package core

import (
	"sync"
	"time"
)

// Use counts what is done in a sandbox: requests, and what runs. The methods of a nil Use do
// nothing.
type Use struct {
	mu     sync.Mutex
	count  int
	report func(busy bool) bool
	again  *time.Timer // not nil while a report is to be repeated
}

// repeatAfter is after which time a report that did not go out is repeated.
const repeatAfter = time.Second

// NewUse returns a Use that calls report whenever something begins, where nothing was done, and
// whenever the last of it ends. report returns whether that went out; if not, it is called again
// later.
func NewUse(report func(busy bool) bool) *Use { return &Use{report: report} }

// Begin notes that something begins.
func (u *Use) Begin() { u.add(1) }

// End notes that something has ended.
func (u *Use) End() { u.add(-1) }

func (u *Use) add(n int) {
	if u == nil {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	before := u.count > 0
	u.count += n
	if now := u.count > 0; now != before {
		u.tell()
	}
}

// tell reports. u.mu is held.
func (u *Use) tell() {
	if u.report(u.count > 0) || u.again != nil {
		return
	}
	u.again = time.AfterFunc(repeatAfter, func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.again = nil
		u.tell()
	})
}
