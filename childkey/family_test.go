package childkey_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
)

// use uses the child of f with these names for the payload.
func use(f *childkey.Family, payload byte, discriminators ...string) error {
	key, err := childkey.Derive(f.Parent(), "payment", "charge", discriminators...)
	if err != nil {
		return err
	}
	return f.Use(key, [32]byte{payload})
}

func TestFamily_Use(t *testing.T) {
	t.Parallel()
	family := childkey.NewFamily(parent)
	require.NoError(t, use(family, 1))
	require.NoError(t, use(family, 1), "the same payload is a repeated call")
	require.ErrorIs(t, use(family, 2), childkey.ErrDuplicateChild)
	require.NoError(t, use(family, 2, "2"), "a discriminator makes it another child")
	require.NoError(t, use(family, 1), "the refused payload must not have replaced the first")
	require.True(t, family.Parent() == parent)
}

func TestFamily_withoutParent(t *testing.T) {
	t.Parallel()
	for _, family := range []*childkey.Family{nil, {}, childkey.NewFamily(childkey.Key{})} {
		require.True(t, family.Parent().IsZero())
	}
	var none *childkey.Family
	require.ErrorIs(t, none.Use(childkey.Key{}, [32]byte{}), childkey.ErrEmpty)
	require.NoError(t, new(childkey.Family).Use(childkey.Key{}, [32]byte{}))
}

// 32 goroutines use one tuple with 32 payloads: one wins.
func TestFamily_race(t *testing.T) {
	t.Parallel()
	family := childkey.NewFamily(parent)
	var won atomic.Int32
	var wg sync.WaitGroup
	for i := range 32 {
		wg.Go(func() {
			switch err := use(family, byte(i)); {
			case err == nil:
				won.Add(1)
			case !errors.Is(err, childkey.ErrDuplicateChild):
				t.Errorf("Use error = %v, want %v", err, childkey.ErrDuplicateChild)
			}
			if err := use(family, byte(i), fmt.Sprint(i)); err != nil {
				t.Errorf("Use with a discriminator of its own: %v", err)
			}
		})
	}
	wg.Wait()
	if got := won.Load(); got != 1 {
		t.Errorf("%d payloads got the key, want 1", got)
	}
}

// What is noted of a child is there for the next one who asks, and of nothing else.
func TestFamily_Note(t *testing.T) {
	t.Parallel()
	f := childkey.NewFamily(childkey.MustParse("p"))
	used := childkey.MustParse("used")
	require.NoError(t, f.Use(used, [32]byte{1}))
	count := func(f *childkey.Family, child childkey.Key) (before any) {
		f.Note(child, func(noted any) any {
			before = noted
			n, _ := noted.(int)
			return n + 1
		})
		return before
	}
	require.Nil(t, count(f, used))
	require.Equal(t, 1, count(f, used))
	require.NoError(t, f.Use(used, [32]byte{1}), "using it again forgets nothing")
	require.Equal(t, 2, count(f, used))
	for range 2 {
		require.Nil(t, count(f, childkey.MustParse("unused")), "it was not used")
		require.Nil(t, count(nil, used))
	}
}
