package op

import (
	"time"
)

// beatEvery is how often who listens hears of work that goes on: clients give up
// on what they do not hear of.
const beatEvery = 2 * time.Second

// Beat tells of work that takes as long as it takes, until stop is called: the
// seconds so far, of total where that is known, and what message says.
func (s *Stream) Beat(total time.Duration, message func() string) (stop func()) {
	if s == nil || s.Progress == nil {
		return func() {}
	}
	quit, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		from, tick := time.Now(), time.NewTicker(beatEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				s.Progress(time.Since(from).Seconds(), total.Seconds(), message())
			case <-quit:
				return
			}
		}
	}()
	return func() { close(quit); <-ended }
}
