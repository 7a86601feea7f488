//go:build race

package badinput

// every is which part of the values is tried within a process: each fourth, since the race detector makes a
// call take several times as long.
const every = 4
