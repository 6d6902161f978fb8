package table

import (
	"errors"
	"fmt"
	"testing"

	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/policy"
)

// A network that is written as in a spec file is told which fields have its rules.
func TestANetworkIsOneWord(t *testing.T) {
	err := operation(t, "sandbox_create").Check([]byte(`{"network":{"publish":["3000"]}}`))
	if err == nil || err.Error() != "cannot read the input of sandbox_create: cannot use network: it must be one word, not a JSON object" || op.HintOf(err) != "hosts go in `network.allow`, ports in `network.publish`" {
		t.Errorf("%v (%s)", err, op.HintOf(err))
	}
}

// What a schema requires of the elements of a list must be there, whichever tool has
// it: an absent text would be taken for an empty one.
func TestElementsHaveWhatTheirSchemaRequires(t *testing.T) {
	tried := 0
	for _, o := range All() {
		lists := parsed(t, o.InputSchema()).below("properties")
		for list := range lists {
			items := lists.below(list).below("items")
			required, _ := items["required"].([]any)
			for _, missing := range required {
				one := map[string]any{}
				for _, key := range required {
					if key != missing {
						one[fmt.Sprint(key)] = "x"
					}
				}
				tried++
				err := o.Check(mustJSON(t, map[string]any{list: []any{one}}))
				wrong := (*policy.FieldError)(nil)
				field := fmt.Sprintf("%s[0].%s", list, missing)
				if !errors.As(err, &wrong) || wrong.Field != field || err.Error() != "cannot use "+field+": it is missing" {
					t.Errorf("%s without %s: %v", o.Name, field, err)
				}
			}
		}
	}
	if tried < 4 {
		t.Errorf("only %d were tried", tried)
	}
}
