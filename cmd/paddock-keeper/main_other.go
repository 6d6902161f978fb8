//go:build !linux

package main

import "github.com/paddock-dev/paddock/internal/elsewhere"

func main() { elsewhere.Main("paddock-keeper") }
