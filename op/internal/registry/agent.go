package registry

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/wire"
)

// EndTime bounds the end of what a call has started and gives up.
const EndTime = 15 * time.Second

// Refusal is what the agent, or the way to it, said of something that could not
// be done.
func Refusal(what string, err error) error {
	var own *wire.Error
	var ours *paddock.Error
	if errors.As(err, &own) && own.Code == wire.CodeNotFound && own.Hint == "" {
		own = &wire.Error{Message: own.Message, Code: own.Code, Hint: whereToLook(own.Message)}
		err = own
	}
	switch {
	case err == nil:
		return nil
	case errors.As(err, &ours):
		return err
	case errors.As(err, &own) && strings.HasPrefix(own.Message, "cannot "):
		return &paddock.Error{Message: own.Message, Hint: own.Hint, Code: own.Code}
	case errors.As(err, &own):
		return &paddock.Error{Message: "cannot " + what + ": " + own.Message, Hint: own.Hint, Code: own.Code}
	}
	return fmt.Errorf("cannot %s: %w", what, err)
}

// whereToLook is where the names are that there are, of what an agent does not find.
func whereToLook(message string) string {
	for _, kind := range []string{"service", "shell", "session"} {
		if strings.HasPrefix(message, kind+" ") {
			return kind + "_list names those that there are"
		}
	}
	return ""
}

// Unruled refuses what takes commands that nobody judges, in a sandbox whose
// spec has rules for commands.
func (h *Sandbox) Unruled(what string) error {
	if h.Spec().Commands == nil {
		return nil
	}
	return &paddock.Error{
		Message: "cannot " + what + " under rules for commands: what runs there could be used to get around them",
		Hint:    "use paddock execute, which runs one command at a time, or leave the rules out: the walls hold all the same",
		Code:    wire.CodeConflict,
	}
}

// KillTree ends the trees of a kind and a name, and says how many processes
// that took and whether none is left. It does so also when ctx has ended.
func (h *Sandbox) KillTree(ctx context.Context, kind, name string) (killed int, proved bool, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), EndTime)
	defer cancel()
	now, err := wire.Call(ctx, h.Client(), wire.Usage, wire.UsageRequest{})
	if err != nil {
		return 0, false, err
	}
	proved = true
	for _, tree := range now.Trees {
		if tree.Kind != kind || tree.Name != name {
			continue
		}
		r, err := wire.Call(ctx, h.Client(), wire.Kill, wire.KillRequest{ID: tree.ID})
		var own *wire.Error
		if errors.As(err, &own) && own.Code == wire.CodeNotFound {
			continue // it ended meanwhile
		}
		if err != nil {
			return killed, false, err
		}
		killed, proved = killed+r.Killed, proved && r.DeathProved
	}
	return killed, proved, nil
}

// Moment is a time as the agent tells it, in seconds since 1970.
func Moment(seconds float64) time.Time {
	return time.UnixMicro(int64(seconds * 1e6)).UTC()
}

// MomentOr returns [Moment], nil for nil.
func MomentOr(seconds *float64) *time.Time {
	if seconds == nil {
		return nil
	}
	t := Moment(*seconds)
	return &t
}
