package observe

import (
	"fmt"
	"log/slog"

	"github.com/fourblocks2020/fencerow"
)

// Reasons of what was not expected, by what was being done.
const (
	reasonRunOnceFailed   = "ledger_writer_run_once_failed"
	reasonStartFailed     = "ledger_writer_start_failed"
	reasonRequestPanicked = "ops_request_panicked"
)

// ExcType returns the Go type of what was not expected, an error or the value of a panic; of an error, the
// innermost one.
func ExcType(cause any) string {
	if err, ok := cause.(error); ok {
		return fencerow.InnermostType(err)
	}
	return fmt.Sprintf("%T", cause)
}

// PollFailed logs an unexpected error of a poll, or the value of a panic in it: its Go type and nothing of
// its text.
func (o *Observer) PollFailed(cause any) {
	o.write(slog.LevelError, "poll failed",
		slog.String(keyReason, reasonRunOnceFailed), slog.String(keyExcType, safe(ExcType(cause))))
}

// StartFailed logs by its [ExcType] what kept a daemon from its first poll. To be called on the change only.
func (o *Observer) StartFailed(excType string) {
	o.write(slog.LevelError, "start failed",
		slog.String(keyReason, reasonStartFailed), slog.String(keyExcType, safe(excType)))
}

// RequestPanicked logs the value of a panic in a request to the ops listener by its Go type.
func (o *Observer) RequestPanicked(value any) {
	o.write(slog.LevelError, "request failed",
		slog.String(keyReason, reasonRequestPanicked), slog.String(keyExcType, safe(ExcType(value))))
}

// StoreBusy logs that several polls in a row could not claim, since another session held a lock, or every
// connection was in use. To be called on the change only.
func (o *Observer) StoreBusy() {
	o.write(slog.LevelWarn, "store busy", slog.String(keyReason, string(fencerow.ErrStoreBusy)))
}

// StoreFree logs that polls are answered again.
func (o *Observer) StoreFree() {
	o.write(slog.LevelInfo, "store free", slog.String(keyReason, string(fencerow.ErrStoreBusy)))
}

// Started logs that a daemon takes up its work, and the address that its ops listener is bound to; empty if
// there is none.
func (o *Observer) Started(worker fencerow.WorkerID, opsListen string) {
	attrs := []slog.Attr{slog.String(keyWorker, safe(worker))}
	if opsListen != "" {
		attrs = append(attrs, slog.String(keyOpsListen, safe(opsListen)))
	}
	o.write(slog.LevelInfo, "started", attrs...)
}

// Stopping logs that a daemon claims no more and lets its deliveries end.
func (o *Observer) Stopping(worker fencerow.WorkerID) {
	o.write(slog.LevelInfo, "stopping", slog.String(keyWorker, safe(worker)))
}

// Stopped logs that a daemon has ended.
func (o *Observer) Stopped(worker fencerow.WorkerID) {
	o.write(slog.LevelInfo, "stopped", slog.String(keyWorker, safe(worker)))
}

// Notice is something that an operator should put right. The vocabulary is closed.
type Notice string

// The notices.
const (
	// NoticeTokenFileReadable: others than its owner and group can read or change a token file.
	NoticeTokenFileReadable Notice = "token_file_readable_by_others"
	// NoticeNotReady: the database or its schema was not ready at start.
	NoticeNotReady Notice = "store_not_ready"
	// NoticeOpsFailed: the ops listener ended.
	NoticeOpsFailed Notice = "ops_listener_failed"
	// NoticeStopOverdue: stopping did not end within the grace period, so that the process leaves without
	// having given back all rows. They come back when their lease expires.
	NoticeStopOverdue Notice = "stop_overdue"
)

// RecordsDropped logs how many records were dropped since the start, since nobody read the log.
func (o *Observer) RecordsDropped(total int64) {
	o.write(slog.LevelWarn, "records dropped", slog.Int64(keyCount, total))
}

// Notify logs a notice as a warning.
func (o *Observer) Notify(n Notice) {
	o.write(slog.LevelWarn, "notice", slog.String(keyReason, safe(n)))
}
