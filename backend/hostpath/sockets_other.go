//go:build !linux

package hostpath

import "github.com/paddock-dev/paddock/confine"

// socketAt finds nothing: no wall of this system shows sockets.
func socketAt(string) (id confine.FileID, state socketState) { return id, socketNone }

func boundSockets() (list []boundSocket, partial bool) { return nil, false }
