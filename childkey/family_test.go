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

func TestFamily_Child(t *testing.T) {
	t.Parallel()
	family := childkey.NewFamily(parent)
	one, other := [32]byte{1}, [32]byte{2}
	first, err := family.Child(one, "payment", "charge")
	require.NoError(t, err)
	want, err := childkey.Derive(parent, "payment", "charge")
	require.NoError(t, err)
	require.True(t, first == want)

	again, err := family.Child(one, "payment", "charge")
	require.NoError(t, err, "the same payload is a re-drive")
	require.True(t, again == first)

	key, err := family.Child(other, "payment", "charge")
	require.ErrorIs(t, err, childkey.ErrDuplicateChild)
	require.True(t, key.IsZero())
	require.Contains(t, err.Error(), "payment charge")

	_, err = family.Child(other, "payment", "charge", "2")
	require.NoError(t, err, "a discriminator makes it another child")
	_, err = family.Child(one, "payment", "charge")
	require.NoError(t, err, "the refused payload must not have replaced the first")
	require.True(t, family.Parent() == parent)
}

func TestFamily_encodingsShareTheTuple(t *testing.T) {
	t.Parallel()
	family := childkey.NewFamily(parent)
	sum, err := family.Sum([32]byte{1}, "payment", "charge")
	require.NoError(t, err)
	want, err := childkey.Sum(parent, "payment", "charge")
	require.NoError(t, err)
	require.True(t, sum == want)
	_, err = family.Child([32]byte{2}, "payment", "charge")
	require.ErrorIs(t, err, childkey.ErrDuplicateChild)
}

func TestFamily_UseKeyed(t *testing.T) {
	t.Parallel()
	family := childkey.NewFamily(parent)
	sum, err := newKeyed(t, "k1", make([]byte, 16)).Sum(family.Parent(), "payment", "charge")
	require.NoError(t, err)
	require.NoError(t, family.Use(sum, [32]byte{1}))
	require.NoError(t, family.Use(sum, [32]byte{1}))
	require.ErrorIs(t, family.Use(sum, [32]byte{2}), childkey.ErrDuplicateChild)
}

func TestFamily_withoutParent(t *testing.T) {
	t.Parallel()
	for _, family := range []*childkey.Family{nil, {}, childkey.NewFamily(childkey.Key{})} {
		_, err := family.Child([32]byte{}, "payment", "charge")
		require.ErrorIs(t, err, childkey.ErrEmpty)
		require.True(t, family.Parent().IsZero())
	}
	var none *childkey.Family
	require.ErrorIs(t, none.Use(childkey.Hash{}, [32]byte{}), childkey.ErrEmpty)
	require.NoError(t, new(childkey.Family).Use(childkey.Hash{}, [32]byte{}))
}

// 32 goroutines use one tuple with 32 payloads: one wins.
func TestFamily_race(t *testing.T) {
	t.Parallel()
	family := childkey.NewFamily(parent)
	var won atomic.Int32
	var wg sync.WaitGroup
	for i := range 32 {
		wg.Go(func() {
			switch _, err := family.Child([32]byte{byte(i)}, "payment", "charge"); {
			case err == nil:
				won.Add(1)
			case !errors.Is(err, childkey.ErrDuplicateChild):
				t.Errorf("Child error = %v, want %v", err, childkey.ErrDuplicateChild)
			}
			if _, err := family.Child([32]byte{byte(i)}, "payment", "charge", fmt.Sprint(i)); err != nil {
				t.Errorf("Child with a discriminator of its own: %v", err)
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
	used, err := f.Sum([32]byte{1}, "payment", "charge")
	require.NoError(t, err)
	count := func(f *childkey.Family, child childkey.Hash) (before any) {
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
		require.Nil(t, count(f, childkey.Hash{7}), "it was not used")
		require.Nil(t, count(nil, used))
	}
}
