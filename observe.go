package paddock

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/paddock-dev/paddock/egress"
)

// Observed is a host that commands have reached, at one port.
type Observed struct {
	Host        string `json:"host"`
	Port        uint16 `json:"port"`
	Connections int    `json:"connections"`
	Sent        int64  `json:"sent"`
	Received    int64  `json:"received"`
}

// observeTime bounds how long Observed waits for connections to end.
const observeTime = 500 * time.Millisecond

// Observed returns what commands have reached by connections that have ended, those with the
// fewest connections first, and how many records are not kept any more, so that they are not
// counted. It is for a sandbox whose network is "observe" or "allow".
func (s *Sandbox) Observed(ctx context.Context) (found []Observed, lost uint64, err error) {
	for end := time.Now().Add(observeTime); ; time.Sleep(10 * time.Millisecond) {
		state, err := s.Network(ctx)
		if err != nil {
			return nil, 0, err
		}
		if lost = state.Lost; state.Open == 0 || time.Now().After(end) {
			break
		}
	}
	err = s.NetworkLog(ctx, 0, false, func(r egress.Record) error {
		if r.Kind != egress.KindConnection {
			return nil
		}
		i := slices.IndexFunc(found, func(o Observed) bool { return o.Host == r.Host && o.Port == r.Port })
		if i < 0 {
			i = len(found)
			found = append(found, Observed{Host: r.Host, Port: r.Port})
		}
		found[i].Connections++
		found[i].Sent += r.Sent
		found[i].Received += r.Received
		return nil
	})
	slices.SortStableFunc(found, func(a, b Observed) int {
		return cmp.Or(cmp.Compare(a.Connections, b.Connections), cmp.Compare(a.Host, b.Host))
	})
	return found, lost, err
}
