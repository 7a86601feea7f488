package faults

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fourblocks2020/fencerow"
)

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// small is a run of twenty seconds, ten leases, in which every kind of fault comes at least once.
func small(t testing.TB) Config {
	t.Helper()
	return Config{
		Seed: 2, Duration: 20 * time.Second, Entries: 4000, Instances: 2, Daemons: 3, Lease: 2 * time.Second,
		Every: 700 * time.Millisecond, Log: t.Output(),
	}
}

func TestThePromiseHoldsUnderFaults(t *testing.T) {
	c := small(t)
	report, err := Run(t.Context(), c)
	check(t, err)
	t.Logf("plan:\n%s", report.Plan)
	t.Log(report)
	for _, violation := range report.Violations() {
		t.Error(violation)
	}
	if len(report.Faults) < 20 || report.Entries != c.Entries || report.Expired == 0 || report.Compared == 0 ||
		report.Counters == 0 {
		t.Errorf("too little happened: %d kinds of faults, %d entries, %d rows taken over, %d and %d processes "+
			"compared", len(report.Faults), report.Entries, report.Expired, report.Compared, report.Counters)
	}
}

func TestAPlanIsAFunctionOfItsSeed(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		c := small(t)
		c.Seed, c.Duration = seed, 5*time.Minute
		c = c.Defaults()
		plan := NewPlan(c)
		if !slices.Equal(plan, NewPlan(c)) {
			t.Fatalf("seed %d gives two plans", seed)
		}
		kinds := map[Kind]bool{}
		for i, f := range plan {
			kinds[f.Kind] = true
			if i > 0 && f.At < plan[i-1].At {
				t.Errorf("seed %d: %s comes before its time", seed, f)
			}
			if f.At+f.For >= c.Duration {
				t.Errorf("seed %d: %s does not end in time", seed, f)
			}
			checkAlone(t, plan[:i], f)
		}
		if len(kinds) != len(Kinds()) {
			t.Errorf("seed %d plans %d kinds of %d", seed, len(kinds), len(Kinds()))
		}
	}
	one, other := small(t).Defaults(), small(t).Defaults()
	other.Seed++
	if NewPlan(one).String() == NewPlan(other).String() {
		t.Error("two seeds give one plan")
	}
}

// checkAlone demands that no earlier fault of the same scope befalls the same thing at the same time.
func checkAlone(t testing.TB, earlier Plan, f Fault) {
	t.Helper()
	scopeOf := func(k Kind) scope {
		return specs[slices.IndexFunc(specs, func(s spec) bool { return s.kind == k })].scope
	}
	for _, e := range earlier {
		if scopeOf(e.Kind) == scopeOf(f.Kind) && e.Instance == f.Instance && e.Daemon == f.Daemon &&
			e.At+e.For > f.At {
			t.Errorf("%s overlaps with %s", f, e)
		}
	}
}

// A mutation that has lost its place in the source would leave the product as it is.
func TestEachMutationAndTheClockApply(t *testing.T) {
	t.Parallel()
	root, err := moduleRoot(t.Context())
	check(t, err)
	for name, m := range Mutants() {
		for _, e := range m.edits {
			text, err := os.ReadFile(filepath.Join(root, e.file))
			check(t, err)
			edited, err := e.apply(string(text))
			if err != nil || edited == string(text) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if len(m.Rules) == 0 || len(m.Kinds) == 0 {
			t.Errorf("%s: nothing says how it is found", name)
		}
	}
	if _, err := (edit{file: "f", pattern: "a", with: "b", times: 1}).apply("aa"); err == nil {
		t.Error("an edit that matches twice is made once")
	}
	if _, err := (edit{file: "f", section: "x", pattern: "a", times: 1}).apply("a"); err == nil {
		t.Error("an edit of a section that is missing is made")
	}
}

func TestEntriesAreDocumentsOfTheProduct(t *testing.T) {
	t.Parallel()
	for n := range 500 {
		e := numbered("desk-1", n, 10)
		made := e.new()
		check(t, made.Validate())
		whole := fencerow.Entry{
			Instance: "desk-1", CorrelationID: made.CorrelationID, EntryKind: made.EntryKind, SlotID: made.SlotID,
			CashDelta: made.CashDelta, Currency: made.Currency, Payload: made.Payload,
		}
		if got := string(whole.AppendDocument(nil)); got != e.body() {
			t.Fatalf("entry %d: the product sends %s, the checker expects %s", n, got, e.body())
		}
		if number, c, ok := numberOf(e.id()); !ok || number != n || c != e.class {
			t.Fatalf("%s is read as %d of class %q", e.id(), number, c)
		}
	}
	for _, id := range []string{"legacy-1", "foreign-3", undone + "7", "e-x"} {
		if _, _, ok := numberOf(id); ok {
			t.Errorf("%s is read as an entry", id)
		}
	}
	if !strings.Contains(numbered("desk-1", 1, 10).payload(), payloadSentinel) {
		t.Error("the payload has no sentinel")
	}
}
