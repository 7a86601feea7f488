package ledgerstub_test

import (
	"testing"
	"time"

	"github.com/fourblocks2020/fencerow/internal/ledgerstub"
)

func TestCheckFindsEachKindOfClash(t *testing.T) {
	send := func(epoch int64, arrival, end time.Duration) ledgerstub.Record {
		return ledgerstub.Record{Key: "k", Epoch: epoch, Arrival: arrival, End: end, Digest: ledgerstub.Digest{1}}
	}
	changed := send(3, 50, 60)
	changed.Digest = ledgerstub.Digest{2}
	for _, c := range []struct {
		name                     string
		sends                    []ledgerstub.Record
		options                  ledgerstub.CheckOptions
		falls, overlaps, changes int
	}{
		{"OneAfterTheOther", []ledgerstub.Record{send(1, 10, 20), send(2, 20, 30), send(2, 31, 40)},
			ledgerstub.CheckOptions{}, 0, 0, 0},
		{"TokenFalls", []ledgerstub.Record{send(2, 10, 20), send(1, 30, 40)}, ledgerstub.CheckOptions{}, 1, 0, 0},
		{"TokenStaysLow", []ledgerstub.Record{send(3, 10, 20), send(1, 30, 40), send(2, 50, 60)},
			ledgerstub.CheckOptions{}, 2, 0, 0},
		{"ZombieMayFallAndOverlap", []ledgerstub.Record{send(1, 10, 90), send(2, 30, 40), send(1, 45, 50),
			send(3, 60, 70)},
			ledgerstub.CheckOptions{Zombies: []int64{1}}, 0, 0, 0},
		{"Overlap", []ledgerstub.Record{send(1, 10, 30), send(2, 29, 40)}, ledgerstub.CheckOptions{}, 0, 1, 0},
		{"OverlapWithAnEarlierButLongerOne", []ledgerstub.Record{send(1, 10, 90), send(1, 95, 99), send(2, 96, 97)},
			ledgerstub.CheckOptions{}, 0, 1, 0},
		{"OverlapWithinSlack", []ledgerstub.Record{send(1, 10, 30), send(2, 29, 40)},
			ledgerstub.CheckOptions{Slack: 1}, 0, 0, 0},
		{"OpenOverlapsAllThatFollow", []ledgerstub.Record{send(1, 10, 0), send(2, 29, 40), send(3, 50, 60)},
			ledgerstub.CheckOptions{Slack: time.Hour}, 0, 2, 0},
		{"OrderOfTheSliceDoesNotMatter", []ledgerstub.Record{send(2, 30, 40), send(1, 10, 20)},
			ledgerstub.CheckOptions{}, 0, 0, 0},
		{"BodyChanged", []ledgerstub.Record{send(1, 10, 20), changed}, ledgerstub.CheckOptions{}, 0, 0, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := ledgerstub.Check(c.sends, c.options)
			if len(r.Falls) != c.falls || len(r.Overlaps) != c.overlaps || len(r.Changed) != c.changes {
				t.Errorf("report is %+v", r)
			}
			if r.Requests != len(c.sends) || r.Keys != 1 || r.Repeated["k"] != len(c.sends) {
				t.Errorf("report counts %+v", r)
			}
		})
	}
}
