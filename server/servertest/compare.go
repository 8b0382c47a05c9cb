package servertest

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"github.com/fanonce/fanonce/server/store"
)

// difference names the fields in which got is not want, or returns "". It does
// not compare Now, and it ignores differences of time below the precision of
// stores.
func difference(got, want store.Record) string {
	var d []string
	differ := func(same bool, field string, got, want any) {
		if !same {
			d = append(d, fmt.Sprintf("%s = %v, want %v", field, got, want))
		}
	}
	differ(got.ID == want.ID, "ID", got.ID, want.ID)
	differ(got.State == want.State, "State", got.State, want.State)
	differ(got.Effect == want.Effect, "Effect", got.Effect, want.Effect)
	differ(got.Fingerprint == want.Fingerprint, "Fingerprint", got.Fingerprint, want.Fingerprint)
	differ(got.Token == want.Token, "Token", got.Token, want.Token)
	differ(got.Fence == want.Fence, "Fence", got.Fence, want.Fence)
	differ(got.Parent == want.Parent, "Parent", got.Parent, want.Parent)
	differ(got.RecoveryAttempts == want.RecoveryAttempts, "RecoveryAttempts", got.RecoveryAttempts, want.RecoveryAttempts)
	differ(got.MaybeRan == want.MaybeRan, "MaybeRan", got.MaybeRan, want.MaybeRan)
	differ(sameTime(got.CreatedAt, want.CreatedAt), "CreatedAt", got.CreatedAt, want.CreatedAt)
	differ(sameTime(got.FirstSent, want.FirstSent), "FirstSent", got.FirstSent, want.FirstSent)
	differ(sameTime(got.LeaseUntil, want.LeaseUntil), "LeaseUntil", got.LeaseUntil, want.LeaseUntil)
	differ(sameTime(got.ExpiresAt, want.ExpiresAt), "ExpiresAt", got.ExpiresAt, want.ExpiresAt)
	differ(sameTime(got.ReplayUntil, want.ReplayUntil), "ReplayUntil", got.ReplayUntil, want.ReplayUntil)
	differ(got.FailedAttempts == want.FailedAttempts, "FailedAttempts", got.FailedAttempts, want.FailedAttempts)
	differ(got.Answer.Status == want.Answer.Status, "Answer.Status", got.Answer.Status, want.Answer.Status)
	differ(sameBytes(got.Answer.Envelope, want.Answer.Envelope), "Answer.Envelope", brand(got.Answer.Envelope), brand(want.Answer.Envelope))
	differ(sameTime(got.AnswerUntil, want.AnswerUntil), "AnswerUntil", got.AnswerUntil, want.AnswerUntil)
	differ(got.Asynchronous == want.Asynchronous, "Asynchronous", got.Asynchronous, want.Asynchronous)
	differ(got.Route == want.Route, "Route", got.Route, want.Route)
	differ(bytes.Equal(got.Memo, want.Memo), "Memo", brand(got.Memo), brand(want.Memo))
	return strings.Join(d, "; ")
}

// sameTime compares to the microsecond, the precision of databases.
func sameTime(a, b time.Time) bool {
	return a.IsZero() == b.IsZero() && a.Sub(b).Abs() < time.Microsecond
}

// sameBytes also distinguishes nil from empty: nil means that there is no answer to replay.
func sameBytes(a, b []byte) bool {
	return (a == nil) == (b == nil) && bytes.Equal(a, b)
}

// brand identifies the bytes without printing all of them.
func brand(b []byte) string {
	if b == nil {
		return "nil"
	}
	return fmt.Sprintf("%d bytes %.20q", len(b), b)
}

func describe(r store.Record) string {
	return fmt.Sprintf("state %d, effect %d, fence %d, deaths %d, maybe ran %v, lease left %v, status %d",
		r.State, r.Effect, r.Fence, r.RecoveryAttempts, r.MaybeRan, r.LeaseLeft(), r.Answer.Status)
}
