// Package webhook takes alerts to a receiver over HTTP, signed as Standard Webhooks asks
// (https://www.standardwebhooks.com). It is an [observe.Alerter].
//
// Taking an alert only queues it: a receiver that hangs, refuses or is away holds up no delivery and no poll,
// and a stop only for as long as [Sender.Close] is given. What finds no room, and what is given up after
// [maxAttempts], is counted; the log has every alert.
//
// Of an answer only the status counts. Why an alert did not arrive is a code of a closed vocabulary, never
// text: neither the address, which often holds a credential in its path, nor an error nor what the receiver
// says is shown anywhere (invariant I10).
package webhook
