// Fakeagent is a program that is not an agent, or a broken agent. The name of its
// file says how it is broken.
package main

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/paddock-dev/paddock/confine"
	"github.com/paddock-dev/paddock/wire"
)

func main() {
	control := os.NewFile(3, "control")
	self, _ := os.Readlink("/proc/self/exe")
	switch filepath.Base(self) {
	case "dead":
		_, _ = os.Stderr.WriteString("last words\nand more\n")
		os.Exit(3)
	case "mute":
		time.Sleep(time.Hour)
	case "garbage":
		_, _ = control.WriteString("\x00\x00\x00\x0eno such message")
		time.Sleep(time.Hour)
	case "flood":
		block := []byte(strings.Repeat("x", 1<<20))
		for range 64 {
			_, _ = control.Write(block)
		}
		time.Sleep(time.Hour)
	case "empty":
		_ = (&confine.Booted{}).Write(control)
		time.Sleep(time.Hour)
	case "liar": // says that its walls stand, and has built none
		_ = (&confine.Booted{Protocol: wire.Version}).Write(control)
		time.Sleep(time.Hour)
	}
}
