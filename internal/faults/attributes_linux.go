package faults

import "syscall"

// processAttributes makes the kernel kill a program when the harness is killed.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
