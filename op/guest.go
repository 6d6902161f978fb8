package op

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

// endTime bounds the end of what a call has started and gives up.
const endTime = 15 * time.Second

// refusal is what the agent, or the way to it, said of something that could not
// be done.
func refusal(what string, err error) error {
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

// rules are what the sandbox's spec says is replaced in all that is printed.
func (h *held) rules() (rules wire.RedactRules) {
	for _, rule := range h.Spec().Redaction {
		rules = append(rules, wire.RedactRule(rule))
	}
	return rules
}

// unruled refuses what takes commands that nobody judges, in a sandbox whose
// spec has rules for commands.
func (h *held) unruled(what string) error {
	if h.Spec().Commands == nil {
		return nil
	}
	return &paddock.Error{
		Message: "cannot " + what + " under rules for commands: what runs there could be used to get around them",
		Hint:    "use paddock execute, which runs one command at a time, or leave the rules out: the walls hold all the same",
		Code:    wire.CodeConflict,
	}
}

// killTree ends the trees of a kind and a name, and says how many processes
// that took and whether none is left. It does so also when ctx has ended.
func (h *held) killTree(ctx context.Context, kind, name string) (killed int, proved bool, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
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

// nameOr checks the name of a shell or a service; an empty one is made up where
// that is allowed.
func nameOr(field, name string, made bool) (string, error) {
	if name == "" && made {
		return strings.ToLower(rand.Text()[:12]), nil
	}
	if !sessionName(name) {
		return "", &policy.FieldError{Field: field, Value: name,
			Reason: "a name has 1 to 64 letters, digits, dots, lines and underscores, the first of them a letter or a digit"}
	}
	return name, nil
}

// span is a duration that a field may hold: above 0, and at most so long.
func span(field string, given *policy.Duration, otherwise, most time.Duration) (time.Duration, error) {
	if given == nil {
		return otherwise, nil
	}
	if d := time.Duration(*given); d > 0 && d <= most {
		return d, nil
	}
	return 0, &policy.FieldError{Field: field, Value: given.String(), Reason: "it must be above 0 and at most " + policy.Duration(most).String()}
}

// moment is a time as the agent tells it, in seconds since 1970.
func moment(seconds float64) time.Time {
	return time.UnixMicro(int64(seconds * 1e6)).UTC()
}

func momentOr(seconds *float64) *time.Time {
	if seconds == nil {
		return nil
	}
	t := moment(*seconds)
	return &t
}

// oneOf refuses a word that is none of those that a field may hold; an empty one
// is the default.
func oneOf(field, value string, words ...string) error {
	if value == "" || slices.Contains(words, value) {
		return nil
	}
	return &policy.FieldError{Field: field, Value: value, Reason: "it must be one of " + strings.Join(words, ", ")}
}

// atLeastOne refuses a number that is missing.
func atLeastOne(field string, n uint64) error {
	if n == 0 {
		return &policy.FieldError{Field: field, Reason: "it must be 1 at least"}
	}
	return nil
}
