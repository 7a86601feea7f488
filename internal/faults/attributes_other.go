//go:build !linux

package faults

import "syscall"

// processAttributes has no way here to bind a program's life to the harness.
func processAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }
