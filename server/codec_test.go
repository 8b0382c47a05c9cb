package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/memstore"
	"github.com/fanonce/fanonce/server/store"
)

func aesKey(id string) server.AESKey {
	return server.AESKey{ID: id, Secret: bytes.Repeat([]byte(id), server.AESKeyBytes)[:server.AESKeyBytes]}
}

func newCodec(tb testing.TB, current string, others ...string) *server.AESGCM {
	tb.Helper()
	var keys []server.AESKey
	for _, id := range others {
		keys = append(keys, aesKey(id))
	}
	c, err := server.NewAESGCM(aesKey(current), keys...)
	require.NoError(tb, err)
	return c
}

func TestNewAESGCM_rejects(t *testing.T) {
	t.Parallel()
	secret := bytes.Repeat([]byte("topsecret"), 4)
	for _, tt := range []struct {
		name    string
		current server.AESKey
		others  []server.AESKey
		field   string
	}{
		{"31 bytes", server.AESKey{ID: "a", Secret: secret[:31]}, nil, "AESKey.Secret"},
		{"33 bytes", server.AESKey{ID: "a", Secret: secret[:33]}, nil, "AESKey.Secret"},
		{"no secret", server.AESKey{ID: "a"}, nil, "AESKey.Secret"},
		{"no ID", server.AESKey{Secret: secret[:32]}, nil, "AESKey.ID"},
		{"long ID", server.AESKey{ID: strings.Repeat("i", 33), Secret: secret[:32]}, nil, "AESKey.ID"},
		{"ID twice", server.AESKey{ID: "a", Secret: secret[:32]}, []server.AESKey{aesKey("a")}, "AESKey.ID"},
		{"bad other", aesKey("a"), []server.AESKey{{ID: "b", Secret: secret[:16]}}, "AESKey.Secret"},
	} {
		_, err := server.NewAESGCM(tt.current, tt.others...)
		var rejected *server.ConfigError
		require.ErrorAs(t, err, &rejected, tt.name)
		require.Equal(t, tt.field, rejected.Field, tt.name)
		require.NotContains(t, err.Error(), "topsecret", tt.name)
	}
}

func TestAESGCM(t *testing.T) {
	t.Parallel()
	c := newCodec(t, "a", "b")
	plain, associated := []byte("plain text"), []byte("record 1")
	sealed, err := c.Seal(plain, associated)
	require.NoError(t, err)
	require.NotContains(t, string(sealed), "plain")
	again, err := c.Seal(plain, associated)
	require.NoError(t, err)
	require.NotEqual(t, sealed, again, "nonces are random")
	opened, err := c.Open(sealed, associated)
	require.NoError(t, err)
	require.Equal(t, plain, opened)

	_, err = c.Open(sealed, []byte("record 2"))
	require.ErrorIs(t, err, server.ErrUnreadable, "of another record")
	for i := range sealed {
		damaged := bytes.Clone(sealed)
		damaged[i] ^= 1
		_, err := c.Open(damaged, associated)
		require.ErrorIs(t, err, server.ErrUnreadable, "byte %d changed", i)
		_, err = c.Open(sealed[:i], associated)
		require.ErrorIs(t, err, server.ErrUnreadable, "cut to %d bytes", i)
	}
	_, err = newCodec(t, "c").Open(sealed, associated)
	require.ErrorIs(t, err, server.ErrUnreadable)
	require.ErrorContains(t, err, `"a"`, "the missing key's ID")
	require.ErrorIs(t, err, errors.ErrUnsupported, "another process may have the key")
	opened, err = newCodec(t, "b", "a").Open(sealed, associated)
	require.NoError(t, err, "rotated")
	require.Equal(t, plain, opened)
}

func FuzzAESGCM_Open(f *testing.F) {
	c, err := server.NewAESGCM(aesKey("a"))
	require.NoError(f, err)
	sealed, err := c.Seal([]byte("plain"), []byte("record"))
	require.NoError(f, err)
	f.Add(sealed)
	f.Add([]byte{1, 255, 'a'})
	f.Add([]byte{1, 1, 'a'})
	f.Fuzz(func(t *testing.T, b []byte) {
		plain, err := c.Open(b, []byte("record"))
		if bytes.Equal(b, sealed) != (err == nil) {
			t.Fatalf("Open(%q) = %q, %v", b, plain, err)
		}
	})
}

// sealedService is a route over store with a codec, and how often it ran.
func sealedService(tb testing.TB, s store.Store, cfg server.Config, runs *atomic.Int64) http.Handler {
	tb.Helper()
	return newRoute(tb, newGuard(tb, s, cfg), server.Keyed, answer(http.StatusOK, runs))
}

func TestCodec_rotation(t *testing.T) {
	t.Parallel()
	var runs atomic.Int64
	s, seen := memstore.New(), new(witness)
	old := sealedService(t, s, server.Config{Codec: newCodec(t, "a"), Observer: seen}, &runs)
	requireAnswer(t, send(old, "k", "b"), http.StatusOK, firstAnswer, false)
	requireAnswer(t, send(old, "k", "b"), http.StatusOK, firstAnswer, true)
	require.NotContains(t, string(readRecord(t, s, seen).Answer.Envelope), "run")

	rotated := sealedService(t, s, server.Config{Codec: newCodec(t, "b", "a")}, &runs)
	requireAnswer(t, send(rotated, "k", "b"), http.StatusOK, firstAnswer, true)

	forgot := sealedService(t, s, server.Config{Codec: newCodec(t, "b"), Observer: seen}, &runs)
	requireCode(t, send(forgot, "k", "b"), wire.RecordUnreadable)
	require.Equal(t, 1, seen.count(server.EventSealError))
	requireCode(t, send(sealedService(t, s, server.Config{}, &runs), "k", "b"), wire.RecordUnreadable)
	requireCode(t, send(forgot, "k", "other"), wire.KeyReused)
	require.EqualValues(t, 1, runs.Load(), "what cannot be read never runs again")
}

// Only a guard whose Codec has OpenPlain reads plain records: a plain record cannot replace a sealed one elsewhere.
func TestCodec_plainRecords(t *testing.T) {
	t.Parallel()
	var runs atomic.Int64
	s := memstore.New()
	send(sealedService(t, s, server.Config{}, &runs), "k", "b")
	requireCode(t, send(sealedService(t, s, server.Config{Codec: newCodec(t, "a")}, &runs), "k", "b"), wire.RecordUnreadable)
	migrating := sealedService(t, s, server.Config{Codec: introduction{Codec: newCodec(t, "a")}}, &runs)
	requireAnswer(t, send(migrating, "k", "b"), http.StatusOK, firstAnswer, true)
	require.EqualValues(t, 1, runs.Load())
}

// A sealed answer belongs to its key and its status.
func TestCodec_answersCannotBeMoved(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		move func(from, to *store.Record)
		want wire.Code
	}{
		{"to another key", func(from, to *store.Record) { to.Answer = from.Answer }, wire.RecordUnreadable},
		{"to another status", func(_, to *store.Record) { to.Answer.Status = http.StatusCreated }, wire.RecordUnreadable},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var runs atomic.Int64
			s := &forger{TxStore: memstore.New()}
			h := sealedService(t, s, server.Config{Codec: newCodec(t, "a")}, &runs)
			send(h, "from", "b")
			send(h, "to", "b")
			s.forge = tt.move
			requireCode(t, send(h, "to", "b"), tt.want)
			require.EqualValues(t, 2, runs.Load())
		})
	}
}

// An older answer of the same key, put back by hand without its token and fence, is not replayed. It belongs to an
// earlier owner: the key was forgotten and used again, or a person settled it.
func TestCodec_olderAnswerOfTheSameKey(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		back func(older, rec *store.Record) // the parts of the older record that are put back
		want wire.Code                      // "": the replay of the older answer
	}{
		{"the answer", func(older, rec *store.Record) { rec.Answer = older.Answer }, wire.RecordUnreadable},
		{"with its fence", func(older, rec *store.Record) { rec.Answer, rec.Fence = older.Answer, older.Fence }, wire.RecordUnreadable},
		{"with its token", func(older, rec *store.Record) { rec.Answer, rec.Token = older.Answer, older.Token }, wire.RecordUnreadable},
		{"the whole row", func(older, rec *store.Record) {
			rec.Answer, rec.Token, rec.Fence = older.Answer, older.Token, older.Fence
		}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var runs atomic.Int64
			seen, s := new(witness), &forger{TxStore: memstore.New()}
			cfg := server.Config{Codec: newCodec(t, "a"), Observer: seen}
			g := newGuard(t, s, cfg)
			h := newRoute(t, g, server.Keyed, answer(http.StatusOK, &runs))
			send(h, "k", "b")
			older := readRecord(t, s, seen)
			by := store.Audit{Actor: "ann", Reason: "a test"}
			require.NoError(t, g.Forget(t.Context(), older.ID, older.Fence, by))
			failing := newRoute(t, g, server.Keyed, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }))
			send(failing, "k", "b") // released, so that the next owner has another fence
			send(h, "k", "b")
			require.EqualValues(t, 2, runs.Load())
			requireReplay(t, send(h, "k", "b"))
			s.forge = func(_, rec *store.Record) { tt.back(&older, rec) }
			w := send(h, "k", "b")
			if tt.want == "" {
				require.Equal(t, http.StatusOK, w.Code, "the documented limit: nothing in the row tells")
			} else {
				requireCode(t, w, tt.want)
			}
			require.EqualValues(t, 2, runs.Load())
		})
	}
}

// A person's answer belongs to the resolution that recorded it.
func TestCodec_resolvedAnswer(t *testing.T) {
	t.Parallel()
	var runs atomic.Int64
	seen, s := new(witness), memstore.New()
	g := newGuard(t, s, server.Config{Codec: newCodec(t, "a"), Observer: seen})
	panicking := newRoute(t, g, server.Opaque, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("died") }))
	func() {
		defer func() { _ = recover() }()
		send(panicking, "k", "b")
	}()
	rec := readRecord(t, s, seen)
	require.Equal(t, server.StateUnknown, rec.State)
	by := store.Audit{Actor: "ann", Reason: "a test"}
	require.NoError(t, g.Resolve(t.Context(), rec.ID, rec.Fence, server.Happened(server.Response{Status: http.StatusOK, Body: []byte("by hand")}), by))
	h := newRoute(t, g, server.Opaque, answer(http.StatusOK, &runs))
	w := send(h, "k", "b")
	requireReplay(t, w)
	require.Equal(t, "by hand", w.Body.String())
	require.Zero(t, runs.Load())
}

// A guard without a codec does not state an answer of a key whose memo is sealed: the service could not read it. The
// guard may still decide that the key runs again.
func TestCodec_resolvedByAnotherGuard(t *testing.T) {
	t.Parallel()
	seen, s := new(witness), memstore.New()
	g := newGuard(t, s, server.Config{Codec: newCodec(t, "a"), Observer: seen})
	h, err := g.Route(server.Route{
		Name: "charge", Effect: server.Opaque, Memo: func(*http.Request, []byte) ([]byte, error) { return []byte("memo"), nil },
	}, answer(http.StatusInternalServerError, new(atomic.Int64)))
	require.NoError(t, err)
	require.Equal(t, http.StatusInternalServerError, send(h, "k", "b").Code)
	rec := readRecord(t, s, seen)
	by := store.Audit{Actor: "ann", Reason: "a test"}
	plain := newGuard(t, s, server.Config{})
	err = plain.Resolve(t.Context(), rec.ID, rec.Fence, server.Happened(server.Response{Status: http.StatusOK}), by)
	require.ErrorIs(t, err, server.ErrArgument)
	require.ErrorContains(t, err, "sealed memo")
	require.Equal(t, server.StateUnknown, readRecord(t, s, seen).State)
	require.NoError(t, plain.Resolve(t.Context(), rec.ID, rec.Fence, server.RunAgain(), by))
}

// A forger changes the record of the last claim with parts of the record of the first.
type forger struct {
	store.TxStore
	first store.ID
	forge func(from, to *store.Record)
}

func (f *forger) Claim(ctx context.Context, req store.ClaimRequest) (store.Record, bool, error) {
	rec, won, err := f.TxStore.Claim(ctx, req)
	if f.first == (store.ID{}) {
		f.first = req.ID
	}
	if f.forge != nil && err == nil {
		from, _ := f.Read(ctx, f.first)
		f.forge(&from, &rec)
	}
	return rec, won, err
}

// brokenCodec fails where it is told to.
type brokenCodec struct{ server.Codec }

func (brokenCodec) Seal([]byte, []byte) ([]byte, error) {
	return nil, errors.New("the key service is down")
}

// An answer that cannot be sealed is not stored in plain text. It is not stored at all, and the key still does not
// run again.
func TestCodec_sealFails(t *testing.T) {
	t.Parallel()
	var runs atomic.Int64
	s, seen := memstore.New(), new(witness)
	h := sealedService(t, s, server.Config{Codec: brokenCodec{newCodec(t, "a")}, Observer: seen}, &runs)
	requireAnswer(t, send(h, "k", "b"), http.StatusOK, firstAnswer, false)
	requireCode(t, send(h, "k", "b"), wire.ResponseGone)
	require.EqualValues(t, 1, runs.Load())
	require.Equal(t, 1, seen.count(server.EventSealError))
	require.Equal(t, 1, seen.count(server.EventTombstone))

	g := newGuard(t, s, server.Config{Codec: brokenCodec{newCodec(t, "a")}})
	opaque, err := g.Route(server.Route{Effect: server.Opaque, Memo: hopMemo}, answer(http.StatusOK, &runs))
	require.NoError(t, err)
	requireCode(t, send(opaque, "memo", "b"), wire.NotClaimed)
	require.EqualValues(t, 1, runs.Load(), "a claim without its memo could not be reconciled")
}

// A memo is for a new claim. A key that needs none is answered also while the codec seals nothing.
func TestCodec_memoThatCannotBeSealed(t *testing.T) {
	t.Parallel()
	s, codec := memstore.New(), newCodec(t, "a")
	routes := make([]http.Handler, 2)
	begun, end := make(chan struct{}), make(chan struct{})
	for i, c := range []server.Codec{codec, brokenCodec{codec}} {
		var err error
		routes[i], err = newGuard(t, s, server.Config{Codec: c}).Route(server.Route{Effect: server.Opaque, Memo: hopMemo},
			http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch r.Header.Get("How") {
				case "fail":
					w.WriteHeader(http.StatusInternalServerError)
				case "release":
					w.WriteHeader(http.StatusTooManyRequests)
				case "slow":
					close(begun)
					<-end
				}
			}))
		require.NoError(t, err)
	}
	sound, broken := routes[0], routes[1]
	send(sound, "done", "b")
	send(sound, "failed", "b", "How", "fail")
	send(sound, "released", "b", "How", "release")
	first := make(chan struct{})
	go func() {
		defer close(first)
		send(sound, "slow", "b", "How", "slow")
	}()
	<-begun
	requireAnswer(t, send(broken, "done", "b"), http.StatusOK, "", true)
	requireCode(t, send(broken, "done", "other"), wire.KeyReused)
	requireCode(t, send(broken, "failed", "b"), wire.OutcomeUnknown)
	requireCode(t, send(broken, "slow", "b", "Prefer", "wait=0"), wire.InProgress)
	close(end)
	<-first
	for _, key := range []string{"new", "released"} {
		w := send(broken, key, "b")
		requireCode(t, w, wire.NotClaimed)
		require.Contains(t, w.Body.String(), "cannot encrypt")
	}
	requireAnswer(t, send(sound, "released", "b"), http.StatusOK, "", false)
}

// panickingCodec panics with the bytes that it should seal.
type panickingCodec struct{ server.Codec }

func (panickingCodec) Seal(plain, _ []byte) ([]byte, error)  { panic(string(plain)) }
func (panickingCodec) Open(sealed, _ []byte) ([]byte, error) { panic(string(sealed)) }

// The answer is sealed after the work: a panic of the codec must not leave the
// key open for another run.
func TestCodec_panics(t *testing.T) {
	t.Parallel()
	for _, effect := range []server.Effect{server.Transactional, server.Keyed, server.Opaque} {
		var runs atomic.Int64
		s, seen := memstore.New(), new(witness)
		g := newGuard(t, s, server.Config{Codec: panickingCodec{}, Observer: seen})
		h := newRoute(t, g, effect, answer(http.StatusOK, &runs))
		requireAnswer(t, send(h, "k", "b"), http.StatusOK, firstAnswer, false)
		requireCode(t, send(h, "k", "b"), wire.ResponseGone)
		require.EqualValues(t, 1, runs.Load())
		require.ErrorContains(t, seen.all(server.EventSealError)[0].Err, "Codec panicked with a string")
		require.NotContains(t, seen.all(server.EventSealError)[0].Err.Error(), firstAnswer)

		good := newRoute(t, newGuard(t, s, server.Config{Codec: newCodec(t, "a")}), effect, answer(http.StatusOK, &runs))
		send(good, "sealed", "b")
		requireCode(t, send(h, "sealed", "b"), wire.RecordUnreadable)
		require.EqualValues(t, 2, runs.Load())
	}
}

// While a service is deployed process by process, each must read what the others
// store, at every step.
func TestCodec_deployedProcessByProcess(t *testing.T) {
	t.Parallel()
	keyed := func(version uint8) server.FingerprintKey {
		return server.FingerprintKey{Version: version, Secret: bytes.Repeat([]byte{version}, 32)}
	}
	steps := []struct {
		name string
		cfg  server.Config
	}{
		{"nothing", server.Config{}},
		{"opens", server.Config{
			Codec:           introduction{newCodec(t, "a"), true},
			FingerprintKeys: []server.FingerprintKey{{}, keyed(2)},
		}},
		{"seals", server.Config{Codec: introduction{Codec: newCodec(t, "a")}, FingerprintKeys: []server.FingerprintKey{keyed(2)}}},
		{"knows the next key", server.Config{
			Codec: introduction{Codec: newCodec(t, "a", "b")}, FingerprintKeys: []server.FingerprintKey{keyed(2), keyed(3)},
		}},
		{"seals with it", server.Config{
			Codec: introduction{Codec: newCodec(t, "b", "a")}, FingerprintKeys: []server.FingerprintKey{keyed(3), keyed(2)},
		}},
	}
	for i := range steps[1:] {
		before, after := steps[i], steps[i+1]
		t.Run(before.name+" beside "+after.name, func(t *testing.T) {
			t.Parallel()
			var runs atomic.Int64
			s := memstore.New()
			one, other := sealedService(t, s, before.cfg, &runs), sealedService(t, s, after.cfg, &runs)
			send(one, "k1", "b")
			requireReplay(t, send(other, "k1", "b"))
			requireCode(t, send(other, "k1", "c"), wire.KeyReused)
			send(other, "k2", "b")
			requireReplay(t, send(one, "k2", "b"))
			requireCode(t, send(one, "k2", "c"), wire.KeyReused)
			require.EqualValues(t, 2, runs.Load())
		})
	}
}

func requireReplay(tb testing.TB, w *httptest.ResponseRecorder) {
	tb.Helper()
	require.Equal(tb, http.StatusOK, w.Code, w.Body)
	require.Equal(tb, "true", w.Header().Get(wire.HeaderReplayed))
}

func TestCodec_rejected(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		cfg   server.Config
		field string
	}{
		{"AESGCM not made by its constructor", server.Config{Codec: new(server.AESGCM)}, "Config.Codec"},
		{"nil AESGCM", server.Config{Codec: (*server.AESGCM)(nil)}, "Config.Codec"},
	} {
		_, err := server.NewGuard(memstore.New(), server.Unscoped, tt.cfg)
		var rejected *server.ConfigError
		require.ErrorAs(t, err, &rejected, tt.name)
		require.Equal(t, tt.field, rejected.Field, tt.name)
	}
}

// A logged configuration shows no secret.
func TestSecret_doesNotPrint(t *testing.T) {
	t.Parallel()
	const text = "0123456789abcdef0123456789abcdef"
	for _, v := range []any{
		server.Secret(text),
		server.AESKey{ID: "a", Secret: server.Secret(text)},
		&server.FingerprintKey{Version: 2, Secret: server.Secret(text)},
		server.Config{FingerprintKeys: []server.FingerprintKey{{Version: 2, Secret: server.Secret(text)}}},
	} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%q", "%d"} {
			printed := fmt.Sprintf(verb, v)
			require.NotContains(t, printed, text, verb)
			require.NotContains(t, printed, "30313233", verb)
			require.NotContains(t, printed, "48 49 50", verb)
		}
	}
	encoded, err := json.Marshal(server.AESKey{ID: "a", Secret: server.Secret(text)})
	require.NoError(t, err)
	require.JSONEq(t, `{"ID":"a","Secret":"[32 secret bytes]"}`, string(encoded))
}

func TestCodec_memo(t *testing.T) {
	t.Parallel()
	b := saying(server.StillUnknown(), nil)
	seen := new(witness)
	s := memstore.New()
	g, h, _ := charges(t, s, b, server.Config{Codec: newCodec(t, "a"), Observer: seen})
	send(h, "order-42", "b")
	require.NotContains(t, string(readRecord(t, s, seen).Memo), hopKey(t, "unscoped", "", "order-42").String())
	requireUndecided(t, send(h, "order-42", "b"), server.DefaultHandlerTimeout)
	require.Equal(t, hopKey(t, "unscoped", "", "order-42").String(), string(b.asked[0].Memo))
	stuck, err := g.ListStuck(t.Context(), store.ListRequest{})
	require.NoError(t, err)
	require.Equal(t, hopKey(t, "unscoped", "", "order-42").String(), string(stuck[0].Memo))
}

// A memo belongs to the claim that it was made for.
func TestCodec_olderMemoOfTheSameKey(t *testing.T) {
	t.Parallel()
	seen, s := new(witness), &memoForger{TxStore: memstore.New()}
	g := newGuard(t, s, server.Config{Codec: newCodec(t, "a"), Observer: seen})
	h, err := g.Route(server.Route{Effect: server.Opaque, Memo: hopMemo}, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }))
	require.NoError(t, err)
	send(h, "k", "b")
	older := readRecord(t, s, seen)
	require.NoError(t, g.Forget(t.Context(), older.ID, older.Fence, store.Audit{Actor: "ann", Reason: "a test"}))
	send(h, "k", "b")
	for _, put := range []bool{false, true} {
		if put {
			s.memo = older.Memo
		}
		stuck, err := g.ListStuck(t.Context(), store.ListRequest{})
		require.NoError(t, err)
		require.Len(t, stuck, 1)
		require.Equal(t, put, stuck[0].Memo == nil)
	}
}

// A memoForger reads records with another memo.
type memoForger struct {
	store.TxStore
	memo []byte
}

func (f *memoForger) Read(ctx context.Context, id store.ID) (store.Record, error) {
	rec, err := f.TxStore.Read(ctx, id)
	if f.memo != nil {
		rec.Memo = f.memo
	}
	return rec, err
}

func TestFingerprintKeys(t *testing.T) {
	t.Parallel()
	key := func(version uint8) server.FingerprintKey {
		return server.FingerprintKey{Version: version, Secret: bytes.Repeat([]byte{version}, 32)}
	}
	var runs atomic.Int64
	s, seen := memstore.New(), new(witness)
	with := func(keys ...server.FingerprintKey) http.Handler {
		return sealedService(t, s, server.Config{FingerprintKeys: keys, Observer: seen}, &runs)
	}
	send(with(), "plain", "b")
	plain := readRecord(t, s, seen).Fingerprint
	require.EqualValues(t, 255, plain.Version)

	send(with(key(2)), "k", "b")
	for _, tt := range []struct {
		name string
		h    http.Handler
		key  string
		want wire.Code // "": a replay
	}{
		{"same key", with(key(2)), "k", ""},
		{"rotated", with(key(3), key(2)), "k", ""},
		{"forgotten", with(key(3)), "k", wire.RecordUnreadable},
		{"no keys any more", with(), "k", wire.RecordUnreadable},
		{"other secret", with(server.FingerprintKey{Version: 2, Secret: bytes.Repeat([]byte{9}, 32)}), "k", wire.KeyReused},
		{"from before there were keys", with(key(3), key(2)), "plain", ""},
	} {
		w := send(tt.h, tt.key, "b")
		if tt.want != "" {
			requireCode(t, w, tt.want)
			continue
		}
		require.Equal(t, "true", w.Header().Get(wire.HeaderReplayed), tt.name)
		requireCode(t, send(tt.h, tt.key, "other"), wire.KeyReused)
	}
	require.EqualValues(t, 2, runs.Load())
}

func TestFingerprintKeys_rejected(t *testing.T) {
	t.Parallel()
	secret := bytes.Repeat([]byte("topsecret"), 4)
	for _, tt := range []struct {
		name  string
		keys  []server.FingerprintKey
		field string
	}{
		{"version 0", []server.FingerprintKey{{Secret: secret}}, "FingerprintKey.Version"},
		{"version 1 is plain", []server.FingerprintKey{{Version: 1, Secret: secret}}, "FingerprintKey.Version"},
		{"version 255 is plain, too", []server.FingerprintKey{{Version: 255, Secret: secret}}, "FingerprintKey.Version"},
		{"twice", []server.FingerprintKey{{Version: 2, Secret: secret}, {Version: 2, Secret: secret}}, "FingerprintKey.Version"},
		{"short", []server.FingerprintKey{{Version: 2, Secret: secret[:31]}}, "FingerprintKey.Secret"},
	} {
		_, err := server.NewGuard(memstore.New(), server.Unscoped, server.Config{FingerprintKeys: tt.keys})
		var rejected *server.ConfigError
		require.ErrorAs(t, err, &rejected, tt.name)
		require.Equal(t, tt.field, rejected.Field, tt.name)
		require.NotContains(t, err.Error(), "topsecret", tt.name)
	}
}
