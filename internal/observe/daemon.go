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

// StoreFailing logs that polls fail, several in a row, and raises an alert. why is the store's code; none
// means that they fail for another reason than the store. To be called on the change only.
func (o *Observer) StoreFailing(why fencerow.Code) {
	if why == "" {
		why = reasonRunOnceFailed
	}
	o.write(slog.LevelWarn, "store failing", slog.String(keyReason, reason(fencerow.ReasonCode(why))))
	o.alerts.mu.Lock()
	defer o.alerts.mu.Unlock()
	s := &o.alerts.store
	*s = spell{reason: fencerow.ReasonCode(why), going: true}
	o.begins(s, AlertStoreFailing)
}

// StoreRestored logs that polls are good again.
func (o *Observer) StoreRestored() {
	o.alerts.mu.Lock()
	defer o.alerts.mu.Unlock()
	s := &o.alerts.store
	o.write(slog.LevelInfo, "store restored", slog.String(keyReason, reason(s.reason)))
	o.ends(s, AlertStoreRestored)
}

// InstanceHeld logs that an operator has put the instance on hold. To be called on the change only.
func (o *Observer) InstanceHeld() { o.write(slog.LevelInfo, "instance held") }

// InstanceResumed logs that the hold of the instance is over.
func (o *Observer) InstanceResumed() { o.write(slog.LevelInfo, "instance resumed") }

// Started logs that a daemon of a version takes up its work, and the address that its ops listener is bound
// to; empty if there is none.
func (o *Observer) Started(worker fencerow.WorkerID, version, opsListen string) {
	attrs := []slog.Attr{slog.String(keyWorker, safe(worker)), slog.String(keyVersion, safe(version))}
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
	// NoticeTokenFileReadable: others than its owner and group can read or change the file that a setting names.
	NoticeTokenFileReadable Notice = "token_file_readable_by_others"
	// NoticeTokenFileUnreadable: the file that a setting names cannot be read any more, or holds no token.
	NoticeTokenFileUnreadable Notice = "token_file_unreadable"
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

// FileNotice logs a notice about the file that a setting names; never the file's own name.
func (o *Observer) FileNotice(n Notice, setting string) {
	o.write(slog.LevelWarn, "notice", slog.String(keyReason, safe(n)), slog.String(keySetting, safe(setting)))
}

// NotReady logs that the database was not ready at start, and its code; none means that it is not the
// database.
func (o *Observer) NotReady(code fencerow.Code) {
	if code == "" {
		code = reasonStartFailed
	}
	o.write(slog.LevelWarn, "notice",
		slog.String(keyReason, string(NoticeNotReady)), slog.String(keyCode, reason(fencerow.ReasonCode(code))))
}

// Notify logs a notice as a warning.
func (o *Observer) Notify(n Notice) {
	o.write(slog.LevelWarn, "notice", slog.String(keyReason, safe(n)))
}
