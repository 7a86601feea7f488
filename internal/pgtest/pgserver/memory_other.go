//go:build !linux

package pgserver

func memoryFolder() string { return "" }
