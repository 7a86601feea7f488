// Package storetest is the contract of [fencerow.Store] as tests. Both stores run it; each case is named for
// the claim that it shows.
//
// [Run] runs the suite on a store. [RunFrozenClock] adds the boundary cases for a store whose clock stands
// still between two calls. [Rejects] runs cases on a store with a guard removed and demands that they fail.
// [Differential] runs random sequences of calls on two stores and compares every answer.
//
// The cases assume nothing about absolute time: they move the clock with [World.Advance] and compare
// durations, with a minute of tolerance for the time that the calls themselves take.
package storetest

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/fourblocks2020/fencerow"
)

// TB is what a case needs of a test: [*testing.T] and rapid's T have it, and so has what [Check] records
// with.
type TB interface {
	Helper()
	Name() string
	Context() context.Context
	Cleanup(func())
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Logf(format string, args ...any)
}

// Harness makes worlds.
type Harness interface {
	// World returns the data for one case. Worlds are used concurrently; what one does is not seen in another,
	// except that they may share a database. Whatever fails in a world fails t.
	World(t TB) World
}

// World is the data that one case works on. Worlds may share a database as long as their instances differ.
type World interface {
	Twin
	// DeleteEntry deletes an entry and its pending row by hand, as a person at the database might.
	DeleteEntry(fencerow.InstanceKey, fencerow.OutboxID)
	// SetAttempts sets the attempt count of a pending row.
	SetAttempts(fencerow.InstanceKey, fencerow.OutboxID, int)
}

// Twin is what [Differential] needs of a world.
type Twin interface {
	// Open returns a store on the world's data as a process of its own would open it: the highest epoch seen is
	// not shared.
	Open() fencerow.Store
	// Instance returns an instance key that nothing in the data uses.
	Instance() fencerow.InstanceKey
	// Advance moves the store's clock ahead by d, as the rows of this world's instances see it.
	Advance(d time.Duration)
	// SetLastEpoch raises the last epoch of a pending row that no claim holds: far ahead of the clock, it is
	// what a clock stepped back leaves behind.
	SetLastEpoch(fencerow.InstanceKey, fencerow.OutboxID, fencerow.ClaimEpoch)
}

// testCase is one claim about stores.
type testCase struct {
	name string
	run  func(*scene)
}

// cases lists the suite, file by file.
func cases() []testCase {
	return slices.Concat(
		enqueueCases(), contentCases(), claimCases(), targetedCases(), outcomeCases(), fenceCases(),
		recoverCases(), suspectCases(), epochCases(), releaseCases(), isolationCases(), requeueCases(),
		snapshotCases(), skipCases(), slotCases(), listCases(), blockedCases(), sumCases(), viewCases(),
		pruneCases(), holdCases(), boundCases(), concurrentCases(),
	)
}

// Run runs the suite on the harness's store, each case as a parallel subtest in a world of its own.
func Run(t *testing.T, h Harness) {
	t.Helper()
	runCases(t, h, cases())
}

// RunFrozenClock runs the boundary cases: what happens exactly when something is due or over. They need a
// clock that only Advance moves.
func RunFrozenClock(t *testing.T, h Harness) {
	t.Helper()
	runCases(t, h, frozenCases())
}

func runCases(t *testing.T, h Harness, all []testCase) {
	t.Helper()
	for _, c := range all {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.run(newScene(t, h))
		})
	}
}

// Failure is a case that a store failed, and its first complaint.
type Failure struct {
	Case    string
	Message string
}

// Check runs cases on the harness's store and returns those that fail, in the order of the suite: the named
// ones, or all if none is named. It is how a store with a guard removed is shown to be rejected. An unknown
// name is a failure too.
func Check(h Harness, names ...string) []Failure {
	var failures []Failure
	all := cases()
	for _, name := range names {
		if !slices.ContainsFunc(all, func(c testCase) bool { return c.name == name }) {
			failures = append(failures, Failure{Case: name, Message: "no such case"})
		}
	}
	for _, c := range all {
		if len(names) > 0 && !slices.Contains(names, c.name) {
			continue
		}
		if message := record(h, c); message != "" {
			failures = append(failures, Failure{Case: c.name, Message: message})
		}
	}
	return failures
}

// Rejects demands that the harness's store, which lacks a guard, fails each of the named cases; if none is
// named, at least one of the suite. It returns what failed.
func Rejects(t testing.TB, h Harness, names ...string) []Failure {
	t.Helper()
	failures := Check(h, names...)
	for _, name := range names {
		if !slices.ContainsFunc(failures, func(f Failure) bool {
			return f.Case == name &&
				f.Message != "no such case"
		}) {
			t.Errorf("%s accepts a store that lacks the guard, or does not exist", name)
		}
	}
	if len(failures) == 0 {
		t.Errorf("the suite accepts a store that lacks the guard")
	}
	return failures
}

// record runs a case to its end and returns its first complaint, or nothing if it passed.
func record(h Harness, c testCase) string {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	r := &recorder{ctx: ctx, name: c.name}
	done := make(chan struct{})
	// A goroutine of its own, since Fatalf ends it.
	go func() {
		defer close(done)
		defer r.cleanUp()
		defer func() {
			if v := recover(); v != nil {
				r.Errorf("panic: %v", v)
			}
		}()
		c.run(newScene(r, h))
	}()
	<-done
	return r.first
}

// recorder is a [TB] that remembers instead of reporting.
type recorder struct {
	ctx  context.Context //nolint:containedctx // handed out, as testing.T does
	name string

	mu       sync.Mutex
	first    string
	cleanups []func()
}

func (r *recorder) Helper()                  {}
func (r *recorder) Name() string             { return r.name }
func (r *recorder) Context() context.Context { return r.ctx }
func (r *recorder) Logf(string, ...any)      {}

func (r *recorder) Cleanup(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cleanups = append(r.cleanups, f)
}

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.first == "" {
		r.first = fmt.Sprintf(format, args...)
	}
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

func (r *recorder) cleanUp() {
	for _, f := range slices.Backward(r.cleanups) {
		f()
	}
}
