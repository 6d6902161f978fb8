package paddock

import (
	"context"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/wire"
)

// Stats is what runs in a sandbox and what it takes. Sandbox is nil where no
// control group counts all commands together; what that does not count is nil too.
type Stats = wire.UsageResult

// Stats asks the agent what runs now. Its numbers are the agent's word.
func (s *Sandbox) Stats(ctx context.Context) (Stats, error) {
	stats, err := wire.Call(ctx, &s.client, wire.Usage, wire.UsageRequest{})
	if err != nil {
		return Stats{}, agentError("read the statistics", err)
	}
	return stats, nil
}

// Freeze stops every command of the sandbox where it is, and returns when all
// of them stand still. Timeouts go on, and what is frozen can be killed. It
// fails where the backend has no means for it: the linux backend needs control groups.
func (s *Sandbox) Freeze(ctx context.Context) error {
	f, err := s.freezer()
	if err != nil {
		return err
	}
	return f.Freeze(ctx)
}

// Thaw lets the commands go on.
func (s *Sandbox) Thaw(ctx context.Context) error {
	f, err := s.freezer()
	if err != nil {
		return err
	}
	return f.Thaw(ctx)
}

func (s *Sandbox) freezer() (backend.Freezer, error) {
	if f, ok := s.wall.(backend.Freezer); ok {
		return f, nil
	}
	return nil, &Error{Message: "cannot freeze sandbox " + s.ID() + ": its backend has no means for it"}
}
