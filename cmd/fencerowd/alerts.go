package main

import (
	"sync"
	"time"

	"github.com/fourblocks2020/fencerow/internal/daemon"
	"github.com/fourblocks2020/fencerow/internal/observe"
	"github.com/fourblocks2020/fencerow/internal/webhook"
)

// lastAlerts is how much of the grace period is kept for alerts that the webhook's receiver has not got yet;
// nothing without a webhook.
func lastAlerts(sender *webhook.Sender, grace time.Duration) time.Duration {
	if sender == nil || grace/4 < daemon.MinGrace {
		return 0
	}
	return min(grace/4, 2*time.Second)
}

// startAlerts has alerts sent, and returns what tells and sends the last ones within a time, once however
// often it is called. sender may be nil.
func startAlerts(observer *observe.Observer, sender *webhook.Sender, within time.Duration) (stop func()) {
	if sender == nil {
		return observer.CloseAlerts
	}
	if sender.SecretFileExposed() {
		observer.FileNotice(observe.NoticeTokenFileReadable, "alert_webhook_secret_file")
	}
	sender.Start(observer)
	return sync.OnceFunc(func() {
		observer.CloseAlerts()
		_ = sender.Close(within) // what was not sent is told as dropped
	})
}
