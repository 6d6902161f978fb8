package service

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/paddock-dev/paddock/op/internal/registry"
	"github.com/paddock-dev/paddock/wire"
)

// A list of many fits into the budget, those that run first.
func TestServiceList(t *testing.T) {
	out := ServiceListOutput{}
	list := make([]wire.Service, 100)
	for i := range list {
		list[i] = wire.Service{ServiceName: "s", State: "exited", Command: strings.Repeat("x", 1000)}
	}
	list[99].State = registry.Running
	out.take(list, 20000)
	encoded, err := json.Marshal(out)
	if err != nil {
		t.Fatal(err)
	}
	if out.Services[0].State != registry.Running || len(out.Services)+out.NotShown != 100 || out.NotShown == 0 || len(encoded) > 10000 {
		t.Errorf("%d are shown, %d not, in %d bytes", len(out.Services), out.NotShown, len(encoded))
	}
}
