package core

// Change wakes those who wait for a change of what a lock guards. Its methods are called
// with that lock held. The zero value is ready to use.
type Change struct{ waiting chan struct{} }

// Wait returns a channel that the next Notify closes.
func (c *Change) Wait() <-chan struct{} {
	if c.waiting == nil {
		c.waiting = make(chan struct{})
	}
	return c.waiting
}

// Notify wakes everyone who waits.
func (c *Change) Notify() {
	if c.waiting != nil {
		close(c.waiting)
		c.waiting = nil
	}
}
