//go:build linux

package linux

import (
	"errors"
	"testing"

	"github.com/paddock-dev/paddock/cgroup"
	"github.com/paddock-dev/paddock/cgroup/systemd"
)

// Where neither the user nor the service manager has a place for groups, the
// error has what the probe says of the one and what helps with the other.
func TestWithoutScope(t *testing.T) {
	t.Parallel()
	place := &cgroup.Error{Op: "use", Object: "/sys/fs/cgroup", Err: cgroup.ErrNoDelegate, Hint: cgroup.DelegationHint}
	for _, tt := range []struct {
		name       string
		err        error
		text, hint string
	}{
		{
			"no manager", &cgroup.Error{Op: "start", Object: "x.scope", Err: systemd.ErrNoManager, Hint: "log in"},
			place.Error() + "; cannot start x.scope: no service manager answers", "log in; or " + cgroup.DelegationHint,
		},
		{
			"no controllers", &cgroup.Error{Op: "use", Object: "/x", Err: cgroup.ErrNoController, Hint: cgroup.DelegationHint},
			place.Error() + "; cannot use /x: the controller is not available", cgroup.DelegationHint,
		},
		{"without a hint", errors.New("cut off"), place.Error() + "; cut off", cgroup.DelegationHint},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := withoutScope(place, tt.err)
			if got.Error() != tt.text || cgroupHint(got) != tt.hint {
				t.Errorf("got  %s\nhint %s\nwant %s\nhint %s", got, cgroupHint(got), tt.text, tt.hint)
			}
			if !errors.Is(got, cgroup.ErrNoDelegate) || !errors.Is(got, tt.err) {
				t.Errorf("%v hides one of its causes", got)
			}
		})
	}
}
