package schedule

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestNext(t *testing.T) {
	from := time.Date(2024, 2, 28, 12, 0, 0, 0, time.UTC)
	got, err := Next("30 6 29 * *", from, 2)
	want := []time.Time{time.Date(2024, 2, 29, 6, 30, 0, 0, time.UTC), time.Date(2024, 3, 29, 6, 30, 0, 0, time.UTC)}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("-want +got:\n%s%v", diff, err)
	}
	if _, err := Next("61 * * * *", from, 1); err == nil {
		t.Error("an hour has no 61 minutes")
	}
}
