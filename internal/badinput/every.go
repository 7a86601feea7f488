//go:build !race

package badinput

// every is which part of the values is tried within a process: all.
const every = 1
