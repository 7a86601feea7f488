package memstore

import (
	"errors"
	"testing"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/storetest"
)

func TestContract(t *testing.T) { storetest.Run(t, harness{}) }

func TestContractWhileTheClockStands(t *testing.T) { storetest.RunFrozenClock(t, harness{}) }

func TestClosedStoreIsUnavailable(t *testing.T) {
	s := New(Options{})
	other := s.Reopen()
	if _, err := s.Ready(t.Context()); err != nil {
		t.Fatalf("an open store with the zero options: %v", err)
	}
	s.Close()
	s.Close()
	for _, handle := range []*Store{s, other} {
		if _, err := handle.Ready(t.Context()); !errors.Is(err, fencerow.ErrStoreUnavailable) {
			t.Errorf("ready: got %v", err)
		}
		if _, err := handle.Counts(t.Context(), "a"); !errors.Is(err, fencerow.ErrStoreUnavailable) {
			t.Errorf("counts: got %v", err)
		}
		if err := handle.Register(t.Context(), "a"); !errors.Is(err, fencerow.ErrStoreUnavailable) {
			t.Errorf("register: got %v", err)
		}
	}
}
