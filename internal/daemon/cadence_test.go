package daemon

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fourblocks2020/fencerow/internal/writer"
)

func TestCadence(t *testing.T) {
	const half = interval / 2
	claimed := writer.PollResult{Claimed: 100, More: true}
	tests := []struct {
		name string
		poll func(w *scripted, n int) (writer.PollResult, error)
		run  time.Duration
		want []time.Duration
	}{
		{
			name: "FirstPollIsAtOnceThenOneEachInterval",
			poll: func(*scripted, int) (writer.PollResult, error) { return writer.PollResult{}, nil },
			run:  3*interval + half,
			want: []time.Duration{0, interval, 2 * interval, 3 * interval},
		},
		{
			name: "AFollowUpIsAtOnceAndMovesNoTick",
			poll: func(w *scripted, n int) (writer.PollResult, error) {
				if n <= 3 {
					w.wake <- struct{}{}
				}
				<-time.After(interval / 10)
				return claimed, nil
			},
			run: 2*interval + half,
			// The first three polls wake the next, whether or not they are over; all but the first tick are on the
			// grid.
			want: []time.Duration{0, 0, interval / 10, interval / 5, interval, 2 * interval},
		},
		{
			name: "AFollowUpThatHangsDelaysNoTick",
			poll: func(w *scripted, n int) (writer.PollResult, error) {
				switch n {
				case 1:
					w.wake <- struct{}{}
				case 2:
					<-time.After(3*interval + half)
				}
				return claimed, nil
			},
			run:  3*interval + half,
			want: []time.Duration{0, 0, interval, 2 * interval, 3 * interval},
		},
		{
			name: "AfterAnErrorTheNextClaimWaitsForTheTick",
			poll: func(w *scripted, n int) (writer.PollResult, error) {
				switch {
				case n < 3: // the signal between the ticks is left unused
					time.AfterFunc(half, func() { w.wake <- struct{}{} })
					return writer.PollResult{}, errors.New("down")
				case n == 3:
					w.wake <- struct{}{} // before the daemon can know that the error is over
					return claimed, nil
				}
				return writer.PollResult{}, nil
			},
			run:  3*interval + half,
			want: []time.Duration{0, interval, 2 * interval, 2 * interval, 3 * interval},
		},
		{
			name: "AFollowUpThatFailsIsNotFollowedEither",
			poll: func(w *scripted, n int) (writer.PollResult, error) {
				if n > 2 {
					return writer.PollResult{}, nil
				}
				w.wake <- struct{}{}
				if n == 2 {
					return writer.PollResult{}, errors.New("down")
				}
				return claimed, nil
			},
			run:  interval + half,
			want: []time.Duration{0, 0, interval},
		},
		{
			name: "AfterASlowPollTheGridIsKept",
			poll: func(_ *scripted, n int) (writer.PollResult, error) {
				if n == 1 {
					<-time.After(2*interval + half)
				}
				return writer.PollResult{}, nil
			},
			run:  4*interval + half,
			want: []time.Duration{0, 2*interval + half, 3 * interval, 4 * interval},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var w *scripted
				w = newScripted(func(n int) (writer.PollResult, error) { return tt.poll(w, n) })
				b := newBench(t, w, nil)
				stop := b.start()
				pass(tt.run)
				got := w.polledAt()
				check(t, stop())
				if !slices.Equal(got, tt.want) {
					t.Errorf("polls at %v, want %v", got, tt.want)
				}
			})
		})
	}
}

func TestADayOfIdlePollsKeepsItsCadenceAndWritesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const day = 86_400
		w := newScripted(idle)
		b := newBench(t, w, nil)
		stop := b.start()
		pass(day*interval - interval/2)
		written := len(b.log.at(t, -8)) + len(b.log.at(t, 0)) + len(b.log.at(t, 4)) + len(b.log.at(t, 8))
		got := w.polledAt()
		check(t, stop())
		equal(t, "polls", len(got), day)
		for i, at := range got {
			if at != time.Duration(i)*interval {
				t.Fatalf("poll %d at %v", i, at)
			}
		}
		equal(t, "records beside the started event", written, 1)
	})
}
