package servertest

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"github.com/fanonce/fanonce/server"
)

// difference names the fields in which got is not want, or returns "". Now is
// no part of the comparison, and times may lose what is finer than stores keep.
func difference(got, want server.Record) string {
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
	differ(got.Deaths == want.Deaths, "Deaths", got.Deaths, want.Deaths)
	differ(got.MaybeRan == want.MaybeRan, "MaybeRan", got.MaybeRan, want.MaybeRan)
	differ(sameTime(got.CreatedAt, want.CreatedAt), "CreatedAt", got.CreatedAt, want.CreatedAt)
	differ(sameTime(got.FirstSent, want.FirstSent), "FirstSent", got.FirstSent, want.FirstSent)
	differ(sameTime(got.LeaseUntil, want.LeaseUntil), "LeaseUntil", got.LeaseUntil, want.LeaseUntil)
	differ(sameTime(got.ExpiresAt, want.ExpiresAt), "ExpiresAt", got.ExpiresAt, want.ExpiresAt)
	differ(sameTime(got.ReplayUntil, want.ReplayUntil), "ReplayUntil", got.ReplayUntil, want.ReplayUntil)
	differ(got.Answer.Status == want.Answer.Status, "Answer.Status", got.Answer.Status, want.Answer.Status)
	differ(sameBytes(got.Answer.Envelope, want.Answer.Envelope), "Answer.Envelope", brand(got.Answer.Envelope), brand(want.Answer.Envelope))
	differ(sameTime(got.AnswerUntil, want.AnswerUntil), "AnswerUntil", got.AnswerUntil, want.AnswerUntil)
	differ(got.Route == want.Route, "Route", got.Route, want.Route)
	differ(bytes.Equal(got.Memo, want.Memo), "Memo", brand(got.Memo), brand(want.Memo))
	return strings.Join(d, "; ")
}

// sameTime compares to the microsecond, which is what databases keep.
func sameTime(a, b time.Time) bool {
	return a.IsZero() == b.IsZero() && a.Sub(b).Abs() < time.Microsecond
}

// sameBytes also tells nil, which is no answer to replay, from empty.
func sameBytes(a, b []byte) bool {
	return (a == nil) == (b == nil) && bytes.Equal(a, b)
}

// brand says which bytes these are without printing a megabyte.
func brand(b []byte) string {
	if b == nil {
		return "nil"
	}
	return fmt.Sprintf("%d bytes %.20q", len(b), b)
}

func describe(r server.Record) string {
	return fmt.Sprintf("state %d, effect %d, fence %d, deaths %d, maybe ran %v, lease left %v, status %d",
		r.State, r.Effect, r.Fence, r.Deaths, r.MaybeRan, r.LeaseLeft(), r.Answer.Status)
}
