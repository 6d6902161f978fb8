// Command raceprobe prints the flag of the race detector: that it can be built
// and run with it ("go run -race") shows that the race detector works here.
package main

import "fmt"

func main() { fmt.Println("-race") }
