package pgjournal

import (
	"bytes"
	"encoding/hex"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga/journal"
)

// full has a value in every field, down to the microsecond that is kept.
var full = journal.Entry{
	Step: "a.b[x]", Undo: true, Outcome: retry.NotSent, Pending: true, Attempts: 300,
	RetryAt: time.UnixMicro(1700000000000001).UTC(), At: time.UnixMicro(-1).UTC(), Result: []byte("\x00{}"),
	Forced: "ann", Status: 503, Code: wire.StoreUnavailable, Detail: "näh\n\xff", Problem: "later", Body: []byte("\x00{"),
}

// The tests of this file are of logs that are not sealed.

func logOf(entries []journal.Entry, revision int64) (log []byte, large [][]byte) {
	log, large, _ = sealer{}.logOf(journal.ID{}, entries, revision)
	return log, large
}

func parseLog(log []byte) (all []logged, ended bool, err error) {
	return sealer{}.parseLog(journal.ID{}, log)
}

func compacted(log []byte) ([]byte, error) { return sealer{}.compact(journal.ID{}, log) }

func entriesOf(t *testing.T, log []byte) []journal.Entry {
	t.Helper()
	parsed, _, err := parseLog(log)
	require.NoError(t, err)
	var entries []journal.Entry
	for _, l := range parsed {
		entries = append(entries, l.Entry)
	}
	return entries
}

func TestLog_roundTrip(t *testing.T) {
	t.Parallel()
	entries := []journal.Entry{full, {Step: "c.d"}, {Step: "c.d", Undo: true, Outcome: retry.Completed, Nothing: true}, {Step: "e.f", Result: []byte{}}, {Step: "g.h", Outcome: retry.Completed, Status: 201}}
	log, large := logOf(entries, 7)
	require.Empty(t, large)
	require.Equal(t, entries, entriesOf(t, log))
	require.Nil(t, entriesOf(t, nil))
}

// The last entry of each call counts, at the place of the call's first entry.
func TestLog_appended(t *testing.T) {
	t.Parallel()
	one, _ := logOf([]journal.Entry{{Step: "a.b", Pending: true}, {Step: "c.d"}}, 2)
	two, _ := logOf([]journal.Entry{{Step: "a.b", Undo: true}, {Step: "a.b", Attempts: 2}}, 3)
	want := []journal.Entry{{Step: "a.b", Attempts: 2}, {Step: "c.d"}, {Step: "a.b", Undo: true}}
	log := append(one, two...)
	require.Equal(t, want, entriesOf(t, log))
	short, err := compacted(log)
	require.NoError(t, err)
	require.Equal(t, want, entriesOf(t, short))
	require.Less(t, len(short), len(log))
}

func TestLog_largeResults(t *testing.T) {
	t.Parallel()
	big := bytes.Repeat([]byte("x"), largeResult+1)
	log, large := logOf([]journal.Entry{{Step: "a.b", Result: big}, {Step: "c.d", Result: big[1:]}, {Step: "e.f", Result: big}}, 9)
	require.Equal(t, [][]byte{big, big}, large)
	require.Less(t, len(log), largeResult+100)
	log, err := compacted(log)
	require.NoError(t, err)
	parsed, _, err := parseLog(log)
	require.NoError(t, err)
	require.Equal(t, place{9, 1}, parsed[0].elsewhere)
	require.Equal(t, place{}, parsed[1].elsewhere)
	require.Equal(t, place{9, 2}, parsed[2].elsewhere)
}

// The bytes are in databases: what was written once must be read for ever.
func TestLog_golden(t *testing.T) {
	t.Parallel()
	without := full
	without.Problem, without.Body = "", nil
	log, _ := logOf([]journal.Entry{without, {Step: "c.d", Outcome: retry.Completed, Attempts: 1, At: full.RetryAt, Result: []byte(`{}`)}}, 2)
	want := "3901df0101d80406612e625b785d018280f2818389850603007b7d03616e6eee071173746f72652d756e617661696c61626c" +
		"65066ec3a4680aff130114030203632e648280f28183898506027b7d"
	require.Equal(t, want, hex.EncodeToString(log))
}

// The text of the callee's problem has its own mark too.
func TestLog_goldenOfAProblem(t *testing.T) {
	t.Parallel()
	log, _ := logOf([]journal.Entry{{Step: "c.d", Outcome: retry.Rejected, Attempts: 1, Status: 402, Code: "declined", Problem: "No funds."}}, 2)
	require.Equal(t, "1f018005020203632e64a406086465636c696e656400094e6f2066756e64732e", hex.EncodeToString(log))
	require.Equal(t, "No funds.", entriesOf(t, log)[0].Problem)
}

// The body of an answer has a mark of its own, and so does one that was too long.
func TestLog_goldenOfABody(t *testing.T) {
	t.Parallel()
	log, _ := logOf([]journal.Entry{{Step: "c.d", Outcome: retry.Rejected, Body: []byte("{}")}, {Step: "e.f", BodyTooLong: true}}, 2)
	require.Equal(t, "0c01800802000"+"3632e64027b7d"+"0901801000000"+"3652e66", hex.EncodeToString(log))
	entries := entriesOf(t, log)
	require.Equal(t, "{}", string(entries[0].Body))
	require.True(t, entries[1].BodyTooLong)
}

// When a call was sent first has a mark of its own.
func TestLog_goldenOfFirstSent(t *testing.T) {
	t.Parallel()
	first := time.Unix(1, 0).UTC()
	log, _ := logOf([]journal.Entry{{Step: "c.d", Pending: true, FirstSent: first}}, 2)
	require.Equal(t, "0c018220000003632e64"+"80897a", hex.EncodeToString(log))
	require.Equal(t, first, entriesOf(t, log)[0].FirstSent)
}

// An undo that found nothing has its own mark. Older entries lack this mark.
func TestLog_goldenNothing(t *testing.T) {
	t.Parallel()
	log, _ := logOf([]journal.Entry{{Step: "c.d", Undo: true, Outcome: retry.Completed, Attempts: 1, Nothing: true}}, 2)
	require.Equal(t, "0901810203"+"0203632e64", hex.EncodeToString(log))
	require.True(t, entriesOf(t, log)[0].Nothing)
}

// A mark of a later version says that something follows, or is so, which this one does
// not know: nobody may act on the rest alone.
func TestLog_unknownMark(t *testing.T) {
	t.Parallel()
	for _, marks := range []string{"\x80\x80\x01", "\x82\x80\x01", "\x80\x80\x02"} {
		_, _, err := parseLog([]byte("\x07\x01" + marks + "\x00\x00\x00"))
		require.ErrorIs(t, err, errNewer, "%x", marks)
	}
	entries := entriesOf(t, []byte("\x06\x01\x80\x40\x00\x00\x00")) // the last that there is
	require.True(t, entries[0].Skipped)
}

// A log that was cut off where an entry ends is not ended.
func TestLog_end(t *testing.T) {
	t.Parallel()
	log, _ := logOf([]journal.Entry{full, {Step: "c.d", Attempts: 1}}, 3)
	first, _ := logOf([]journal.Entry{full}, 3)
	for _, tt := range []struct {
		name  string
		log   []byte
		n     int
		ended bool
	}{
		{"whole", endLog(slices.Clone(log)), 2, true}, {"without its end", log, 2, false}, {"one entry less", first, 1, false},
		{"nothing", nil, 0, false}, {"nothing but its end", endLog(nil), 0, true}, {"another end", endLog(endLog(slices.Clone(log))), 2, true},
		{"written on", append(endLog(slices.Clone(log)), first...), 2, false},
	} {
		all, ended, err := parseLog(tt.log)
		require.NoError(t, err, tt.name)
		require.Len(t, all, tt.n, tt.name)
		require.Equal(t, tt.ended, ended, tt.name)
		short, err := compacted(tt.log)
		require.NoError(t, err, tt.name)
		_, ended, err = parseLog(short)
		require.NoError(t, err, tt.name)
		require.Equal(t, tt.ended, ended, "%s, compacted", tt.name)
	}
}

func TestFailure_roundTrip(t *testing.T) {
	t.Parallel()
	for _, f := range []*journal.Failure{nil, {}, {
		Reason: journal.ReasonStep, Step: "a.b", Undo: true, Outcome: retry.Rejected, Status: 402, Code: wire.KeyReused, Detail: "no money",
	}, {Reason: journal.ReasonStep, Code: "declined", Problem: "No funds."},
		{Problem: "No funds.", Body: []byte("{}")}, {Body: []byte{}}, {BodyTooLong: true}, {Problem: "No funds.", BodyTooLong: true}} {
		got, err := unpackFailure(packFailure(f))
		require.NoError(t, err)
		require.Equal(t, f, got)
	}
}

// The bytes are in databases, too: those of before there were bodies, and those with one.
func TestFailure_golden(t *testing.T) {
	t.Parallel()
	f := journal.Failure{Reason: "step", Step: "c.d", Outcome: retry.Rejected, Status: 402, Code: "x", Detail: "y"}
	const plain = "010473746570" + "03632e64" + "00" + "02" + "a406" + "0178" + "0179"
	for _, tt := range []struct {
		problem string
		body    []byte
		tooLong bool
		want    string
	}{
		{"", nil, false, plain}, {"z", nil, false, plain + "017a"},
		{"z", []byte("{}"), false, plain + "017a" + "01027b7d"}, {"", []byte("{}"), false, plain + "00" + "01027b7d"},
		{"", nil, true, plain + "00" + "02"},
	} {
		f.Problem, f.Body, f.BodyTooLong = tt.problem, tt.body, tt.tooLong
		require.Equal(t, tt.want, hex.EncodeToString(packFailure(&f)))
		got, err := unpackFailure(packFailure(&f))
		require.NoError(t, err)
		require.Equal(t, f, *got)
	}
	for _, end := range []string{"\x00\x00", "\x00\x03", "\x00\x02\x00", "\x00\x01", "\x00\x01\x02x"} {
		f.Problem, f.Body, f.BodyTooLong = "", nil, false
		_, err := unpackFailure(append(packFailure(&f), end...))
		require.ErrorIs(t, err, errUnreadable, "%x", end)
	}
}

// Whatever is in the column: it is read as what was written, or refused.
func FuzzParseLog(f *testing.F) {
	log, _ := logOf([]journal.Entry{full, {Step: "a.b", Outcome: retry.Completed, Result: []byte(`{}`)}}, 3)
	f.Add(log)
	f.Add(append(slices.Clone(log), log...))
	f.Add(log[:len(log)-1])
	f.Add(endLog(log))
	f.Add([]byte("\x05\x01\x00\x09\x00\x00"))     // an outcome that there is not
	f.Add([]byte("\x05\x02\x00\x00\x00\x00"))     // another version
	f.Add([]byte("\x06\x01\x00\x00\x00\x00\x00")) // more than an entry
	f.Add([]byte("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"))
	f.Fuzz(func(t *testing.T, data []byte) {
		parsed, _, err := parseLog(data)
		if err != nil {
			return
		}
		again := []byte{}
		for i := range parsed {
			again = (*packed)(&again).appendBytes(parsed[i].pack())
		}
		twice, _, err := parseLog(again)
		require.NoError(t, err)
		for i := range parsed {
			parsed[i].raw, twice[i].raw = nil, nil
		}
		require.Equal(t, parsed, twice)
	})
}

func FuzzUnpackFailure(f *testing.F) {
	f.Add(packFailure(&journal.Failure{Reason: journal.ReasonTimeout, Step: "a.b", Detail: "d"}))
	f.Add(packFailure(&journal.Failure{Reason: journal.ReasonStep, Body: []byte("{}")}))
	f.Add([]byte{})
	f.Add([]byte("\x01\x00\x00\x00\x09\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		failure, err := unpackFailure(data)
		if err != nil || failure == nil {
			return
		}
		again, err := unpackFailure(packFailure(failure))
		require.NoError(t, err)
		require.Equal(t, failure, again)
	})
}
