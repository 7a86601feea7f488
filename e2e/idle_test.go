package e2e

import (
	"bytes"
	"context"
	"log/slog"
	"math"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/ledger"
	"github.com/fourblocks2020/fencerow/internal/observe"
	"github.com/fourblocks2020/fencerow/internal/pgstore"
	"github.com/fourblocks2020/fencerow/internal/pgtest"
	"github.com/fourblocks2020/fencerow/internal/writer"
)

// day is how many polls a daemon makes in 24 hours at the default interval of one second.
const day = 86_400

// idler is a writer with nothing to do, and the meter of its connection.
type idler struct {
	writer *writer.Writer
	obs    *observe.Observer
	log    bytes.Buffer
	meter  *meter
}

func newIdler(t *testing.T, db *pgtest.Database, instance fencerow.InstanceKey) *idler {
	t.Helper()
	i := &idler{meter: newMeter(t, db)}
	store, err := pgstore.Open(pgstore.Config{DSN: fencerow.NewSecret(i.meter.dsn), MaxConns: 2})
	check(t, err)
	t.Cleanup(store.Close)
	adapter, err := ledger.New(ledger.Config{URL: "http://127.0.0.1:9/", Concurrency: 1})
	check(t, err)
	t.Cleanup(adapter.Close)
	everything := &slog.HandlerOptions{Level: slog.Level(math.MinInt)}
	i.obs, err = observe.New(slog.NewTextHandler(&i.log, everything), instance, observe.Alerting{})
	check(t, err)
	i.writer, err = writer.New(store, adapter, i.obs, writer.Config{Instance: instance, Worker: "idler"})
	check(t, err)
	t.Cleanup(func() { check(t, i.writer.Shutdown(context.WithoutCancel(t.Context()))) })
	check(t, store.Register(t.Context(), instance))
	return i
}

func (i *idler) poll(t *testing.T, times int) {
	for range times {
		if res, err := i.writer.RunOnce(t.Context()); err != nil || !res.Empty() {
			t.Errorf("an idle poll: %+v, %v", res, err)
			return
		}
	}
}

// usage is what the process has used of memory so far.
func usage() (live, allocated uint64) {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc, m.TotalAlloc
}

// This test is not parallel: it measures the memory of the process.
func TestADayOfIdlePollsOfTwoWritersIsCountedAndSilentAndOneRoundTripEach(t *testing.T) {
	polls := max(size(t, day, day), 1000)
	db := pgtest.NewDatabase(t, schema)
	idlers := []*idler{newIdler(t, db, "instance-a"), newIdler(t, db, "instance-b")}
	together := func(times int) {
		var wait sync.WaitGroup
		for _, i := range idlers {
			wait.Go(func() { i.poll(t, times) })
		}
		wait.Wait()
	}
	// The first poll of a connection opens it and prepares the statement.
	const warmUp = 100
	half := (polls - warmUp) / 2
	rest := int64(2 * half)
	polls = warmUp + 2*half
	together(warmUp)
	var before [2]traffic
	for n, i := range idlers {
		before[n] = i.meter.read()
	}
	began := time.Now()
	firstLive, firstTotal := usage()
	together(half)
	halfLive, halfTotal := usage()
	together(half)
	lastLive, lastTotal := usage()
	took := time.Since(began)

	for n, i := range idlers {
		name := string(i.obs.Instance())
		totals := i.obs.Metrics()
		equal(t, "empty_polls_total of "+name, totals.Claims.EmptyPolls, int64(polls))
		equal(t, "other claim totals of "+name, *totals.Claims, observe.ClaimTotals{EmptyPolls: int64(polls)})
		equal(t, "outcome totals of "+name, *totals.Outcomes, observe.OutcomeTotals{})
		equal(t, "log of "+name+" at any level", i.log.String(), "")
		used := i.meter.read().since(before[n])
		equal(t, "traffic of "+name, used, traffic{RoundTrips: rest, Statements: rest})
	}
	// A poll allocates as much at the end of the day as at noon, and keeps nothing: a byte kept a poll would be
	// 170 KB in the end.
	const slack = 100 << 10
	if lastLive > firstLive+slack || lastLive > halfLive+slack {
		t.Errorf("the heap grew: %d bytes at first, %d at half, %d at the end", firstLive, halfLive, lastLive)
	}
	firstHalf, secondHalf := halfTotal-firstTotal, lastTotal-halfTotal
	if secondHalf > firstHalf+firstHalf/50 {
		t.Errorf("polls allocate more and more: %d bytes, then %d", firstHalf, secondHalf)
	}
	t.Logf("2 writers, %d polls each in %s: empty_polls_total %d each, no log record at any level, %d round "+
		"trips and statements for %d polls of each, heap %+d bytes, %d bytes allocated a poll, meter included",
		polls, took.Round(time.Millisecond), polls, rest, rest, int64(lastLive)-int64(firstLive),
		(lastTotal-firstTotal)/uint64(2*rest))
}
