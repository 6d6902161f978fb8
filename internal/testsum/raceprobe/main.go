// Command raceprobe does nothing: that it can be built and run with the race
// detector shows that the race detector works here.
package main

func main() {}
