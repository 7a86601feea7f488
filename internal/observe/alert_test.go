package observe

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fourblocks2020/fencerow"
)

// scene is an observer whose alerts are kept, in a bubble whose clock stands still but for waiting.
type scene struct {
	*Observer
	began time.Time
	told  []string
}

// Alert notes an alert as "seconds event outcome reason xcount".
func (s *scene) Alert(a Alert) {
	words := []string{fmt.Sprint(a.At.Sub(s.began).Seconds()), string(a.Event)}
	for _, word := range []string{string(a.Outcome), string(a.Reason)} {
		if word != "" {
			words = append(words, word)
		}
	}
	s.told = append(s.told, strings.Join(append(words, fmt.Sprintf("x%d", a.Count)), " "))
	if a.Instance != self || a.Worker != "worker-1" {
		s.told = append(s.told, "of "+string(a.Instance)+" "+string(a.Worker))
	}
}

const (
	testHeldAfter = time.Minute
	testWindow    = 5 * time.Minute
)

// inScene runs script in a bubble, waits for an hour and compares what was told, and that the log has the
// same.
func inScene(t *testing.T, script func(s *scene), want ...string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &scene{began: time.Now()}
		o, buf := newObserver(t, FormatJSON, Alerting{
			Sink: s, Worker: "worker-1", HeldAfter: testHeldAfter, Window: testWindow,
		})
		s.Observer = o
		script(s)
		pass(time.Hour)
		o.CloseAlerts()
		if !slices.Equal(s.told, want) {
			t.Errorf("told\n  %s\nwant\n  %s", strings.Join(s.told, "\n  "), strings.Join(want, "\n  "))
		}
		var logged []string
		for line := range strings.Lines(buf.String()) {
			var r struct {
				Time                                time.Time
				Msg, Alert, Worker, Outcome, Reason string
				Count                               int64
			}
			if err := json.Unmarshal([]byte(line), &r); err != nil {
				t.Fatal(err)
			}
			if r.Msg == "alert" {
				if r.Worker != "worker-1" {
					t.Errorf("an alert that names %q as its worker", r.Worker)
				}
				at := fmt.Sprint(r.Time.Sub(s.began).Seconds())
				words := strings.Fields(at + " " + r.Alert + " " + r.Outcome + " " + r.Reason)
				logged = append(logged, strings.Join(append(words, fmt.Sprintf("x%d", r.Count)), " "))
			}
		}
		if !slices.Equal(logged, s.told) {
			t.Errorf("the log has\n  %s\nwhich the sink has not", strings.Join(logged, "\n  "))
		}
	})
}

// pass lets the time pass, and everything happen that is due by then.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func (s *scene) fail(n int, kind fencerow.OutcomeKind, why fencerow.ReasonCode) {
	for i := range n {
		s.OutcomeFailed(Failure{Kind: kind, Reason: why, CorrelationID: fencerow.CorrelationID(fmt.Sprint("e", i))})
	}
}

// hold has the target fail once a second for a time. How it ends is left open.
func (s *scene) hold(why fencerow.ReasonCode, d time.Duration) {
	s.TargetFailed(0)
	s.TargetHeld(why)
	for ; d > time.Second; d -= time.Second {
		pass(time.Second)
		s.TargetFailed(0)
	}
	pass(d)
}

func TestAnAlertIsToldOncePerCauseAndThenCounted(t *testing.T) {
	const dead, permanent, retry = fencerow.OutcomeDeadLettered, fencerow.OutcomePermanentFailure,
		fencerow.OutcomeRetryableFailure
	t.Run("TheFirstAtOnceTheRestWhenTheWindowEnds", func(t *testing.T) {
		inScene(t, func(s *scene) { s.fail(1000, dead, "ledger_error") },
			"0 entry_blocked dead_lettered ledger_error x1",
			"300 entry_blocked dead_lettered ledger_error x999")
	})
	t.Run("OneAloneHasNoFollowUp", func(t *testing.T) {
		inScene(t, func(s *scene) { s.fail(1, permanent, "bad_request") },
			"0 entry_blocked permanent_failure bad_request x1")
	})
	t.Run("EachWindowIsToldWhileTheyKeepComing", func(t *testing.T) {
		inScene(t, func(s *scene) {
			for range 12 {
				s.fail(2, dead, "ledger_error")
				pass(time.Minute)
			}
		}, "0 entry_blocked dead_lettered ledger_error x1", "300 entry_blocked dead_lettered ledger_error x9",
			"600 entry_blocked dead_lettered ledger_error x10", "900 entry_blocked dead_lettered ledger_error x4")
	})
	t.Run("AfterAQuietWindowTheNextIsToldAtOnce", func(t *testing.T) {
		inScene(t, func(s *scene) {
			s.fail(1, dead, "ledger_error")
			pass(testWindow + time.Second)
			s.fail(1, dead, "ledger_error")
		}, "0 entry_blocked dead_lettered ledger_error x1", "301 entry_blocked dead_lettered ledger_error x1")
	})
	t.Run("CausesDoNotHideOneAnother", func(t *testing.T) {
		inScene(t, func(s *scene) {
			s.fail(2, dead, "ledger_error")
			pass(time.Second)
			s.fail(2, permanent, "ledger_error")
			pass(time.Second)
			s.fail(2, permanent, "too_large")
			pass(time.Second)
			s.fail(2, retry, "stale_fencing_token")
		}, "0 entry_blocked dead_lettered ledger_error x1", "1 entry_blocked permanent_failure ledger_error x1",
			"2 entry_blocked permanent_failure too_large x1",
			"3 stale_fencing_token retryable_failure stale_fencing_token x1",
			"300 entry_blocked dead_lettered ledger_error x1", "301 entry_blocked permanent_failure ledger_error x1",
			"302 entry_blocked permanent_failure too_large x1",
			"303 stale_fencing_token retryable_failure stale_fencing_token x1")
	})
	t.Run("WhatIsRaisedWithACountIsCountedByIt", func(t *testing.T) {
		inScene(t, func(s *scene) {
			for count := range int64(4) {
				s.raise(cause{event: AlertLeaseLost}, count+1)
			}
		}, "0 lease_lost x1", "300 lease_lost x9")
	})
	t.Run("WhatNeedsNobodyRaisesNone", func(t *testing.T) {
		inScene(t, func(s *scene) {
			s.fail(100, retry, "throttled")
			s.RecordedSuccess(fencerow.OutcomeCompleted, []fencerow.CorrelationID{"a"})
			s.EmptyPoll()
			s.TargetedClaim(ResultForeign, "a")
		})
	})
	t.Run("ClosingTellsWhatWasCountedAndNothingAfterwards", func(t *testing.T) {
		inScene(t, func(s *scene) {
			s.fail(5, dead, "ledger_error")
			s.TargetHeld("throttled")
			pass(time.Second)
			s.CloseAlerts()
			s.CloseAlerts()
			s.fail(5, dead, "ledger_error")
			s.TargetResumed()
			s.TargetHeld("throttled")
		}, "0 entry_blocked dead_lettered ledger_error x1", "1 entry_blocked dead_lettered ledger_error x4")
	})
}

func TestAHoldIsToldWhenItLastsAndSoIsItsEnd(t *testing.T) {
	const held, resumed = "target_held throttled x", "target_resumed throttled x1"
	t.Run("AShortOneIsNot", func(t *testing.T) {
		inScene(t, func(s *scene) {
			for range 20 {
				s.hold("throttled", testHeldAfter-time.Nanosecond)
				s.TargetResumed()
			}
		})
	})
	t.Run("ALongOneOnce", func(t *testing.T) {
		inScene(t, func(s *scene) {
			s.hold("throttled", 30*time.Minute)
			s.TargetResumed()
		}, "60 "+held+"1", "1800 "+resumed)
	})
	t.Run("OneThatNeverEndsOnce", func(t *testing.T) {
		inScene(t, func(s *scene) { s.hold("throttled", time.Hour) }, "60 "+held+"1")
	})
	t.Run("TheTimeOfAShortOneDoesNotCountForTheNext", func(t *testing.T) {
		inScene(t, func(s *scene) {
			s.hold("throttled", 50*time.Second)
			s.TargetResumed()
			s.hold("throttled", 50*time.Second)
			s.TargetResumed()
		})
	})
	t.Run("ATimerThatComesLateSaysNothingOfTheNext", func(t *testing.T) {
		inScene(t, func(s *scene) {
			s.TargetHeld("throttled")
			late := s.alerts.hold.number
			s.TargetResumed()
			s.holdLasts(late) // it had begun to run when the hold ended
			s.TargetHeld("throttled")
			s.holdLasts(late)
			s.TargetResumed()
		})
	})
	t.Run("SeveralInAWindowAreCountedAndEndResolved", func(t *testing.T) {
		inScene(t, func(s *scene) {
			for range 3 { // told at 60, counted at 130 and 200
				s.hold("throttled", 65*time.Second)
				s.TargetResumed()
				pass(5 * time.Second)
			}
		}, "60 "+held+"1", "65 "+resumed, "360 "+held+"2", "360 "+resumed)
	})
	t.Run("OneThatLastsBeyondItsWindowIsResolvedWhenItEnds", func(t *testing.T) {
		inScene(t, func(s *scene) {
			s.hold("throttled", 65*time.Second)
			s.TargetResumed()
			s.hold("throttled", 335*time.Second) // counted at 125
			s.TargetResumed()
		}, "60 "+held+"1", "65 "+resumed, "360 "+held+"1", "400 "+resumed)
	})
	t.Run("HoldsOfOtherReasonsAreOtherCauses", func(t *testing.T) {
		inScene(t, func(s *scene) {
			s.hold("throttled", 65*time.Second)
			s.TargetResumed()
			s.hold("dns_failed", 65*time.Second)
			s.TargetResumed()
		}, "60 "+held+"1", "65 "+resumed, "125 target_held dns_failed x1", "130 target_resumed dns_failed x1")
	})
	t.Run("OneInWhichNothingIsTriedIsNot", func(t *testing.T) {
		inScene(t, func(s *scene) {
			s.hold("throttled", 4*time.Second)
			pass(time.Hour)
			s.TargetForgotten(time.Minute)
		})
	})
	t.Run("OneInWhichNothingIsTriedForLongIsToldWhenAProbeFails", func(t *testing.T) {
		inScene(t, func(s *scene) {
			s.hold("throttled", 4*time.Second)
			pass(10 * time.Minute)
			s.TargetFailed(0)
			s.TargetResumed()
		}, "604 "+held+"1", "604 "+resumed)
	})
	t.Run("APauseThatTheLedgerAskedForIsAFailureThatGoesOn", func(t *testing.T) {
		inScene(t, func(s *scene) {
			s.TargetFailed(10 * time.Minute)
			s.TargetHeld("throttled")
			pass(10 * time.Minute)
			s.TargetResumed()
		}, "60 "+held+"1", "600 "+resumed)
	})
	t.Run("OneThatIsForgottenIsResolved", func(t *testing.T) {
		inScene(t, func(s *scene) {
			s.hold("throttled", 2*time.Minute)
			pass(20 * time.Second)
			s.TargetForgotten(20 * time.Second)
		}, "60 "+held+"1", "140 "+resumed)
	})
	t.Run("OneThatAnotherWriterStillMeetsIsNotForgotten", func(t *testing.T) {
		inScene(t, func(s *scene) {
			s.hold("throttled", 2*time.Minute)
			pass(19*time.Second - 1) // the last failure was a second before
			s.TargetForgotten(20 * time.Second)
			if hold, held := s.TargetHold(); !held || hold.Reason != "throttled" || !hold.Since.Equal(s.began) {
				t.Errorf("the hold is %v, %v", hold, held)
			}
			s.TargetResumed()
			if _, held := s.TargetHold(); held {
				t.Error("a hold that is over is told of")
			}
		}, "60 "+held+"1", "138.999999999 "+resumed)
	})
	t.Run("AStopAmidOneResolvesNothing", func(t *testing.T) {
		inScene(t, func(s *scene) {
			s.hold("throttled", 65*time.Second)
			s.TargetResumed()
			s.hold("throttled", 65*time.Second) // counted
			s.TargetResumed()
			s.hold("throttled", time.Second)
			s.CloseAlerts()
		}, "60 "+held+"1", "65 "+resumed, "131 "+held+"1")
	})
}

func TestAStoreThatFailsIsToldAtOnceAndSoIsItsEnd(t *testing.T) {
	const failing, restored = "store_failing store_unavailable x", "store_restored store_unavailable x1"
	t.Run("Once", func(t *testing.T) {
		inScene(t, func(s *scene) {
			s.StoreFailing(fencerow.ErrStoreUnavailable)
			pass(30 * time.Minute)
			s.StoreRestored()
		}, "0 "+failing+"1", "1800 "+restored)
	})
	t.Run("SeveralInAWindowAreCountedAndEndResolved", func(t *testing.T) {
		inScene(t, func(s *scene) {
			for range 3 {
				s.StoreFailing(fencerow.ErrStoreUnavailable)
				pass(5 * time.Second)
				s.StoreRestored()
			}
		}, "0 "+failing+"1", "5 "+restored, "300 "+failing+"2", "300 "+restored)
	})
	t.Run("OneThatGoesOnIsNotResolvedByAStop", func(t *testing.T) {
		inScene(t, func(s *scene) {
			s.StoreFailing(fencerow.ErrStoreUnavailable)
			s.StoreRestored()
			s.StoreFailing(fencerow.ErrStoreUnavailable)
			s.CloseAlerts()
			s.StoreRestored()
		}, "0 "+failing+"1", "0 "+restored, "0 "+failing+"1")
	})
	t.Run("PollsThatFailForAnotherReasonAreAnotherCause", func(t *testing.T) {
		inScene(t, func(s *scene) {
			s.StoreFailing("")
			s.StoreRestored()
		}, "0 store_failing ledger_writer_run_once_failed x1", "0 store_restored ledger_writer_run_once_failed x1")
	})
}

func TestClaimsLostInSeriesAreTold(t *testing.T) {
	lose := func(s *scene, epoch fencerow.ClaimEpoch, rows int) {
		for range rows {
			s.ClaimLost(epoch, fencerow.LostReclaimed, "a", fencerow.OutcomeCompleted)
		}
	}
	t.Run("TheRowsOfOneClaimAreNoSeries", func(t *testing.T) {
		inScene(t, func(s *scene) {
			lose(s, 1, 1000)
			pass(time.Second)
			lose(s, 2, 1000)
			lose(s, 1, 1000)
		})
	})
	t.Run("ThreeClaimsAre", func(t *testing.T) {
		inScene(t, func(s *scene) {
			for epoch := range fencerow.ClaimEpoch(5) {
				lose(s, epoch, 10)
				pass(10 * time.Second)
			}
		}, "20 lease_lost reclaimed x3", "320 lease_lost reclaimed x2")
	})
	t.Run("FarApartTheyAreNot", func(t *testing.T) {
		inScene(t, func(s *scene) {
			for epoch := range fencerow.ClaimEpoch(20) {
				lose(s, epoch, 2)
				pass(lossWindow / 2)
			}
		})
	})
	t.Run("ManyAtOnceAreRememberedWithinABound", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var l losses
			sum := int64(0)
			for epoch := range fencerow.ClaimEpoch(1000) {
				sum += l.add(epoch, time.Now())
			}
			if sum != 1000 || len(l) != maxLosses || cap(l) > 4*maxLosses {
				t.Errorf("%d were told, %d are remembered in %d", sum, len(l), cap(l))
			}
		})
	})
}

func TestTheCausesKeptAreBoundedAndNothingGetsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sum int64
		sink := alerterFunc(func(a Alert) { sum += a.Count })
		o, _ := newObserver(t, FormatJSON, Alerting{Sink: sink})
		const made = 10 * maxCauses
		for i := range made {
			o.OutcomeFailed(Failure{Kind: "dead_lettered", Reason: fencerow.ReasonCode(fmt.Sprint("r", i))})
			o.ClaimLost(fencerow.ClaimEpoch(i), fencerow.LostReason(fmt.Sprint("l", i)), "a", DroppedNothing)
		}
		if n := len(o.alerts.causes); n > maxCauses+4 {
			t.Errorf("%d causes are kept", n)
		}
		o.CloseAlerts()
		if sum != 2*made {
			t.Errorf("the counts sum to %d, want %d", sum, 2*made)
		}
	})
}

type alerterFunc func(Alert)

func (f alerterFunc) Alert(a Alert) { f(a) }

func TestConcurrentAlertsAreAllCounted(t *testing.T) {
	var sum int64 // an Alerter is called by one goroutine at a time
	sink := alerterFunc(func(a Alert) { sum += a.Count })
	o, _ := newObserver(t, FormatJSON, Alerting{Sink: sink, HeldAfter: MinAlertTime, Window: MinAlertTime})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 500 {
				o.OutcomeFailed(Failure{Kind: "dead_lettered", Reason: "ledger_error"})
			}
		})
	}
	wg.Wait()
	o.CloseAlerts()
	if sum != 4000 {
		t.Errorf("%d alerts were told of 4000", sum)
	}
}

func TestAnAlerterThatPanicsHurtsNobody(t *testing.T) {
	o, buf := newObserver(t, FormatJSON, Alerting{Sink: alerterFunc(func(Alert) { panic("secret") })})
	o.OutcomeFailed(Failure{Kind: "dead_lettered", Reason: "ledger_error", CorrelationID: "a"})
	o.OutcomeFailed(Failure{Kind: "dead_lettered", Reason: "throttled", CorrelationID: "a"})
	if got := buf.String(); strings.Count(got, "\n") != 4 || strings.Contains(got, "secret") {
		t.Errorf("log: %s", got)
	}
}
