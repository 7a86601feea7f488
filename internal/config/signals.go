package config

import (
	"os"
	"os/signal"
	"syscall"
)

// StopSignals are the signals that stop a program in order. SIGHUP is one, since a terminal that goes away
// must not leave rows leased, unless it was ignored at the start, as under nohup.
func StopSignals() []os.Signal {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	return signals
}
