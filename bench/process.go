package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// clockTick is the unit of the times in /proc/PID/stat; it is 100 a second on every Linux that Go runs on.
const clockTick = 10 * time.Millisecond

// ownCPU returns the CPU time of this process so far.
func ownCPU() (time.Duration, error) {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0, err
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), nil
}

// processCPU returns the CPU time of another process so far.
func processCPU(pid int) (time.Duration, error) {
	p, err := readProcess(pid)
	return p.own, err
}

// process is what /proc/PID/stat says of a process.
type process struct {
	parent int
	own    time.Duration
	// children is that of ended children that were waited for.
	children time.Duration
}

func readProcess(pid int) (process, error) {
	content, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return process{}, err
	}
	return parseProcess(content)
}

// parseProcess reads one /proc/PID/stat. The command's name is in parentheses and may hold any character.
func parseProcess(content []byte) (p process, err error) {
	end := bytes.LastIndexByte(content, ')')
	fields := strings.Fields(string(content[end+1:]))
	const parent, user, system, childUser, childSystem = 1, 11, 12, 13, 14 // counted from the state on
	if end < 0 || len(fields) <= childSystem {
		return p, errors.New("a line of /proc/PID/stat that cannot be read")
	}
	var values [childSystem + 1]int64
	for _, i := range []int{parent, user, system, childUser, childSystem} {
		if values[i], err = strconv.ParseInt(fields[i], 10, 64); err != nil {
			return p, fmt.Errorf("a line of /proc/PID/stat: %w", err)
		}
	}
	return process{
		parent:   int(values[parent]),
		own:      time.Duration(values[user]+values[system]) * clockTick,
		children: time.Duration(values[childUser]+values[childSystem]) * clockTick,
	}, nil
}

func parentOf(pid int) (int, error) {
	p, err := readProcess(pid)
	return p.parent, err
}

// serverCPU returns the CPU time of a server so far: of its first process, its children, and its children
// that have ended.
func serverCPU(postmaster int) (time.Duration, error) {
	first, err := readProcess(postmaster)
	if err != nil {
		return 0, err
	}
	total := first.own + first.children
	all, err := os.ReadDir("/proc")
	if err != nil {
		return 0, err
	}
	for _, entry := range all {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		p, err := readProcess(pid)
		if err != nil || p.parent != postmaster {
			continue // not the server's, or ended since
		}
		total += p.own
	}
	return total, nil
}
